package mem

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Get returns the object kept under h, after checking its hash.
func (s *Store) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	var o store.Object
	err := s.reading(ctx, OpGet, func(c *contents) (err error) {
		o, err = c.sound(h)
		return err
	})
	if err != nil {
		return store.Object{}, err
	}
	return o, nil
}

// Many returns the objects kept under hs, in the order of hs.
func (s *Store) Many(ctx context.Context, hs []dag.Hash) (all []store.Object, err error) {
	err = s.reading(ctx, OpMany, func(c *contents) error {
		for _, h := range hs {
			o, err := c.sound(h)
			if err != nil {
				return err
			}
			all = append(all, o)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Open streams the object kept under h.
func (s *Store) Open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	var o object
	err := s.reading(ctx, OpOpen, func(c *contents) (err error) {
		o, err = c.object(h)
		return err
	})
	if err != nil {
		return nil, store.Entry{}, err
	}
	r := &reader{Reader: bytes.NewReader(o.data)}
	if _, err := store.Checked(h, o.kind, o.data); err != nil {
		r.end = fmt.Errorf("open: %s in memory: %w", h, store.ErrCorrupt)
	}
	return r, o.entry(h), nil
}

// A reader returns an object's bytes, then end instead of io.EOF if it is set.
type reader struct {
	*bytes.Reader
	end error
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF && r.end != nil {
		err = r.end
	}
	return n, err
}

// WriteTo shadows the method of bytes.Reader, which would ignore end.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

func (r *reader) Close() error { return nil }

// Stat returns the entries of those of hs that are kept.
func (s *Store) Stat(ctx context.Context, hs []dag.Hash) (entries []store.Entry, err error) {
	err = s.reading(ctx, OpStat, func(c *contents) error {
		for _, h := range hs {
			if o, kept := c.objects[h]; kept {
				entries = append(entries, o.entry(h))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Has reports whether h is kept.
func (s *Store) Has(ctx context.Context, h dag.Hash) (ok bool, err error) {
	err = s.reading(ctx, OpHas, func(c *contents) error {
		_, ok = c.objects[h]
		return nil
	})
	return ok && err == nil, err
}

// Resolve returns the hashes that begin with prefix, in order, at most max.
func (s *Store) Resolve(ctx context.Context, prefix string, max int) (found []dag.Hash, err error) {
	err = s.reading(ctx, OpResolve, func(c *contents) error {
		for h := range c.objects {
			if strings.HasPrefix(h.String(), prefix) {
				found = append(found, h)
			}
		}
		slices.SortFunc(found, compare)
		found = found[:min(len(found), max)]
		return nil
	})
	return found, err
}

// Stage keeps r's bytes as a blob under a pin.
func (s *Store) Stage(ctx context.Context, pin string, r io.Reader) (h dag.Hash, size int64, err error) {
	err = s.do(ctx, OpStage, func() error {
		if pin == "" || !store.IsText(pin) {
			return fmt.Errorf("pin %q: %w", pin, store.ErrInvalid)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		h, size = dag.Sum(data), int64(len(data))
		s.c.writing.Lock()
		defer s.c.writing.Unlock()
		if err := s.alive(ctx); err != nil {
			return err
		}
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		s.c.put(store.Object{Hash: h, Data: data}, s.now())
		if s.c.pins[pin] == nil {
			s.c.pins[pin] = map[dag.Hash]bool{}
		}
		s.c.pins[pin][h] = true
		return nil
	})
	if err != nil {
		return dag.Hash{}, 0, err
	}
	return h, size, nil
}

// List yields an entry for every object, in hash order.
func (s *Store) List(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		var entries []store.Entry
		err := s.reading(ctx, OpList, func(c *contents) error {
			for h, o := range c.objects {
				entries = append(entries, o.entry(h))
			}
			return nil
		})
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		slices.SortFunc(entries, func(a, b store.Entry) int { return compare(a.Hash, b.Hash) })
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Scan calls visit with every object whose bytes match its hash.
func (s *Store) Scan(ctx context.Context, visit func(store.Object) error) error {
	var all []store.Object
	err := s.reading(ctx, OpScan, func(c *contents) error {
		for h, o := range c.objects {
			if dag.Sum(o.data) == h {
				all = append(all, store.Object{Hash: h, Kind: o.kind, Data: bytes.Clone(o.data)})
			}
		}
		return nil
	})
	for _, o := range all {
		if err == nil {
			err = visit(o)
		}
	}
	return err
}

// Sweep deletes the objects that choose returns, unless they are pinned or were put within grace.
func (s *Store) Sweep(
	ctx context.Context, grace time.Duration, choose func(store.View) ([]dag.Hash, error),
) (gone []store.Entry, err error) {
	err = s.do(ctx, OpSweep, func() error {
		s.c.writing.Lock()
		defer s.c.writing.Unlock()
		if err := s.alive(ctx); err != nil {
			return err
		}
		chosen, err := choose(view{handle(Config{Now: s.cfg.Now}, s.c)})
		if err != nil {
			return err
		}
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		pinned, before := s.c.pinned(), s.cfg.Now().Add(-grace).UnixMilli()
		for _, h := range chosen {
			o, ok := s.c.objects[h]
			if !ok || pinned[h] || o.put > before {
				continue
			}
			delete(s.c.objects, h)
			gone = append(gone, o.entry(h))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// A view is a handle that cannot write. It asks no Fault: those of a sweep
// strike at its two ends.
type view struct{ *Store }

func (view) Stage(context.Context, string, io.Reader) (dag.Hash, int64, error) {
	return dag.Hash{}, 0, errors.New("stage: the store is being swept")
}

// Compact has nothing to do in memory.
func (s *Store) Compact(ctx context.Context, grace time.Duration) error {
	return s.reading(ctx, OpCompact, func(*contents) error { return nil })
}

// Check finds nothing wrong with memory.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	return nil, s.reading(ctx, OpCheck, func(*contents) error { return nil })
}

func (s *Store) now() int64 { return s.cfg.Now().UnixMilli() }

func (c *contents) object(h dag.Hash) (object, error) {
	o, ok := c.objects[h]
	if !ok {
		return o, fmt.Errorf("object %s: %w", h, store.ErrNotFound)
	}
	return o, nil
}

// sound returns an object after checking its bytes.
func (c *contents) sound(h dag.Hash) (store.Object, error) {
	o, err := c.object(h)
	if err != nil {
		return store.Object{}, err
	}
	return store.Checked(h, o.kind, bytes.Clone(o.data))
}

// put stores an object; if it is already kept, put renews it and may make a
// blob a node. It returns a function that undoes this.
func (c *contents) put(in store.Object, now int64) (undo func()) {
	old, ok := c.objects[in.Hash]
	if !ok {
		c.objects[in.Hash] = object{kind: in.Kind, data: bytes.Clone(in.Data), put: now}
		return func() { delete(c.objects, in.Hash) }
	}
	next := old
	next.kind, next.put = max(old.kind, in.Kind), max(old.put, now)
	c.objects[in.Hash] = next
	return func() { c.objects[in.Hash] = old }
}

func (c *contents) pinned() map[dag.Hash]bool {
	all := map[dag.Hash]bool{}
	for _, hs := range c.pins {
		maps.Copy(all, hs)
	}
	return all
}

func (o object) entry(h dag.Hash) store.Entry {
	return store.Entry{Hash: h, Kind: o.kind, Size: int64(len(o.data)), Put: time.UnixMilli(o.put).UTC()}
}

func compare(a, b dag.Hash) int { return cmp.Compare(string(a[:]), string(b[:])) }
