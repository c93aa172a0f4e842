package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// reads are the queries of a store, and of a sweep's view of it. The two differ in the
// connection: with passes one to f, perhaps more than once. whole does so for statements that
// read a whole table.
type reads struct {
	store       *Store
	with, whole func(ctx context.Context, f func(context.Context, *pgx.Conn) error) error
}

// read passes f a reader's connection. If f runs one statement, it reads a snapshot that
// includes every commit that has returned.
func (s *Store) read(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return s.patiently(ctx, s.reading(f))
}

// readWhole is read for statements that read a whole table, which may take long.
func (s *Store) readWhole(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return s.insist(ctx, s.cfg.Whole, func(error) time.Duration { return s.cfg.Patience }, s.reading(f))
}

func (s *Store) reading(f func(context.Context, *pgx.Conn) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return on(ctx, s.readers, func(c *pgx.Conn) error { return f(ctx, c) })
	}
}

// A query collects the conditions of a filter. A "?" becomes the next parameter.
type query struct {
	sql   string
	args  []any
	where bool
	never bool // nothing can match: a parameter is one that no row can have
	whole bool // it reads a whole table
}

func (q *query) and(condition string, args ...any) {
	word := " AND "
	if !q.where {
		word, q.where = " WHERE ", true
	}
	q.sql += word
	for _, a := range args {
		before, after, _ := strings.Cut(condition, "?")
		q.given(a)
		q.sql += before + "$" + strconv.Itoa(len(q.args))
		condition = after
	}
	q.sql += condition
}

// given adds a parameter.
func (q *query) given(a any) {
	if text, ok := a.(string); ok && !store.IsText(text) {
		q.never, a = true, "" // the server would refuse the query
	}
	q.args = append(q.args, a)
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
	texts := []string{}
	for _, w := range want {
		if store.IsText(string(w)) {
			texts = append(texts, string(w))
		}
	}
	q.and(column+" = ANY (?)", texts)
}

func (q *query) matchHash(column string, want dag.Hash) {
	if !want.IsZero() {
		q.and(column+" = ?", want[:])
	}
}

// end adds the order, and a limit unless it is zero.
func (q *query) end(order string, limit int) {
	q.sql += order
	if limit > 0 {
		q.sql += " LIMIT " + strconv.Itoa(limit)
	}
}

// one reads a single row of one column.
func one[T any](ctx context.Context, r reads, what, id, sql string, parse func([]byte) (T, error)) (v T, err error) {
	q := query{sql: sql}
	q.given(id)
	rows, err := many(ctx, r, what, q, parsed(parse))
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("read %s %s: %w", what, id, store.ErrNotFound)
	}
	if err != nil {
		return v, err
	}
	return rows[0], nil
}

