package postgres

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// workerMay lists the privileges of a worker: it can read everything, add rows, and change those that hold the state of
// a task. It cannot change an event or the bytes of a node, delete anything of a task, or alter a table. What it writes
// is not checked: anyone who has its password can answer a question as anyone.
var workerMay = []string{
	"USAGE ON SCHEMA plait",
	"SELECT ON ALL TABLES IN SCHEMA plait",
	"EXECUTE ON ALL FUNCTIONS IN SCHEMA plait",
	"INSERT ON plait.objects, plait.chunks, plait.uploads, plait.pins, plait.threads, plait.attempts, plait.gates," +
		" plait.wishes, plait.counts, plait.events, plait.tasks, plait.applied, plait.handles, plait.leases",
	"UPDATE (put, kind) ON plait.objects",
	"UPDATE (seq) ON plait.tasks",
	"UPDATE ON plait.threads, plait.attempts, plait.gates, plait.wishes, plait.counts, plait.counters, plait.handles," +
		" plait.leases",
	"DELETE ON plait.uploads, plait.pins, plait.applied, plait.handles",
}

// GrantWorker grants a role of the server, which can log in and owns nothing, what a worker needs, and revokes
// whatever else it may do with the record. Call it again after each migration.
func GrantWorker(ctx context.Context, cfg Config, role string) error {
	if err := grantWorker(ctx, cfg, role); err != nil {
		return fmt.Errorf("grant role %s what a worker needs: %w", role, err)
	}
	return nil
}

func grantWorker(ctx context.Context, cfg Config, role string) error {
	dsn := cfg.URL
	if cfg.Direct != "" {
		dsn = cfg.Direct
	}
	c, err := connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	to := pgx.Identifier{role}.Sanitize()
	statements := []string{"REVOKE ALL ON ALL TABLES IN SCHEMA plait FROM " + to, "REVOKE ALL ON SCHEMA plait FROM " + to}
	for _, may := range workerMay {
		statements = append(statements, "GRANT "+may+" TO "+to)
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return script(ctx, tx, strings.Join(statements, ";\n")) })
}

// Unguarded reports whether the server admits a client that knows where the record is, but has neither password nor
// key. A Unix socket admits whoever can reach its file: such hosts are not tried.
func Unguarded(ctx context.Context, cfg Config) (bool, error) {
	for _, dsn := range []string{cfg.URL, cfg.Direct} {
		if dsn == "" {
			continue
		}
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return false, fmt.Errorf("look whether a password is asked for: %w", err)
		}
		c.Fallbacks = slices.DeleteFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return filepath.IsAbs(f.Host) })
		if filepath.IsAbs(c.Host) {
			if len(c.Fallbacks) == 0 {
				continue
			}
			next := c.Fallbacks[0]
			c.Host, c.Port, c.TLSConfig, c.Fallbacks = next.Host, next.Port, next.TLSConfig, c.Fallbacks[1:]
		}
		settle(c, false)
		c.Password = ""
		for _, t := range append(tlsOf(c.Fallbacks), c.TLSConfig) {
			if t != nil {
				t.Certificates, t.GetClientCertificate = nil, nil
			}
		}
		if conn, err := pgx.ConnectConfig(ctx, c); err == nil {
			conn.Close(ctx)
			return true, nil
		}
	}
	return false, nil
}

// Hosts returns all hosts that a client tries.
func Hosts(c *pgx.ConnConfig) []string {
	list := []string{c.Host}
	for _, way := range c.Fallbacks {
		list = append(list, way.Host)
	}
	return list
}

func tlsOf(ways []*pgconn.FallbackConfig) (list []*tls.Config) {
	for _, way := range ways {
		list = append(list, way.TLSConfig)
	}
	return list
}
