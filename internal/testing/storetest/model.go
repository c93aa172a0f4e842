package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var modelTests = []test{
	{"any sequence of operations does what the model does", model},
}

// A world is what a store should hold, kept in the simplest way.
type world struct {
	h       *home
	objects map[dag.Hash]store.Kind
	pins    map[string]map[dag.Hash]bool
	threads map[string]store.Thread
	events  []store.Event
	pos     int64
	seq     map[string]int64
}

// model draws operations. All sequences share the store: each begins by
// removing what the previous one left.
func model(h *home) {
	rapid.Check(h.T, func(rt *rapid.T) {
		w := &world{
			h: h, objects: map[dag.Hash]store.Kind{}, pins: map[string]map[dag.Hash]bool{},
			threads: map[string]store.Thread{}, seq: map[string]int64{},
		}
		w.reset(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"put":    w.put,
			"stage":  w.stage,
			"thread": w.thread,
			"remove": w.remove,
			"unpin":  w.unpin,
			"sweep":  w.sweep,
			"":       w.check,
		})
		ok(rt, CheckLog(h.ctx, h.Store))
	})
}

var (
	texts   = rapid.SampledFrom([]string{"", "a", "b", "c", strings.Repeat("big", 100<<10)})
	threads = rapid.SampledFrom([]string{"A", "B", "C"})
	pinIDs  = rapid.SampledFrom([]string{"A", "A.1", "B.1", "Bx", "free"})
)

// ok fails unless err is nil.
func ok(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}

func (w *world) reset(rt *rapid.T) {
	ok(rt, w.h.Commit(w.h.ctx, store.Batch{
		Remove: []string{"A", "B", "C"}, Unpin: []string{"A", "A.1", "B.1", "Bx", "free"},
	}))
	_, err := w.h.Sweep(w.h.ctx, 0, func(v store.View) ([]dag.Hash, error) { return v.Resolve(w.h.ctx, "", 1000) })
	ok(rt, err)
	// Positions continue; from where, only an event can show.
	ok(rt, w.h.Commit(w.h.ctx, store.Batch{Events: []store.Event{{Task: "A"}}}))
	events, err := w.h.Events(w.h.ctx, 0, store.EventFilter{})
	ok(rt, err)
	w.pos = events[len(events)-1].Pos
	ok(rt, w.h.Commit(w.h.ctx, store.Batch{Remove: []string{"A"}}))
}

func (w *world) keep(o store.Object) {
	w.objects[o.Hash] = max(w.objects[o.Hash], o.Kind)
}

func (w *world) put(rt *rapid.T) {
	o := blob(texts.Draw(rt, "text"))
	o.Kind = store.Kind(rapid.IntRange(0, 1).Draw(rt, "kind"))
	ok(rt, w.h.Commit(w.h.ctx, store.Batch{Objects: []store.Object{o}}))
	w.keep(o)
}

func (w *world) stage(rt *rapid.T) {
	text, pin := texts.Draw(rt, "text"), pinIDs.Draw(rt, "pin")
	x, _, err := w.h.Stage(w.h.ctx, pin, strings.NewReader(text))
	ok(rt, err)
	w.keep(blob(text))
	if w.pins[pin] == nil {
		w.pins[pin] = map[dag.Hash]bool{}
	}
	w.pins[pin][x] = true
}

