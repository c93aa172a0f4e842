package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

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
)

// migrations are run forward from the version found, all in one transaction. A released
// script is never changed; a change is a new script.
var migrations = []string{schema1 + rest1 + commit1 + leases1, schema2, schema3}

// oldest is the first version of Postgres that has all we need, in server_version_num's form.
const oldest = 140000

// migrateKey is the advisory lock of a migration: not that of writers, which continue until
// tables are locked.
const migrateKey = lockKey + 1

// Migrate brings the schema of a database up to date, creating it if necessary, and returns the
// versions before and after. It returns ErrNewer if a newer Plait has migrated the database.
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
	tx, err := c.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrateKey)); err != nil {
		return 0, err
	}
	if found, err = version(ctx, tx); err != nil {
		return 0, err
	}
	if found == len(migrations) {
		return found, nil
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
	if _, err := tx.Exec(ctx, "UPDATE plait.meta SET version = $1", len(migrations)); err != nil {
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
