package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

const (
	// sweepIdle is how long a sweeper may be idle while it holds the lock that every process
	// waits for. Then the server ends its transaction.
	sweepIdle = "20s"
	// sweepPart is how many hashes are deleted in one statement.
	sweepPart = 5000
	// erasePart is how many keys are removed at a time.
	erasePart = 500
	// sweepShare is the part of Config.Patience for which a sweep may keep others from writing.
	sweepShare = 3
)

// A view reads on the connection that holds the lock.
type view struct{ reads }

func (view) Stage(context.Context, string, io.Reader) (dag.Hash, int64, error) {
	return dag.Hash{}, 0, errors.New("stage a blob: the store is being swept")
}

// Sweep deletes the objects that choose returns, unless they are pinned or were put less than
// grace ago. choose runs while no process can write: it must not write, and be quick, or all is undone.
//
// Rows are deleted in one transaction, bytes stored elsewhere once it is durable: a crash
// in between leaves bytes that no row names, for Compact. Leases of tasks that have ended go with them.
func (s *Store) Sweep(
	ctx context.Context, grace time.Duration, choose func(store.View) ([]dag.Hash, error),
) ([]store.Entry, error) {
	gone, locs, err := s.sweep(ctx, grace, choose)
	if err == nil {
		for part := range slices.Chunk(locs, erasePart) {
			err = errors.Join(err, s.erase(ctx, part...))
		}
	}
	if err != nil {
		return gone, fmt.Errorf("sweep: %w", err)
	}
	return gone, nil
}

