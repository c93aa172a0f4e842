package gc_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A model is what a store holds and why, computed without looking at the store.
type model struct {
	now   *clock
	store store.Store

	refs    map[dag.Hash][]dag.Hash // of every existing object
	put     map[dag.Hash]time.Time
	threads map[string]store.Thread
	pins    map[string]map[dag.Hash]bool
	next    int
}

func newModel() *model {
	now := newClock()
	return &model{
		now: now, store: mem.New(mem.Config{Now: now.now}),
		refs: map[dag.Hash][]dag.Hash{}, put: map[dag.Hash]time.Time{},
		threads: map[string]store.Thread{}, pins: map[string]map[dag.Hash]bool{},
	}
}

func (m *model) note(o store.Object) {
	m.put[o.Hash] = m.now.now()
	if o.Kind == store.Node {
		n, err := dag.Decode(o.Data)
		if err != nil {
			panic(err) // the test encoded it
		}
		m.refs[o.Hash] = n.Refs
	} else if _, ok := m.refs[o.Hash]; !ok {
		m.refs[o.Hash] = nil
	}
}

func (m *model) commit(t fataler, b store.Batch) {
	commit(t, m.store, b)
	for _, o := range b.Objects {
		m.note(o)
	}
}

// below returns hs and all that they lead to, as far as it exists.
func (m *model) below(hs []dag.Hash) map[dag.Hash]bool {
	seen := map[dag.Hash]bool{}
	for len(hs) > 0 {
		h := hs[len(hs)-1]
		hs = hs[:len(hs)-1]
		if refs, ok := m.refs[h]; ok && !seen[h] {
			seen[h] = true
			hs = append(hs, refs...)
		}
	}
	return seen
}

// collected returns what a collection with the given grace leaves.
func (m *model) collected(grace time.Duration) map[dag.Hash]bool {
	var roots []dag.Hash
	for _, r := range m.threads {
		roots = append(roots, r.Head, r.Start, r.Bundle)
	}
	for _, p := range m.pins {
		roots = slices.AppendSeq(roots, maps.Keys(p))
	}
	for h, at := range m.put {
		if at.After(m.now.now().Add(-grace)) {
			roots = append(roots, h)
		}
	}
	return m.below(roots)
}

func (m *model) settle(left map[dag.Hash]bool) {
	gone := func(h dag.Hash) bool { return !left[h] }
	maps.DeleteFunc(m.refs, func(h dag.Hash, _ []dag.Hash) bool { return gone(h) })
	maps.DeleteFunc(m.put, func(h dag.Hash, _ time.Time) bool { return gone(h) })
}

func (m *model) id() string {
	m.next++
	return fmt.Sprintf("T%03d", m.next)
}

func (m *model) thread(t *rapid.T) store.Thread {
	if len(m.threads) == 0 {
		t.Skip("no thread")
	}
	return m.threads[rapid.SampledFrom(slices.Sorted(maps.Keys(m.threads))).Draw(t, "thread")]
}

