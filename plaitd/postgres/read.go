package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

// A found is an object's row: its bytes, or where they are stored.
type found struct {
	store.Entry
	data []byte
	loc  string
}

const (
	entryColumns = "hash, kind, size, put"
	foundColumns = entryColumns + ", body, loc"
)

func scanEntry(rows pgx.Rows) (e store.Entry, err error) {
	var h []byte
	var kind int
	var put int64
	if err := rows.Scan(&h, &kind, &e.Size, &put); err != nil {
		return e, err
	}
	e.Kind, e.Put = store.Kind(kind), time.UnixMilli(put).UTC()
	e.Hash, err = toHash(h)
	return e, err
}

func scanFound(rows pgx.Rows) (f found, err error) {
	var h []byte
	var kind int
	var put int64
	var loc *string
	if err := rows.Scan(&h, &kind, &f.Size, &put, &f.data, &loc); err != nil {
		return f, err
	}
	f.Kind, f.Put = store.Kind(kind), time.UnixMilli(put).UTC()
	if loc != nil {
		f.loc = *loc
	}
	f.Hash, err = toHash(h)
	return f, err
}

// unpack restores the bytes of a row to the form in which they were put.
func (f *found) unpack() (err error) {
	switch {
	case f.loc != "":
		return nil
	case f.data == nil:
		return fmt.Errorf("its row has neither bytes nor a place: %w", store.ErrCorrupt)
	}
	f.data, err = pack.Unpack(f.data, f.Kind, f.Size)
	return err
}

// look reads the rows of objects, in no particular order.
func (r reads) look(ctx context.Context, hs []dag.Hash) ([]found, error) {
	q := query{sql: "SELECT " + foundColumns + " FROM plait.objects"}
	q.and("hash = ANY (?)", keysOf(hs))
	return many(ctx, r, "objects", q, scanFound)
}

// Get returns the object stored under h after checking its hash.
func (r reads) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	all, err := r.Many(ctx, []dag.Hash{h})
	if err != nil {
		return store.Object{}, err
	}
	return all[0], nil
}

// Many returns the objects stored under hs, in that order. Bytes stored elsewhere are read
// one object after the other.
func (r reads) Many(ctx context.Context, hs []dag.Hash) ([]store.Object, error) {
	if len(hs) == 0 {
		return nil, ctx.Err()
	}
	rows, err := r.look(ctx, hs)
	if err != nil {
		return nil, err
	}
	kept := make(map[dag.Hash]*found, len(rows))
	for i := range rows {
		kept[rows[i].Hash] = &rows[i]
	}
	all := make([]store.Object, len(hs))
	given := make(map[dag.Hash]bool, len(hs))
	for i, h := range hs {
		f, ok := kept[h]
		err := error(store.ErrNotFound)
		if ok && !given[h] {
			if err = f.unpack(); err == nil && f.loc != "" {
				f.data, err = r.slurp(ctx, h)
			}
		} else if ok {
			f.data, err = bytes.Clone(f.data), nil // each belongs to the caller
		}
		if err == nil {
			all[i], err = store.Checked(h, f.Kind, f.data)
		}
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", h, err)
		}
		given[h] = true
	}
	return all, nil
}

