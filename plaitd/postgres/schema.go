package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plait-run/plait/internal/record/store"
)

var (
	//go:embed schema1.sql
	schema1 string
	//go:embed rest1.sql
	rest1 string
	//go:embed commit1.sql
	commit1 string
	//go:embed leases1.sql
	leases1 string
	//go:embed schema2.sql
	schema2 string
	//go:embed schema3.sql
	schema3 string
	//go:embed schema4.sql
	schema4 string
	//go:embed commit4.sql
	commit4 string
	//go:embed schema5.sql
	schema5 string
)

// migrations are run forward from the version found, all in one transaction. A released
// script is never changed; a change is a new script.
var migrations = []string{schema1 + rest1 + commit1 + leases1, schema2, schema3, schema4 + commit4, schema5}

// oldest is the first version of Postgres that has all we need, in server_version_num's form.
const oldest = 140000

// migrateKey is the advisory lock of migrations.
const migrateKey = lockKey + 1

// hashPage is how many events Migrate hashes at a time, while writers wait: for some 50 ms.
const hashPage = 5000

// Migrate brings the schema of a database up to date, creating it if necessary, and returns the
// versions before and after. Then it hashes the events that are not in the log yet, in pages: others may commit
// meanwhile. If it is interrupted, commits and the next Migrate go on with that. It returns ErrNewer if a newer Plait
// has migrated the database.
func Migrate(ctx context.Context, cfg Config) (found, now int, err error) {
	found, err = migrate(ctx, cmp.Or(cfg.Direct, cfg.URL))
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", explain(ctx, err))
	}
	return found, len(migrations), nil
}

func migrate(ctx context.Context, dsn string) (found int, err error) {
	c, err := connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	var server int
	if err := c.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&server); err != nil {
		return 0, err
	}
	if server < oldest {
		return 0, fmt.Errorf("the server is Postgres %d, Plait needs %d or newer", server/10000, oldest/10000)
	}
	if found, err = upgrade(ctx, c); err != nil {
		return 0, err
	}
	for missing := int64(1); missing > 0; {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockSQL, int64(lockKey)); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT plait.catch_up($1)", hashPage).Scan(&missing)
		})
		if err != nil {
			return 0, fmt.Errorf("hash events: %w", err)
		}
	}
	return found, nil
}

// lockSQL waits for an advisory lock, which the transaction has until it ends.
const lockSQL = "SELECT pg_advisory_xact_lock($1)"

// upgrade runs the scripts that a database lacks.
func upgrade(ctx context.Context, c *pgx.Conn) (found int, err error) {
	tx, err := c.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, lockSQL, int64(migrateKey)); err != nil {
		return 0, err
	}
	if found, err = version(ctx, tx); err != nil || found == len(migrations) {
		return found, err
	}
	// Whoever commits locks it first, and tables later.
	if _, err := tx.Exec(ctx, lockSQL, int64(lockKey)); err != nil {
		return 0, err
	}
	if found == 0 {
		const first = "CREATE SCHEMA IF NOT EXISTS plait; CREATE TABLE plait.meta (version int NOT NULL);" +
			" INSERT INTO plait.meta VALUES (0)"
		if err := script(ctx, tx, first); err != nil {
			return 0, err
		}
	}
	for i := found; i < len(migrations); i++ {
		if err := script(ctx, tx, migrations[i]); err != nil {
			return 0, fmt.Errorf("bring the schema to version %d: %w", i+1, err)
		}
	}
	const done = "UPDATE plait.meta SET version = $1, origin = CASE origin WHEN '' THEN $2 ELSE origin END"
	if _, err := tx.Exec(ctx, done, len(migrations), store.NewOrigin(time.Now())); err != nil {
		return 0, err
	}
	return found, tx.Commit(ctx)
}

// script runs several statements.
func script(ctx context.Context, tx pgx.Tx, sql string) error {
	_, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Position > 0 && int(e.Position) <= len(sql) {
		line := 1 + strings.Count(sql[:e.Position-1], "\n")
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// connect returns a connection that belongs to no pool.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	settle(cfg, false)
	return pgx.ConnectConfig(ctx, cfg)
}

// connectToListen returns a connection on which a wait ends as soon as its context does: while a connection only
// listens there is no query to cancel, and no answer would come. heard receives the notifications.
func connectToListen(ctx context.Context, dsn string, heard pgconn.NotificationHandler) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	wait := cfg.BuildContextWatcherHandler
	settle(cfg, false)
	cfg.BuildContextWatcherHandler, cfg.OnNotification = wait, heard
	return pgx.ConnectConfig(ctx, cfg)
}

// version reads the version of the schema, 0 if there is none, and refuses a newer one.
func version(ctx context.Context, c interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (v int, err error) {
	var there bool
	if err := c.QueryRow(ctx, "SELECT to_regclass('plait.meta') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, err
	}
	if err := c.QueryRow(ctx, "SELECT version FROM plait.meta").Scan(&v); err != nil {
		return 0, err
	}
	if v > len(migrations) {
		return v, tooNew(v)
	}
	return v, nil
}

func tooNew(v int) error {
	return fmt.Errorf("schema version %d is newer than this Plait supports (%d); update Plait: %w", v, len(migrations),
		store.ErrNewer)
}