// thread inserts or moves a row, with an expectation that may be wrong and a
// head that may be missing, along with an object and an event.
func (w *world) thread(rt *rapid.T) {
	id := threads.Draw(rt, "id")
	old, exists := w.threads[id]
	o, beside := blob(texts.Draw(rt, "head")), blob(fmt.Sprint("beside ", rapid.IntRange(0, 2).Draw(rt, "beside")))
	status := rapid.SampledFrom([]store.Status{store.Running, store.Blocked}).Draw(rt, "status")
	next := store.Thread{ID: id, Task: id, Root: id, Head: o.Hash, Status: status, Steps: old.Steps + 1}
	b := store.Batch{
		Objects: []store.Object{beside}, Events: []store.Event{{Type: "moved", Task: id}},
		Threads: []store.ThreadChange{{Row: next}},
	}
	brought := rapid.Bool().Draw(rt, "brought")
	if brought {
		b.Objects = append(b.Objects, o)
	}
	if rapid.Bool().Draw(rt, "update") {
		b.Threads[0].From = old.State()
		switch rapid.SampledFrom([]string{"", "", "", "head", "status", "wanted"}).Draw(rt, "wrong") {
		case "head":
			b.Threads[0].From.Head[0]++
		case "status":
			b.Threads[0].From.Status += "x"
		case "wanted":
			b.Threads[0].From.Intent = store.IntentCancel
		}
	}
	b.Prove()
	var want error
	from := b.Threads[0].From
	_, kept := w.objects[o.Hash]
	switch {
	case exists != (from != nil) || exists && *from != *old.State():
		want = store.ErrConflict
	case !brought && !kept && o.Hash != old.Head && o.Hash != beside.Hash:
		want = store.ErrNotFound
	}
	if err := w.h.Commit(w.h.ctx, b); !errors.Is(err, want) || want == nil && err != nil {
		rt.Fatalf("got %v, want %v", err, want)
	}
	if want != nil {
		return
	}
	for _, o := range b.Objects {
		w.keep(o)
	}
	w.threads[id] = next
	w.pos++
	w.seq[id]++
	w.events = append(w.events, store.Event{Pos: w.pos, Seq: w.seq[id], Type: "moved", Task: id, Proof: b.Events[0].Proof})
}

func (w *world) remove(rt *rapid.T) {
	id := threads.Draw(rt, "id")
	ok(rt, w.h.Commit(w.h.ctx, store.Batch{Remove: []string{id}}))
	delete(w.threads, id)
	delete(w.seq, id)
	w.events = slices.DeleteFunc(w.events, func(e store.Event) bool { return e.Task == id })
	maps.DeleteFunc(w.pins, func(pin string, _ map[dag.Hash]bool) bool {
		return pin == id ||
			strings.HasPrefix(pin, id+".")
	})
}

func (w *world) unpin(rt *rapid.T) {
	pin := pinIDs.Draw(rt, "pin")
	ok(rt, w.h.Commit(w.h.ctx, store.Batch{Unpin: []string{pin}}))
	delete(w.pins, pin)
}

func (w *world) pinned() map[dag.Hash]bool {
	all := map[dag.Hash]bool{}
	for _, hs := range w.pins {
		maps.Copy(all, hs)
	}
	return all
}

func (w *world) sweep(rt *rapid.T) {
	chosen := rapid.SliceOfN(texts, 0, 3).Draw(rt, "chosen")
	var hs []dag.Hash
	for _, text := range chosen {
		x := dag.Sum([]byte(text))
		if slices.ContainsFunc(slices.Collect(maps.Values(w.threads)), func(t store.Thread) bool { return t.Head == x }) {
			continue
		}
		hs = append(hs, x)
		if !w.pinned()[x] {
			delete(w.objects, x)
		}
	}
	_, err := w.h.Sweep(w.h.ctx, 0, choosing(hs...))
	ok(rt, err)
}

func (w *world) check(rt *rapid.T) {
	kept := map[dag.Hash]store.Kind{}
	for e, err := range w.h.List(w.h.ctx) {
		ok(rt, err)
		o, err := w.h.Get(w.h.ctx, e.Hash)
		ok(rt, err)
		kept[e.Hash] = o.Kind
	}
	rows, err := w.h.Threads(w.h.ctx, store.ThreadFilter{})
	ok(rt, err)
	events, err := w.h.Events(w.h.ctx, 0, store.EventFilter{})
	ok(rt, err)
	pins, err := w.h.Pins(w.h.ctx)
	ok(rt, err)
	wantRows := slices.SortedFunc(maps.Values(w.threads), func(a,
		b store.Thread) int {
		return strings.Compare(a.ID, b.ID)
	})
	wantPins := slices.SortedFunc(maps.Keys(w.pinned()), func(a,
		b dag.Hash) int {
		return strings.Compare(string(a[:]), string(b[:]))
	})
	for _, d := range []string{
		cmp.Diff(w.objects, kept),
		cmp.Diff(wantRows, rows),
		cmp.Diff(wantPins, pins),
		cmp.Diff(append([]store.Event(nil), w.events...), events),
	} {
		if d != "" {
			rt.Fatalf("differs from the model (-want +got):\n%s", d)
		}
	}
}
