package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// reads are the queries that a store, and a sweep's view of it, can answer. They differ in the
// connection: with passes one to f, and so does soon, for reads that take microseconds.
type reads struct {
	store      *Store
	with, soon func(ctx context.Context, f func(*sqlite.Conn) error) error
}

// read passes a reader's connection to f. As long as f runs one statement, it
// sees one snapshot, which includes every commit that has returned.
func (s *Store) read(ctx context.Context, f func(*sqlite.Conn) error) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	c, err := s.readers.take(ctx)
	if err != nil {
		if down := s.alive(ctx); down != nil {
			return down
		}
		return err
	}
	defer s.readers.put(c)
	return s.explain(ctx, f(c.Conn))
}

// readSoon is read on the writer's connection, if that is idle: it has in memory what the last commits changed,
// where any other would read it from the log. f must neither wait nor ask the store for anything else.
func (s *Store) readSoon(ctx context.Context, f func(*sqlite.Conn) error) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if s.writer == nil {
		return s.read(ctx, f)
	}
	select {
	case s.writing <- struct{}{}:
	default:
		return s.read(ctx, f)
	}
	err := f(s.writer)
	<-s.writing
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy { // it does not wait for other processes, see lock
		return s.read(ctx, f)
	}
	return s.explain(ctx, err)
}

// A query grows by the conditions of a filter.
type query struct {
	sql   string
	args  []any
	where bool
	soon  bool // it reads few rows, see reads
}

func (q *query) and(condition string, args ...any) {
	word := " AND "
	if !q.where {
		word, q.where = " WHERE ", true
	}
	q.sql += word + condition
	q.args = append(q.args, args...)
}

// match selects rows whose column is want; an empty want selects all.
func match[T ~string](q *query, column string, want T) {
	if want != "" {
		q.and(column+" = ?", string(want))
	}
}

// among selects rows whose column is one of want; none selects all.
func among[T ~string](q *query, column string, want []T) {
	if len(want) == 0 {
		return
	}
	args := make([]any, len(want))
	for i, w := range want {
		args[i] = string(w)
	}
	q.and(column+" IN (?"+strings.Repeat(", ?", len(want)-1)+")", args...)
}

func (q *query) matchHash(column string, want dag.Hash) {
	if !want.IsZero() {
		q.and(column+" = ?", want)
	}
}

// end adds the order, and a limit unless it is zero.
func (q *query) end(order string, limit int) {
	q.sql += order
	if limit > 0 {
		// SQLite peeks at the value of a plain "?", and recompiles the statement each time.
		q.sql += " LIMIT +?"
		q.args = append(q.args, limit)
	}
}

