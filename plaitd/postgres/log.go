package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// Log returns the log over the journal. While Migrate hashes what was committed before, it is behind.
func (r reads) Log(ctx context.Context) (store.Log, error) {
	const q = "SELECT m.origin, s.value, p.log FROM plait.meta m, plait.counters s, plait.counters p" +
		" WHERE s.name = 'since' AND p.name = 'pos'"
	logs, err := many(ctx, r, "log", query{sql: q}, func(rows pgx.Rows) (log store.Log, err error) {
		var tree []byte
		if err := rows.Scan(&log.Origin, &log.Since, &tree); err != nil {
			return log, err
		}
		if log.Tree, err = merkle.Parse(tree); err != nil {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		return log, err
	})
	if err == nil && len(logs) != 1 {
		err = fmt.Errorf("read log: it is lost: %w", store.ErrCorrupt)
	}
	if err != nil {
		return store.Log{}, err
	}
	return logs[0], nil
}

// SetOrigin gives the log another origin. A role of workers may not.
func (s *Store) SetOrigin(ctx context.Context, origin string) error {
	err := s.patiently(ctx, func(ctx context.Context) error {
		return on(ctx, s.writers, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, "UPDATE plait.meta SET origin = $1", origin)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("set origin of the log: %w", err)
	}
	return nil
}

// entriesSQL selects all positions after $1, up to $2.
const entriesSQL = `SELECT g.pos, g.pos <= c.since, e.pos IS NOT NULL, e.seq, e.ts, e.type, e.task, e.thread,
		e.instance, e.attempt, e.payload, e.proof, t.secret, x.leaf
	FROM (
		SELECT greatest(p.value, plait.size(p.log)) AS last, s.value AS since FROM plait.counters p, plait.counters s
		WHERE p.name = 'pos' AND s.name = 'since'
	) c, generate_series($1::bigint + 1, least(c.last, $2::bigint)) g(pos)
	LEFT JOIN (SELECT * FROM plait.events WHERE pos > $1 AND pos <= $2) e ON e.pos = g.pos
	LEFT JOIN (SELECT * FROM plait.erased WHERE pos > $1 AND pos <= $2) x ON x.pos = g.pos
	LEFT JOIN plait.tasks t ON t.task = e.task
	ORDER BY g.pos`

// Entries returns what is kept of the positions beyond after.
func (r reads) Entries(ctx context.Context, after int64, limit int) ([]store.LogEntry, error) {
	q := query{sql: entriesSQL, whole: limit == 0}
	last := int64(math.MaxInt64)
	if limit > 0 {
		last = after + int64(limit)
	}
	q.given(after)
	q.given(last)
	lost := store.LostLeaf()
	return many(ctx, r, "entries", q, func(rows pgx.Rows) (store.LogEntry, error) {
		var (
			before, there                         bool
			pos                                   int64
			seq, ts                               *int64
			kind, task, thread, instance, attempt *string
			payload, proof, secret, leaf          []byte
		)
		err := rows.Scan(&pos, &before, &there, &seq, &ts, &kind, &task, &thread, &instance, &attempt, &payload, &proof,
			&secret, &leaf)
		if err != nil {
			return store.LogEntry{}, err
		}
		e := store.LogEntry{Pos: pos}
		switch {
		case there:
			e.Event = &store.Event{Pos: pos, Seq: *seq, TS: *ts, Type: *kind, Task: *task, Thread: *thread,
				Instance: *instance, Attempt: *attempt, Payload: payload, Proof: proof}
			copy(e.Secret[:], secret)
		case leaf == nil && before:
			e.Leaf = lost
		}
		if leaf != nil {
			e.Leaf, err = toHash(leaf)
		}
		return e, err
	})
}
