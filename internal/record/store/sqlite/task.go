package sqlite

import (
	"context"
	"fmt"
	"iter"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/store"
)

// moment passes f a connection on which all reads see one snapshot.
func (r reads) moment(ctx context.Context, f func(*sqlite.Conn) error) error {
	return r.with(ctx, func(c *sqlite.Conn) (err error) {
		defer sqlitex.Save(c)(&err)
		return f(c)
	})
}

const lastPosition = "max(coalesce((SELECT max(pos) FROM events), 0)," +
	" coalesce((SELECT value FROM counters WHERE name = 'floor'), 0))"

// Task returns what a driver needs to know about a task. The empty task has no rows.
func (r reads) Task(ctx context.Context, id string) (rows store.TaskRows, err error) {
	const ofTask = " WHERE task = ?1 AND task <> ''"
	err = r.moment(ctx, func(c *sqlite.Conn) error {
		rows = store.TaskRows{}
		if _, err := first(c, "SELECT "+lastPosition, func(r *row) { rows.Position = r.int() }); err != nil {
			return err
		}
		for _, part := range []struct {
			sql  string
			scan func(*row)
		}{
			{"SELECT " + threadColumns + " FROM threads" + ofTask + " ORDER BY id",
				func(r *row) { rows.Threads = append(rows.Threads, scanThread(r)) }},
			{"SELECT " + attemptColumns + " FROM attempts WHERE thread IN (SELECT id FROM threads" + ofTask + ")" +
				" AND status = 'running' ORDER BY thread, n, id",
				func(r *row) { rows.Running = append(rows.Running, scanAttempt(r)) }},
			{"SELECT " + gateColumns + " FROM gates" + ofTask + " AND state = 'open' ORDER BY id",
				func(r *row) { rows.Gates = append(rows.Gates, scanGate(r)) }},
			{"SELECT " + requestColumns + " FROM wishes" + ofTask + " AND taken = 0 ORDER BY id",
				func(r *row) { rows.Requests = append(rows.Requests, scanRequest(r)) }},
			{"SELECT name, value FROM counts" + ofTask, func(r *row) {
				if rows.Counts == nil {
					rows.Counts = map[string]int64{}
				}
				name := r.text()
				rows.Counts[name] = r.int()
			}},
		} {
			if err := each(c, part.sql, part.scan, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.TaskRows{}, fmt.Errorf("read task %s: %w", id, err)
	}
	return rows, nil
}

// Used returns what each attempt of a task used up, by start time.
func (r reads) Used(ctx context.Context, task string) ([]store.Use, error) {
	q := query{sql: "SELECT thread, id, status, started, ended, waited, input, cached, output, reasoning, cost, " +
		"status = 'failed' AND instr(coalesce(failure, ''), '\"notBegun\":true') > 0 FROM attempts"}
	q.and("thread IN (SELECT id FROM threads WHERE task = ? AND task <> '')", task)
	q.end(" ORDER BY started, thread, n, id", 0)
	return many(ctx, r, "what a task used up", q, func(r *row) store.Use {
		return store.Use{
			Thread: r.text(), Attempt: r.text(), Status: store.AttemptStatus(r.text()), StartedAt: r.int(), EndedAt: r.int(),
			Waited: r.int(), Usage: store.Usage{InputTokens: r.int(), CachedInputTokens: r.int(), OutputTokens: r.int(),
				ReasoningTokens: r.int(), CostMicroUSD: r.int()},
			Void: r.int() != 0,
		}
	})
}

// Roots yields every hash that a row names, all from one snapshot.
func (r reads) Roots(ctx context.Context) iter.Seq2[store.Root, error] {
	return func(yield func(store.Root, error) bool) {
		all, err := r.roots(ctx)
		if err != nil {
			yield(store.Root{}, fmt.Errorf("read what rows name: %w", err))
			return
		}
		for _, root := range all {
			if !yield(root, nil) {
				return
			}
		}
	}
}

// roots reads only the columns that name something.
func (r reads) roots(ctx context.Context) (all []store.Root, err error) {
	err = r.moment(ctx, func(c *sqlite.Conn) error {
		for _, table := range []struct {
			sql   string
			roots func(*row) []store.Root
		}{
			{"SELECT id, bundle, start, head, decision, links FROM threads", func(r *row) []store.Root {
				t := store.Thread{ID: r.text(), Bundle: r.hash(), Start: r.hash(), Head: r.hash(), Decision: r.bytes()}
				var l links
				r.json(&l)
				t.Parent, t.Path, t.ForkedFrom, t.Files = l.Parent, l.Path, l.ForkedFrom, l.Files
				return t.Roots()
			}},
			{"SELECT id, prompt, transcript, stderr, calls, kept FROM attempts", func(r *row) []store.Root {
				a := store.Attempt{ID: r.text(), Prompt: r.hash(), Transcript: r.hash(), Stderr: r.hash(), Calls: r.hash()}
				r.json(&a.Pins)
				return a.Roots()
			}},
			{"SELECT id, diff, action, edited FROM gates", func(r *row) []store.Root {
				return store.Gate{ID: r.text(), Diff: r.hash(), Action: r.bytes(), Edited: r.bytes()}.Roots()
			}},
			{"SELECT " + flowColumns + " FROM flows", func(r *row) []store.Root { return scanFlow(r).Roots() }},
		} {
			if err := each(c, table.sql, func(r *row) { all = append(all, table.roots(r)...) }); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}