func (s *Store) sweep(
	ctx context.Context, grace time.Duration, choose func(store.View) ([]dag.Hash, error),
) (gone []store.Entry, locs []string, err error) {
	if err := s.alive(ctx); err != nil {
		return nil, nil, err
	}
	var tx pgx.Tx
	undo := func() {
		if tx != nil {
			tx.Rollback(context.WithoutCancel(ctx)) // no effect once committed
		}
	}
	defer undo()
	err = s.patiently(ctx, func(try context.Context) error {
		undo() // of a try that took too long
		tx, err = s.lock(try)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	limit := s.cfg.Patience / sweepShare
	quick, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex // a connection runs one query at a time
	with := func(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
		mu.Lock()
		defer mu.Unlock()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(quick, cancel)()
		return explain(ctx, f(ctx, tx.Conn()))
	}
	chosen, err := choose(view{reads{store: s, with: with, whole: with}})
	if err == nil {
		gone, locs, err = sweepRows(quick, tx, chosen, grace)
	}
	if err == nil {
		_, err = tx.Exec(quick, sweepLeases)
	}
	if err != nil && quick.Err() != nil && ctx.Err() == nil {
		return nil, nil, fmt.Errorf("nobody could write for %s; try again when the server is less busy: %w", limit, err)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return nil, nil, explain(ctx, err)
	}
	return gone, locs, nil
}

// sweepLeases deletes the leases of tasks that have ended or were removed, unless a process may still hold them. Their
// tokens are not given out again: a process that was thought dead may come back with one. A lease of neither a thread,
// a slot nor a task stays, but for those of workers.
const sweepLeases = `WITH named AS (
	SELECT name, coalesce(substring(name FROM '^(?:thread|notes)-(.*)$'), substring(name FROM '^slot-(.*)-[0-9]+$')) AS of
	FROM plait.leases
), gone AS (
	DELETE FROM plait.leases l USING named n LEFT JOIN plait.threads t ON t.id = coalesce(n.of, n.name)
		LEFT JOIN plait.threads r ON r.id = t.root
	WHERE l.name = n.name AND NOT plait.alive(l.handle)
		AND (l.name LIKE 'unable-%' OR l.name LIKE 'worker-%'
			OR coalesce(r.status NOT IN ('pending', 'running', 'blocked'), n.of IS NOT NULL))
	RETURNING token
)
UPDATE plait.counters SET value = greatest(value, (SELECT max(token) FROM gone)) WHERE name = 'token'`

// lock begins a transaction that keeps all processes from writing. Its connection returns to
// the pool when it ends.
func (s *Store) lock(ctx context.Context) (pgx.Tx, error) {
	tx, err := s.writers.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '"+sweepIdle+"'"); err == nil {
		_, err = tx.Exec(ctx, lockSQL, int64(lockKey))
	}
	if err != nil {
		tx.Rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	return tx, nil
}

// sweepRows deletes those of hs that may be deleted. It returns them in the order of hs, and
// where any of their bytes are stored elsewhere.
func sweepRows(ctx context.Context, tx pgx.Tx, hs []dag.Hash, grace time.Duration) (gone []store.Entry, locs []string,
	err error) {
	const q = "DELETE FROM plait.objects o WHERE hash = ANY ($1) AND put <= plait.millis() - $2" +
		" AND NOT EXISTS (SELECT 1 FROM plait.pins p WHERE p.hash = o.hash) RETURNING " + foundBare
	entries := make(map[dag.Hash]store.Entry, len(hs))
	for part := range slices.Chunk(hs, sweepPart) {
		keys := make([][]byte, len(part))
		for i := range part {
			keys[i] = part[i][:]
		}
		rows, err := tx.Query(ctx, q, keys, ceilMillis(grace))
		if err != nil {
			return nil, nil, err
		}
		for rows.Next() {
			f, err := scanFound(rows)
			if err != nil {
				rows.Close()
				return nil, nil, err
			}
			entries[f.Hash] = f.Entry
			if f.loc != "" {
				locs = append(locs, f.loc)
			}
		}
		if err := rows.Err(); err != nil {
			return nil, nil, err
		}
	}
	for _, h := range hs {
		if e, ok := entries[h]; ok {
			gone = append(gone, e)
			delete(entries, h)
		}
	}
	return gone, locs, nil
}

// foundBare is foundColumns without the bytes.
const foundBare = entryColumns + ", NULL::bytea, loc"

// ceilMillis rounds d up to milliseconds, so that what is younger by a fraction of one stays.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Compact removes bytes that no row names: those of blobs that were swept or never got a
// row. The server reclaims the space of rows by itself.
func (s *Store) Compact(ctx context.Context, grace time.Duration) error {
	if err := s.compact(ctx, grace); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

func (s *Store) compact(ctx context.Context, grace time.Duration) error {
	var now int64
	err := s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		// End the uploads of dead processes, which can no longer name their keys.
		const q = "WITH gone AS (DELETE FROM plait.uploads u WHERE NOT plait.alive(u.handle)) SELECT plait.millis()"
		return c.QueryRow(ctx, q).Scan(&now)
	})
	if err != nil {
		return err
	}
	before := time.UnixMilli(now - ceilMillis(grace))
	if err := s.dropOrphans(ctx, chunks{s.reads}, before); err != nil {
		return err
	}
	if s.cfg.Bucket == nil {
		return nil
	}
	return s.dropOrphans(ctx, s.cfg.Bucket, before)
}

// dropOrphans removes the keys of a bucket that neither an object nor an upload names.
func (s *Store) dropOrphans(ctx context.Context, b Bucket, before time.Time) error {
	var old []string
	drop := func() error {
		defer func() { old = old[:0] }()
		q := query{sql: "SELECT x.loc FROM unnest($1::text[]) x(loc) WHERE NOT EXISTS" +
			" (SELECT 1 FROM plait.objects o WHERE o.loc = x.loc)" +
			" AND NOT EXISTS (SELECT 1 FROM plait.uploads u WHERE u.loc = x.loc)",
			args: []any{old}}
		orphans, err := many(ctx, s.reads, "keys", q, func(rows pgx.Rows) (loc string, err error) {
			err = rows.Scan(&loc)
			return loc, err
		})
		if err == nil && len(orphans) > 0 {
			err = b.Delete(ctx, orphans...)
		}
		return err
	}
	for k, err := range b.List(ctx, "") {
		if err != nil {
			return err
		}
		if _, at, ok := placed(k.Key); !ok || at.After(before) {
			continue // not ours, which Check reports; or too young
		}
		if old = append(old, k.Key); len(old) == erasePart {
			if err := drop(); err != nil {
				return err
			}
		}
	}
	if len(old) == 0 {
		return nil
	}
	return drop()
}