func one[T any](ctx context.Context, r reads, what, id, sql string, scan func(*row) T) (v T, err error) {
	err = r.soon(ctx, func(c *sqlite.Conn) error {
		found, err := first(c, sql, func(r *row) { v = scan(r) }, id)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		var zero T
		return zero, fmt.Errorf("read %s %s: %w", what, id, err)
	}
	return v, nil
}

func many[T any](ctx context.Context, r reads, what string, q query, scan func(*row) T) (vs []T, err error) {
	with := r.with
	if q.soon {
		with = r.soon
	}
	err = with(ctx, func(c *sqlite.Conn) error {
		return each(c, q.sql, func(r *row) { vs = append(vs, scan(r)) }, q.args...)
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return vs, nil
}

// Thread returns the thread called id.
func (r reads) Thread(ctx context.Context, id string) (store.Thread, error) {
	return one(ctx, r, "thread", id, "SELECT "+threadColumns+" FROM threads WHERE id = ?", scanThread)
}

// isShort goes with every lookup of a short name: the index covers nonempty names only, and a bound
// parameter could be empty.
const isShort = "short <> ''"

// Threads returns the threads that f selects.
func (r reads) Threads(ctx context.Context, f store.ThreadFilter) ([]store.Thread, error) {
	return many(ctx, r, "threads", threadQuery(f), scanThread)
}

func threadQuery(f store.ThreadFilter) query {
	q := query{sql: "SELECT " + threadColumns + " FROM threads", soon: len(f.IDs) > 0 || f.Short != ""}
	if len(f.IDs) > 0 { // one statement, however many they are
		ids, _ := json.Marshal(f.IDs)
		q.and("id IN (SELECT value FROM json_each(?))", string(ids))
	}
	match(&q, "task", f.Task)
	if f.Short != "" {
		q.and("short = ? AND "+isShort, f.Short)
	}
	match(&q, "workspace", f.Workspace)
	match(&q, "kind", f.Kind)
	q.matchHash("bundle", f.Bundle)
	among(&q, "status", f.Statuses)
	if f.Ended > 0 {
		q.and("(ended = 0 OR ended >= ?)", f.Ended)
	}
	q.prefixed(f.Prefix)
	order, beyond := " ORDER BY id", "id > ?"
	if f.Newest {
		order, beyond = " ORDER BY id DESC", "id < ?"
	}
	if f.After != "" {
		q.and(beyond, f.After)
	}
	q.end(order, f.Limit)
	return q
}

// Attempt returns the attempt called id.
func (r reads) Attempt(ctx context.Context, id string) (store.Attempt, error) {
	return one(ctx, r, "attempt", id, "SELECT "+attemptColumns+" FROM attempts WHERE id = ?", scanAttempt)
}

// Attempts returns the attempts that f selects, by thread, then number.
func (r reads) Attempts(ctx context.Context, f store.AttemptFilter) ([]store.Attempt, error) {
	q := query{sql: "SELECT " + attemptColumns + " FROM attempts", soon: f.Thread != ""}
	if f.Task != "" {
		q.and("thread IN (SELECT id FROM threads WHERE task = ?)", f.Task)
	}
	match(&q, "thread", f.Thread)
	if len(f.Threads) > 0 {
		ids, _ := json.Marshal(f.Threads)
		q.and("thread IN (SELECT value FROM json_each(?))", string(ids))
	}
	q.matchHash("origin", f.From)
	match(&q, "status", f.Status)
	q.end(" ORDER BY thread, n, id", 0)
	return many(ctx, r, "attempts", q, scanAttempt)
}

// prefixed selects rows by the beginning of their id, "" for all.
func (q *query) prefixed(prefix string) {
	if prefix != "" {
		q.and("id >= ? AND id < ? AND substr(id, 1, length(?)) = ?", prefix, prefix+string(unicode.MaxRune), prefix, prefix)
	}
}

// Gate returns the gate called id.
func (r reads) Gate(ctx context.Context, id string) (store.Gate, error) {
	return one(ctx, r, "gate", id, "SELECT "+gateColumns+" FROM gates WHERE id = ?", scanGate)
}

// Gates returns the gates that f selects.
func (r reads) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	q := query{sql: "SELECT " + gateColumns + " FROM gates", soon: f.Thread != ""}
	match(&q, "task", f.Task)
	match(&q, "thread", f.Thread)
	match(&q, "state", f.State)
	q.prefixed(f.Prefix)
	q.end(" ORDER BY id", 0)
	return many(ctx, r, "gates", q, scanGate)
}

// Flow returns the flow called name.
func (r reads) Flow(ctx context.Context, name string) (store.Flow, error) {
	return one(ctx, r, "flow", name, "SELECT "+flowColumns+" FROM flows WHERE name = ?", scanFlow)
}

// Flows returns every flow, by name.
func (r reads) Flows(ctx context.Context) ([]store.Flow, error) {
	return many(ctx, r, "flows", query{sql: "SELECT " + flowColumns + " FROM flows ORDER BY name"}, scanFlow)
}

// Requests returns the requests that f selects.
func (r reads) Requests(ctx context.Context, f store.RequestFilter) ([]store.Request, error) {
	q := query{sql: "SELECT " + requestColumns + " FROM wishes", soon: f.Open}
	match(&q, "task", f.Task)
	match(&q, "thread", f.Thread)
	if f.Open {
		q.and("taken = 0")
	}
	q.end(" ORDER BY id", 0)
	return many(ctx, r, "requests", q, scanRequest)
}

// Pins returns every pinned hash that is kept. A pin is recorded before a large
// blob is published (see Stage), so a crash can leave one that pins nothing.
func (r reads) Pins(ctx context.Context) ([]dag.Hash, error) {
	q := query{sql: "SELECT hash FROM objects WHERE hash IN (SELECT hash FROM pins) " +
		"UNION SELECT hash FROM recent WHERE hash IN (SELECT hash FROM pins) ORDER BY hash"}
	return many(ctx, r, "pins", q, (*row).hash)
}
