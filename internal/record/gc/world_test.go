package gc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/mem"
)

type ctxT = context.Context

var ctx ctxT = context.Background()

// A clock does not move by itself.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.UnixMilli(1_700_000_000_000).UTC()} }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

// forEachStore runs a test on two handles of one store, of each kind.
func forEachStore(t *testing.T, f func(t *testing.T, now *clock, a, b store.Store)) {
	t.Run("mem", func(t *testing.T) {
		now := newClock()
		s := mem.New(mem.Config{Now: now.now})
		f(t, now, s, s.Share())
	})
	t.Run("sqlite", func(t *testing.T) {
		now := newClock()
		dir := t.TempDir() + "/home"
		f(t, now, openSQLite(t, dir, now.now), openSQLite(t, dir, now.now))
	})
}

func openSQLite(t testing.TB, dir string, now func() time.Time) store.Store {
	t.Helper()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func node(t fataler, typ string, payload any) store.Object {
	t.Helper()
	data, err := dag.Encode(typ, payload)
	if err != nil {
		t.Fatalf("encode %s: %v", typ, err)
	}
	return store.Object{Hash: dag.Sum(data), Kind: store.Node, Data: data}
}

func content(t fataler, text string, artifacts ...dag.Hash) store.Object {
	t.Helper()
	data, err := dag.EncodeContent(text, artifacts)
	if err != nil {
		t.Fatalf("encode content: %v", err)
	}
	return store.Object{Hash: dag.Sum(data), Kind: store.Node, Data: data}
}

func blob(text string) store.Object {
	return store.Object{Hash: dag.Sum([]byte(text)), Data: []byte(text)}
}

func bundle(t fataler, name string) store.Object {
	return node(t, dag.TypeFlow, map[string]any{"name": name, "flows": map[string]any{}})
}

func start(t fataler, prompt, bundle dag.Hash) store.Object {
	return node(t, dag.TypeStart, map[string]any{
		"name": "f", "hash": bundle, "depth": 0, "parentState": nil, "prompt": prompt, "maxRounds": nil,
	})
}

func state(t fataler, role string, start, text dag.Hash, ancestors ...dag.Hash) store.Object {
	if ancestors == nil {
		ancestors = []dag.Hash{}
	}
	return node(t, dag.TypeState, map[string]any{
		"role": role, "meta": map[string]any{}, "start": start, "content": text, "ancestors": ancestors,
		"compact": nil, "timestamp": 1, "childThread": nil, "detail": nil, "fork": nil, "paths": nil,
	})
}

// A fataler is what tests, benchmarks and rapid's checks have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func commit(t fataler, s store.Store, b store.Batch) {
	t.Helper()
	if err := s.Commit(ctx, b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// begin commits a thread with a start and one step, and returns its row and what
// it reaches.
func begin(t fataler, s store.Store, id string) (store.Thread, []store.Object) {
	t.Helper()
	f, p, c := bundle(t, "f"), content(t, "prompt of "+id), content(t, "text of "+id)
	st := start(t, p.Hash, f.Hash)
	step := state(t, "planner", st.Hash, c.Hash)
	objects := []store.Object{f, p, c, st, step}
	row := store.Thread{
		ID: id, Task: id, Root: id, Kind: store.KindRoot, Bundle: f.Hash, Flow: "f",
		Start: st.Hash, Head: step.Hash, Status: store.Running, Steps: 1,
	}
	commit(t, s, store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}})
	return row, objects
}

// kept returns the hashes of all objects.
func kept(t fataler, s store.Store) map[dag.Hash]bool {
	t.Helper()
	all := map[dag.Hash]bool{}
	for e, err := range s.List(ctx) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		all[e.Hash] = true
	}
	return all
}

// closed reads everything below hs and reports what is missing.
func closed(s store.Objects, hs ...dag.Hash) error {
	seen := map[dag.Hash]bool{}
	for len(hs) > 0 {
		h := hs[0]
		hs = hs[1:]
		if h.IsZero() || seen[h] {
			continue
		}
		seen[h] = true
		o, err := s.Get(ctx, h)
		if err != nil {
			return err
		}
		if o.Kind != store.Node {
			continue
		}
		n, err := dag.Decode(o.Data)
		if err != nil {
			return fmt.Errorf("object %s: %w", h, err)
		}
		hs = append(hs, n.Refs...)
	}
	return nil
}

func mustBeGone(t *testing.T, s store.Store, h dag.Hash) {
	t.Helper()
	if _, err := s.Get(ctx, h); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get of what should be gone: %v, want not found", err)
	}
}