// many reads rows. Each try starts over: it calls begin, so that callers can reset what
// scan collects besides the result.
func many[T any](
	ctx context.Context, r reads, what string, q query, scan func(pgx.Rows) (T, error), begin ...func(),
) (vs []T, err error) {
	with := r.with
	if q.whole {
		with = r.whole
	}
	err = with(ctx, func(ctx context.Context, c *pgx.Conn) error {
		vs = nil
		for _, f := range begin {
			f()
		}
		if q.never {
			return nil
		}
		rows, err := c.Query(ctx, q.sql, q.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				return err
			}
			vs = append(vs, v)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return vs, nil
}

// parsed returns a scan function for rows of one column.
func parsed[T any](parse func([]byte) (T, error)) func(pgx.Rows) (T, error) {
	return func(rows pgx.Rows) (v T, err error) {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return v, err
		}
		return parse(data)
	}
}

// Thread returns the thread called id.
func (r reads) Thread(ctx context.Context, id string) (store.Thread, error) {
	return one(ctx, r, "thread", id, "SELECT row FROM plait.threads WHERE id = $1", decodeThread)
}

// Threads returns the threads that f selects.
func (r reads) Threads(ctx context.Context, f store.ThreadFilter) ([]store.Thread, error) {
	q := query{sql: "SELECT row FROM plait.threads"}
	among(&q, "id", f.IDs)
	match(&q, "task", f.Task)
	if f.Short != "" {
		q.and("short = ? AND short <> ''", f.Short)
	}
	match(&q, "workspace", f.Workspace)
	match(&q, "kind", f.Kind)
	q.matchHash("bundle", f.Bundle)
	among(&q, "status", f.Statuses)
	if f.Ended > 0 {
		q.and("(convert_from(row, 'UTF8')::json->'row'->>'endedAt')::bigint NOT BETWEEN 1 AND ?::bigint", f.Ended-1)
	}
	q.prefixed(f.Prefix)
	order, beyond := " ORDER BY id", "id > ?"
	if f.Newest {
		order, beyond = " ORDER BY id DESC", "id < ?"
	}
	if f.After != "" {
		q.and(beyond, f.After)
	}
	q.whole = !q.where && f.Limit == 0
	q.end(order, f.Limit)
	return many(ctx, r, "threads", q, parsed(decodeThread))
}

// Attempt returns the attempt called id.
func (r reads) Attempt(ctx context.Context, id string) (store.Attempt, error) {
	return one(ctx, r, "attempt", id, "SELECT row FROM plait.attempts WHERE id = $1", decodeAttempt)
}

// Attempts returns the attempts that f selects, by thread, then number.
func (r reads) Attempts(ctx context.Context, f store.AttemptFilter) ([]store.Attempt, error) {
	q := query{sql: "SELECT row FROM plait.attempts"}
	if f.Task != "" {
		q.and("thread IN (SELECT id FROM plait.threads WHERE task = ?)", f.Task)
	}
	match(&q, "thread", f.Thread)
	among(&q, "thread", f.Threads)
	q.matchHash("origin", f.From)
	match(&q, "status", f.Status)
	q.whole = !q.where
	q.end(" ORDER BY thread, n, id", 0)
	return many(ctx, r, "attempts", q, parsed(decodeAttempt))
}

// prefixed selects rows by the beginning of their id, "" for all.
func (q *query) prefixed(prefix string) {
	if prefix != "" {
		q.and("id >= ? AND id < ? AND starts_with(id, ?)", prefix, prefix+string(unicode.MaxRune), prefix)
	}
}

// Gate returns the gate called id.
func (r reads) Gate(ctx context.Context, id string) (store.Gate, error) {
	return one(ctx, r, "gate", id, "SELECT row FROM plait.gates WHERE id = $1", decodeGate)
}

// Gates returns the gates that f selects.
func (r reads) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	q := query{sql: "SELECT row FROM plait.gates"}
	match(&q, "task", f.Task)
	match(&q, "thread", f.Thread)
	match(&q, "state", f.State)
	q.prefixed(f.Prefix)
	q.whole = !q.where
	q.end(" ORDER BY id", 0)
	return many(ctx, r, "gates", q, parsed(decodeGate))
}

// Flow returns the flow called name.
func (r reads) Flow(ctx context.Context, name string) (store.Flow, error) {
	return one(ctx, r, "flow", name, "SELECT row FROM plait.flows WHERE name = $1", decodeFlow)
}

// Flows returns every flow, by name.
func (r reads) Flows(ctx context.Context) ([]store.Flow, error) {
	return many(ctx, r, "flows", query{sql: "SELECT row FROM plait.flows ORDER BY name"}, parsed(decodeFlow))
}

// Requests returns the requests that f selects.
func (r reads) Requests(ctx context.Context, f store.RequestFilter) ([]store.Request, error) {
	q := query{sql: "SELECT row, taken FROM plait.wishes"}
	match(&q, "task", f.Task)
	match(&q, "thread", f.Thread)
	if f.Open {
		q.and("taken = 0")
	}
	q.whole = !q.where
	q.end(" ORDER BY id", 0)
	return many(ctx, r, "wishes", q, func(rows pgx.Rows) (w store.Request, err error) {
		var data []byte
		var taken int64
		if err := rows.Scan(&data, &taken); err != nil {
			return w, err
		}
		return decodeRequest(data, taken)
	})
}

// Pins returns every pinned hash.
func (r reads) Pins(ctx context.Context) ([]dag.Hash, error) {
	return many(ctx, r, "pins", query{sql: "SELECT DISTINCT hash FROM plait.pins ORDER BY hash", whole: true}, scanHash)
}

func scanHash(rows pgx.Rows) (h dag.Hash, err error) {
	var data []byte
	if err := rows.Scan(&data); err != nil {
		return h, err
	}
	return toHash(data)
}

// toHash parses a hash as a column stores it.
func toHash(data []byte) (h dag.Hash, err error) {
	if len(data) != 0 && len(data) != dag.Size {
		return h, fmt.Errorf("a hash of %d bytes: %w", len(data), store.ErrCorrupt)
	}
	copy(h[:], data)
	return h, nil
}