// slurp reads a whole object that is stored elsewhere.
func (r reads) slurp(ctx context.Context, h dag.Hash) ([]byte, error) {
	f, e, err := r.open(ctx, h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The size comes from the row; a damaged row must not use up all memory.
	b := bytes.NewBuffer(make([]byte, 0, max(0, min(e.Size, dag.MaxBytes))+bytes.MinRead))
	if _, err := io.Copy(b, f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Open streams the object stored under h.
func (r reads) Open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	f, e, err := r.open(ctx, h)
	if err != nil {
		return nil, store.Entry{}, fmt.Errorf("read object %s: %w", h, err)
	}
	return f, e, nil
}

func (r reads) open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	for missing := ""; ; {
		rows, err := r.look(ctx, []dag.Hash{h})
		if err == nil && len(rows) == 0 {
			err = store.ErrNotFound
		}
		if err == nil {
			err = rows[0].unpack()
		}
		if err != nil {
			return nil, store.Entry{}, err
		}
		f := rows[0]
		c := &checked{ctx: ctx, r: r, h: h, loc: f.loc, sum: store.NewSum()}
		if f.loc == "" {
			c.from = io.NopCloser(bytes.NewReader(f.data))
			return c, f.Entry, nil
		}
		if f.loc == missing {
			return nil, f.Entry, fmt.Errorf("nothing is kept as %s: %w", f.loc, store.ErrCorrupt)
		}
		b, err := r.store.bucket(f.loc)
		if err == nil {
			c.from, err = b.Get(ctx, f.loc)
		}
		switch {
		case err == nil:
			return c, f.Entry, nil
		case !errors.Is(err, ErrNoKey):
			return nil, f.Entry, err
		}
		// The row may have gone since, and come back with another location.
		missing = f.loc
	}
}

// checked hashes what is read and fails at the end if it is not what was put.
type checked struct {
	ctx  context.Context
	r    reads
	from io.ReadCloser
	h    dag.Hash
	loc  string
	sum  *store.Sum
}

func (c *checked) Read(p []byte) (n int, err error) {
	n, err = c.from.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && !c.sum.Is(c.h) {
		err = c.wrong()
	}
	return n, err
}

// wrong returns why the bytes are not the object's: they may have been swept while they
// were read.
func (c *checked) wrong() error {
	if c.loc != "" {
		rows, err := c.r.look(c.ctx, []dag.Hash{c.h})
		if err == nil && (len(rows) == 0 || rows[0].loc != c.loc) {
			err = fmt.Errorf("was swept while it was read: %w", store.ErrNotFound)
		}
		if err != nil {
			return fmt.Errorf("object %s: %w", c.h, err)
		}
	}
	return fmt.Errorf("object %s: %w", c.h, store.ErrCorrupt)
}

func (c *checked) Close() error { return c.from.Close() }

// Stat returns the entries of those of hs that are stored.
func (r reads) Stat(ctx context.Context, hs []dag.Hash) ([]store.Entry, error) {
	q := query{sql: "SELECT " + entryColumns + " FROM plait.objects"}
	q.and("hash = ANY (?)", keysOf(hs))
	return many(ctx, r, "objects", q, scanEntry)
}

// Has reports whether h is stored.
func (r reads) Has(ctx context.Context, h dag.Hash) (bool, error) {
	found, err := r.Stat(ctx, []dag.Hash{h})
	return len(found) > 0, err
}

// Resolve returns the hashes that begin with prefix, in order, at most max.
func (r reads) Resolve(ctx context.Context, prefix string, max int) ([]dag.Hash, error) {
	pad := 2*dag.Size - len(prefix)
	if pad < 0 || max <= 0 {
		return nil, nil
	}
	low, err := dag.ParseHash(prefix + strings.Repeat("0", pad))
	if err != nil {
		return nil, nil // not the beginning of any hash
	}
	high, _ := dag.ParseHash(prefix + strings.Repeat("f", pad)) // differs from low in its valid digits only
	q := query{sql: "SELECT hash FROM plait.objects"}
	q.and("hash BETWEEN ? AND ?", low[:], high[:])
	q.end(" ORDER BY hash", max)
	return many(ctx, r, "hashes", q, scanHash)
}

// listPage is how many entries List reads at a time, so that it holds neither a connection
// nor an old snapshot of the database while its caller works.
const listPage = 2000

// List yields an entry for every object, in hash order.
func (r reads) List(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for last := []byte{}; ; {
			q := query{sql: "SELECT " + entryColumns + " FROM plait.objects"}
			q.and("hash > ?", last)
			q.end(" ORDER BY hash", listPage)
			page, err := many(ctx, r, "objects", q, scanEntry)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			last = page[listPage-1].Hash[:]
		}
	}
}
