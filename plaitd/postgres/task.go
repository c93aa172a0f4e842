package postgres

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/store"
)

// taskSQL reads all of a task in one statement, and so in one snapshot. Each result has a
// kind, a row, a name and a number.
const taskSQL = `SELECT 'thread', row, id, 0::bigint FROM plait.threads WHERE task = $1
UNION ALL SELECT 'attempt', a.row, a.id, 0 FROM plait.attempts a JOIN plait.threads t ON t.id = a.thread
	WHERE t.task = $1 AND a.status = 'running'
UNION ALL SELECT 'gate', row, id, 0 FROM plait.gates WHERE task = $1 AND state = 'open'
UNION ALL SELECT 'wish', row, id, taken FROM plait.wishes WHERE task = $1 AND taken = 0
UNION ALL SELECT 'count', NULL, name, value FROM plait.counts WHERE task = $1 AND value <> 0
UNION ALL SELECT 'position', NULL, name, value FROM plait.counters WHERE name = 'pos'`

// Task returns what a driver needs to know of a task, from one snapshot.
func (r reads) Task(ctx context.Context, id string) (t store.TaskRows, err error) {
	q := query{sql: taskSQL}
	q.given(id)
	_, err = many(ctx, r, "task "+id, q, func(rows pgx.Rows) (none struct{}, err error) {
		var what, name string
		var data []byte
		var n int64
		if err := rows.Scan(&what, &data, &name, &n); err != nil {
			return none, err
		}
		switch what {
		case "thread":
			err = add(&t.Threads, data, decodeThread)
		case "attempt":
			err = add(&t.Running, data, decodeAttempt)
		case "gate":
			err = add(&t.Gates, data, decodeGate)
		case "wish":
			err = add(&t.Requests, data, func(b []byte) (store.Request, error) { return decodeRequest(b, n) })
		case "count":
			if t.Counts == nil {
				t.Counts = map[string]int64{}
			}
			t.Counts[name] = n
		case "position":
			t.Position = n
		}
		return none, err
	}, func() { t = store.TaskRows{} })
	if err != nil {
		return store.TaskRows{}, err
	}
	slices.SortFunc(t.Threads, func(a, b store.Thread) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(t.Running, byNumber)
	slices.SortFunc(t.Gates, func(a, b store.Gate) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(t.Requests, func(a, b store.Request) int { return cmp.Compare(a.ID, b.ID) })
	return t, nil
}

func add[T any](to *[]T, data []byte, parse func([]byte) (T, error)) error {
	v, err := parse(data)
	*to = append(*to, v)
	return err
}

func byNumber(a, b store.Attempt) int {
	return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.N, b.N), cmp.Compare(a.ID, b.ID))
}

// Used returns what each attempt of a task used up, in the order they started.
func (r reads) Used(ctx context.Context, task string) ([]store.Use, error) {
	if task == "" {
		return nil, ctx.Err() // an empty filter would select all
	}
	attempts, err := r.Attempts(ctx, store.AttemptFilter{Task: task})
	if err != nil {
		return nil, fmt.Errorf("read what was used: %w", err)
	}
	slices.SortStableFunc(attempts, func(a, b store.Attempt) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	var used []store.Use
	for _, a := range attempts {
		used = append(used, a.Use())
	}
	return used, nil
}

// rootsPage is how many rows Roots reads at a time.
const rootsPage = 10_000

// Roots yields every hash that a row names. Rows are read in pages by id, so that a store of
// any size fits in memory; outside a sweep the pages are not one snapshot.
func (r reads) Roots(ctx context.Context) iter.Seq2[store.Root, error] {
	return func(yield func(store.Root, error) bool) {
		_ = rootsOf(ctx, r, "threads", "id", yield) && rootsOf(ctx, r, "attempts", "id", yield) &&
			rootsOf(ctx, r, "gates", "id", yield) && rootsOf(ctx, r, "flows", "name", yield)
	}
}

// rootsOf yields the roots of a table and reports whether its caller wants more.
func rootsOf(ctx context.Context, r reads, table, key string, yield func(store.Root, error) bool) bool {
	for last := ""; ; {
		q := query{sql: "SELECT names, " + key + " FROM plait." + table}
		q.and(key+" > ?", last)
		q.end(" ORDER BY "+key, rootsPage)
		page, err := many(ctx, r, table, q, func(rows pgx.Rows) ([]store.Root, error) {
			var names []byte
			if err := rows.Scan(&names, &last); err != nil {
				return nil, err
			}
			return named(strings.TrimSuffix(table, "s"), last, names)
		})
		if err != nil {
			return yield(store.Root{}, err) && false
		}
		for _, roots := range page {
			for _, root := range roots {
				if !yield(root, nil) {
					return false
				}
			}
		}
		if len(page) < rootsPage {
			return true
		}
	}
}
