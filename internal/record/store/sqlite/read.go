package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

// Get returns the object kept under h, after checking its hash.
func (r reads) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	e, data, loose, err := r.look(ctx, h)
	if err != nil {
		return store.Object{}, fmt.Errorf("read object %s: %w", h, err)
	}
	if !loose {
		return r.sound(data, e)
	}
	f, e, err := r.Open(ctx, h)
	if err != nil {
		return store.Object{}, err
	}
	defer f.Close()
	// The size comes from the row; a damaged row must not exhaust memory.
	b := bytes.NewBuffer(make([]byte, 0, max(0, min(e.Size, dag.MaxBytes))+bytes.MinRead))
	if _, err := io.Copy(b, f); err != nil {
		return store.Object{}, err
	}
	return store.Checked(h, e.Kind, b.Bytes())
}

// Many returns the objects kept under hs, in the order of hs.
func (r reads) Many(ctx context.Context, hs []dag.Hash) ([]store.Object, error) {
	all := make([]store.Object, len(hs))
	entries, files := make([]store.Entry, len(hs)), make([]bool, len(hs))
	err := r.with(ctx, func(c *sqlite.Conn) (err error) {
		for i, h := range hs {
			if entries[i], all[i].Data, files[i], err = r.fetch(c, h); err != nil {
				return fmt.Errorf("read object %s: %w", h, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, h := range hs {
		if files[i] {
			all[i], err = r.Get(ctx, h)
		} else {
			all[i], err = r.checked(all[i].Data, entries[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checked returns an object whose bytes are kept in a row, after checking its hash.
func (r reads) checked(data []byte, e store.Entry) (store.Object, error) {
	data, err := r.unpacked(data, e)
	if err != nil {
		return store.Object{}, fmt.Errorf("read object %s: %w", e.Hash, err)
	}
	return r.sound(data, e)
}

// sound returns an object after checking its bytes.
func (r reads) sound(data []byte, e store.Entry) (store.Object, error) {
	o, err := store.Checked(e.Hash, e.Kind, data)
	if err != nil {
		return o, fmt.Errorf("in %s: %w", r.store.database(), err)
	}
	return o, nil
}

// Open streams the object kept under h. Small objects are read before Open
// returns; a wrong hash is reported at the end of the reader.
func (r reads) Open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	f, e, err := r.open(ctx, h)
	if err != nil {
		return nil, store.Entry{}, fmt.Errorf("read object %s: %w", h, err)
	}
	return f, e, nil
}

func (r reads) open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	for tries := 0; ; tries++ {
		e, data, loose, err := r.look(ctx, h)
		if err != nil {
			return nil, e, err
		}
		if !loose {
			return &checked{s: r.store, r: bytes.NewReader(data), h: h, where: "in " + r.store.database()}, e, nil
		}
		f, err := r.store.openLoose(h)
		if err == nil {
			return f, e, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, e, r.store.explain(ctx, err)
		}
		// The row may have been swept since, or redacted: then the object is not damaged.
		if tries > 0 {
			return nil, e, fmt.Errorf("its file %s is missing: %w: %w",
				r.store.loose(h), store.ErrCorrupt, fs.ErrNotExist)
		}
	}
}

// look reads an object's row, and its bytes unless they are a loose file.
func (r reads) look(ctx context.Context, h dag.Hash) (e store.Entry, data []byte, loose bool, err error) {
	err = r.soon(ctx, func(c *sqlite.Conn) error {
		e, data, loose, err = r.fetch(c, h)
		return err
	})
	if err == nil && !loose {
		data, err = r.unpacked(data, e)
	}
	return e, data, loose, err
}

// fetch reads an object's row, and its bytes as stored unless they are a loose file.
func (r reads) fetch(c *sqlite.Conn, h dag.Hash) (e store.Entry, data []byte, loose bool, err error) {
	const columns = "SELECT hash, kind, size, put, "
	const inRecent = columns + "0, data FROM recent LEFT JOIN bodies USING (id) WHERE id = ? AND hash = ?"
	const inObjects = columns + "body IS NULL, data FROM objects LEFT JOIN bodies ON id = body WHERE hash = ?"
	found, err := r.store.find(c, h, inRecent, inObjects, func(r *row) {
		e, loose = scanEntry(r), r.int() != 0
		data = r.bytes()
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return e, data, loose, err
}

// unpacked returns the bytes of an object that are kept in a row.
func (r reads) unpacked(data []byte, e store.Entry) ([]byte, error) {
	if data == nil {
		return nil, fmt.Errorf("its row has no body in %s: %w", r.store.database(), store.ErrCorrupt)
	}
	data, err := pack.Unpack(data, e.Kind, e.Size)
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", r.store.database(), err)
	}
	return data, nil
}

const (
	entryColumns = "hash, kind, size, put"
	entries      = "SELECT " + entryColumns + " FROM "
	hasRecent    = "SELECT 1 FROM recent WHERE id = ? AND hash = ?"
	hasObject    = "SELECT 1 FROM objects WHERE hash = ?"
)

func scanEntry(r *row) store.Entry {
	return store.Entry{Hash: r.hash(), Kind: store.Kind(r.int()), Size: r.int(), Put: time.UnixMilli(r.int()).UTC()}
}

// Stat returns the entries of those of hs that are kept.
func (r reads) Stat(ctx context.Context, hs []dag.Hash) (found []store.Entry, err error) {
	const inRecent, inObjects = entries + "recent WHERE id = ? AND hash = ?", entries + "objects WHERE hash = ?"
	err = r.with(ctx, func(c *sqlite.Conn) error {
		found = nil
		for _, h := range hs {
			_, err := r.store.find(c, h, inRecent, inObjects, func(r *row) { found = append(found, scanEntry(r)) })
			if err != nil {
				return fmt.Errorf("look for object %s: %w", h, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Has reports whether h is kept.
func (r reads) Has(ctx context.Context, h dag.Hash) (found bool, err error) {
	err = r.soon(ctx, func(c *sqlite.Conn) error {
		found, err = r.store.find(c, h, hasRecent, hasObject, func(*row) {})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for object %s: %w", h, err)
	}
	return found, nil
}

// Resolve returns the hashes that begin with prefix, in order, at most max.
func (r reads) Resolve(ctx context.Context, prefix string, max int) ([]dag.Hash, error) {
	pad := 2*dag.Size - len(prefix)
	if pad < 0 || max <= 0 {
		return nil, nil
	}
	low, err := dag.ParseHash(prefix + strings.Repeat("0", pad))
	if err != nil {
		return nil, nil // no hash begins with prefix
	}
	high, _ := dag.ParseHash(prefix + strings.Repeat("f", pad)) // valid, as low is
	// Not passed as hashes: the zero Hash would become NULL.
	q := query{sql: "SELECT hash FROM objects WHERE hash BETWEEN ?1 AND ?2 " +
		"UNION SELECT hash FROM recent WHERE hash BETWEEN ?1 AND ?2", args: []any{low[:], high[:]}}
	q.end(" ORDER BY hash", max)
	return many(ctx, r, "hashes", q, (*row).hash)
}

// listPage is how many entries List reads at a time, so that it holds neither a
// connection nor an old snapshot of the database while its caller works.
const listPage = 1000

// List yields an entry for every object, in hash order.
func (r reads) List(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		// Read recent first: a row that moves meanwhile may be found twice, but is never missed.
		recent, err := many(ctx, r, "objects", query{sql: entries + "recent ORDER BY hash"}, scanEntry)
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		last := []byte{}
		for {
			q := query{sql: entries + "objects"}
			q.and("hash > ?", last)
			q.end(" ORDER BY hash", listPage)
			page, err := many(ctx, r, "objects", q, scanEntry)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range page {
				for len(recent) > 0 && compare(recent[0].Hash, e.Hash) <= 0 {
					if recent[0].Hash != e.Hash && !yield(recent[0], nil) {
						return
					}
					recent = recent[1:]
				}
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < listPage {
				break
			}
			last = page[listPage-1].Hash[:]
		}
		for _, e := range recent {
			if !yield(e, nil) {
				return
			}
		}
	}
}