// text draws from a few texts, so that old garbage is often put again.
func text(t *rapid.T) string { return fmt.Sprint("text ", rapid.IntRange(0, 4).Draw(t, "text")) }

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				f, p := bundle(t, "f"), content(t, text(t))
				st := start(t, p.Hash, f.Hash)
				id := m.id()
				row := store.Thread{ID: id, Task: id, Root: id, Bundle: f.Hash, Start: st.Hash, Head: st.Hash,
					Status: store.Running}
				m.commit(t, store.Batch{Objects: []store.Object{f, p, st}, Threads: []store.ThreadChange{{Row: row}}})
				m.threads[id] = row
			},
			"append": func(t *rapid.T) {
				row := m.thread(t)
				var logs []dag.Hash
				for _, pin := range slices.Sorted(maps.Keys(m.pins)) {
					logs = slices.AppendSeq(logs, maps.Keys(m.pins[pin]))
				}
				slices.SortFunc(logs, func(a, b dag.Hash) int { return strings.Compare(a.String(), b.String()) })
				c := content(t, text(t), logs...)
				var parents []dag.Hash
				if row.Head != row.Start {
					parents = []dag.Hash{row.Head}
				}
				step := state(t, "planner", row.Start, c.Hash, parents...)
				was := row
				row.Head = step.Hash
				if rapid.Bool().Draw(t, "end") {
					row.Status = store.Completed
				}
				m.commit(t, store.Batch{Objects: []store.Object{c, step},
					Threads: []store.ThreadChange{{Row: row, From: was.State()}}})
				m.threads[row.ID] = row
			},
			"fork": func(t *rapid.T) {
				row := m.thread(t)
				row.ID = m.id()
				row.Task, row.Root = row.ID, row.ID
				m.commit(t, store.Batch{Threads: []store.ThreadChange{{Row: row}}})
				m.threads[row.ID] = row
			},
			"remove": func(t *rapid.T) {
				row := m.thread(t)
				m.commit(t, store.Batch{Remove: []string{row.ID}})
				delete(m.threads, row.ID)
			},
			"stage": func(t *rapid.T) {
				data := text(t)
				pin := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pin")
				h, _, err := m.store.Stage(ctx, pin, strings.NewReader(data))
				if err != nil {
					t.Fatal(err)
				}
				if m.pins[pin] == nil {
					m.pins[pin] = map[dag.Hash]bool{}
				}
				m.pins[pin][h] = true
				m.note(blob(data))
			},
			"unpin": func(t *rapid.T) {
				pin := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pin")
				m.commit(t, store.Batch{Unpin: []string{pin}})
				delete(m.pins, pin)
			},
			"orphan": func(t *rapid.T) { // of objects that exist or did, in any order
				var refs []dag.Hash
				if there := slices.Sorted(maps.Keys(byText(m.refs))); len(there) > 0 &&
					rapid.Bool().Draw(t, "with ref") {
					refs = append(refs, byText(m.refs)[rapid.SampledFrom(there).Draw(t, "ref")])
				}
				m.commit(t, store.Batch{Objects: []store.Object{content(t, text(t), refs...)}})
			},
			"wait": func(t *rapid.T) {
				minutes := rapid.IntRange(1, 90).Draw(t, "minutes")
				m.now.advance(time.Duration(minutes) * time.Minute)
			},
			"collect": func(t *rapid.T) {
				cfg := gc.Config{Store: m.store, Now: m.now.now}
				cfg.Grace = time.Duration(rapid.SampledFrom([]int{0, 30, 60}).Draw(t, "grace")) * time.Minute
				want := m.collected(cfg.Grace)
				plan, err := gc.Plan(ctx, cfg)
				if err != nil {
					t.Fatal(err)
				}
				done, err := gc.Run(ctx, cfg)
				if diff := cmp.Diff(plan, done); err != nil || diff != "" {
					t.Fatalf("run is not what was planned: %v\n%s", err, diff)
				}
				if done.Kept+done.Reachable != len(want) || done.Scanned != len(m.refs) {
					t.Fatalf("%+v, want %d of %d left", done, len(want), len(m.refs))
				}
				m.settle(want)
				if again, err := gc.Run(ctx, cfg); err != nil || again.Deleted != 0 {
					t.Fatalf("second run: %+v, %v", again, err)
				}
			},
			"": func(t *rapid.T) {
				want := map[dag.Hash]bool{}
				for h := range m.refs {
					want[h] = true
				}
				if diff := cmp.Diff(want, kept(t, m.store)); diff != "" {
					t.Fatalf("what is kept (- wanted + is):\n%s", diff)
				}
			},
		})
	})
}

func byText(refs map[dag.Hash][]dag.Hash) map[string]dag.Hash {
	out := make(map[string]dag.Hash, len(refs))
	for h := range refs {
		out[h.String()] = h
	}
	return out
}
