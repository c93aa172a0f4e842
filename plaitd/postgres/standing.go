package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Tokens returns how often each of the named leases was taken. A lease that never was is absent.
func (s *Store) Tokens(ctx context.Context, names []string) (map[string]int64, error) {
	tokens := make(map[string]int64, len(names))
	err := s.patiently(ctx, func(ctx context.Context) error {
		return on(ctx, s.readers, func(c *pgx.Conn) error {
			rows, err := c.Query(ctx, "SELECT name, token FROM plait.leases WHERE name = ANY($1)", names)
			if err != nil {
				return err
			}
			var name string
			var token int64
			_, err = pgx.ForEachRow(rows, []any{&name, &token}, func() error {
				tokens[name] = token
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	return tokens, nil
}

// Schema returns the version of a database's schema, 0 for none, and the one that Migrate would bring it to. It
// changes nothing. It returns ErrNewer if a newer Plait has migrated the database.
func Schema(ctx context.Context, cfg Config) (found, now int, err error) {
	c, err := connect(ctx, cmp.Or(cfg.Direct, cfg.URL))
	if err != nil {
		return 0, 0, fmt.Errorf("read schema: %w", explain(ctx, err))
	}
	defer c.Close(context.WithoutCancel(ctx))
	if found, err = version(ctx, c); err != nil {
		return found, len(migrations), fmt.Errorf("read schema: %w", err)
	}
	return found, len(migrations), nil
}

// InBucket reports whether objects of a database are in a bucket.
func InBucket(ctx context.Context, cfg Config) (is bool, err error) {
	c, err := connect(ctx, cmp.Or(cfg.Direct, cfg.URL))
	if err == nil {
		defer c.Close(context.WithoutCancel(ctx))
		const q = "SELECT EXISTS (SELECT 1 FROM plait.objects WHERE loc < $1)" +
			" OR EXISTS (SELECT 1 FROM plait.objects WHERE loc > $2)"
		err = c.QueryRow(ctx, q, chunkPrefix, chunkPrefix+"~").Scan(&is)
	}
	if err != nil {
		return false, fmt.Errorf("look for objects in a bucket: %w", explain(ctx, err))
	}
	return is, nil
}

// logVersion is the version of the schema that has the log.
const logVersion = 4

// Unhashed returns how many events of a database are not in the log, which Migrate would add: all of them if it has no
// log. It changes nothing.
func Unhashed(ctx context.Context, cfg Config) (n int64, err error) {
	c, err := connect(ctx, cmp.Or(cfg.Direct, cfg.URL))
	if err != nil {
		return 0, fmt.Errorf("count events: %w", explain(ctx, err))
	}
	defer c.Close(context.WithoutCancel(ctx))
	v, err := version(ctx, c)
	q := "SELECT count(*) FROM plait.events"
	if v >= logVersion {
		q = "SELECT value - plait.size(log) FROM plait.counters WHERE name = 'pos'"
	}
	if err == nil && v > 0 {
		err = c.QueryRow(ctx, q).Scan(&n)
	}
	if err != nil {
		return 0, fmt.Errorf("count events: %w", explain(ctx, err))
	}
	return n, nil
}
