package sqlite

import (
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
)

// inJSON marks a value to be stored as JSON, or as NULL if it is a nil pointer or slice.
type inJSON struct{ v any }

// prepare binds args to the connection's cached statement for query.
func prepare(c *sqlite.Conn, query string, args ...any) (*sqlite.Stmt, error) {
	st, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	for i, a := range args {
		n := i + 1
		switch a := a.(type) {
		case string:
			st.BindText(n, a)
		case int64:
			st.BindInt64(n, a)
		case int:
			st.BindInt64(n, int64(a))
		case dag.Hash:
			if a.IsZero() {
				st.BindNull(n)
			} else {
				st.BindBytes(n, a[:])
			}
		case []byte:
			st.BindBytes(n, a)
		case json.RawMessage:
			if a == nil {
				st.BindNull(n)
			} else {
				st.BindBytes(n, a)
			}
		case inJSON:
			data, err := json.Marshal(a.v)
			if err != nil {
				return nil, err
			}
			if string(data) == "null" {
				st.BindNull(n)
			} else {
				st.BindBytes(n, data)
			}
		case nil:
			st.BindNull(n)
		default:
			return nil, fmt.Errorf("cannot bind a %T", a)
		}
	}
	return st, nil
}

// exec runs a statement that returns no rows.
func exec(c *sqlite.Conn, query string, args ...any) error {
	st, err := prepare(c, query, args...)
	if err != nil {
		return err
	}
	if _, err := st.Step(); err != nil {
		return err
	}
	return st.Reset()
}

// first calls scan with the first row, if there is one, and reports whether there is.
func first(c *sqlite.Conn, query string, scan func(*row), args ...any) (bool, error) {
	st, err := prepare(c, query, args...)
	if err != nil {
		return false, err
	}
	found, err := st.Step()
	if err != nil || !found {
		return false, err
	}
	r := row{st: st}
	scan(&r)
	if err := st.Reset(); err != nil {
		return false, err
	}
	return true, r.err
}

// each calls scan with every row.
func each(c *sqlite.Conn, query string, scan func(*row), args ...any) error {
	st, err := prepare(c, query, args...)
	if err != nil {
		return err
	}
	for {
		more, err := st.Step()
		if err != nil {
			return err
		}
		if !more {
			return st.Reset()
		}
		r := row{st: st}
		scan(&r)
		if r.err != nil {
			st.Reset()
			return r.err
		}
	}
}

// A row hands out its columns from left to right. The first error sticks.
type row struct {
	st  *sqlite.Stmt
	i   int
	err error
}

func (r *row) next() int { r.i++; return r.i - 1 }

func (r *row) text() string { return r.st.ColumnText(r.next()) }

func (r *row) int() int64 { return r.st.ColumnInt64(r.next()) }

func (r *row) hash() (h dag.Hash) {
	i := r.next()
	if n := r.st.ColumnLen(i); n != 0 && n != dag.Size && r.err == nil {
		r.err = fmt.Errorf("column %s holds %d bytes instead of a hash", r.st.ColumnName(i), n)
	}
	r.st.ColumnBytes(i, h[:])
	return h
}

// bytes returns a copy; nil for NULL.
func (r *row) bytes() []byte {
	i := r.next()
	if r.st.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, r.st.ColumnLen(i))
	r.st.ColumnBytes(i, b)
	return b
}

// json decodes into v, which NULL leaves alone.
func (r *row) json(v any) {
	name := r.st.ColumnName(r.i)
	b := r.bytes()
	if b == nil || r.err != nil {
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		r.err = fmt.Errorf("column %s: %w", name, err)
	}
}
