package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var commitTests = []test{
	{"everything in a batch is there after it", wholeBatch},
	{"nothing of a batch is there after a conflict", noHalfBatch},
	{"a thread moves from its head, status and wish only", threadCAS},
	{"attempts, gates and flows move from their state only", rowCAS},
	{"a short name is that of one thread", shortNames},
	{"a row may not point at a missing object", missingObject},
	{"a lost object does not keep a row from moving", lostObject},
	{"a conflict fails only its own batch", ownBatchOnly},
	{"no update is lost", noLostUpdate},
	{"removal takes a whole tree", removeTree},
	{"a payload that is too large is refused", largePayload},
	{"a context that has ended commits nothing", endedContext},
	{"everything is there after reopening", survives},
}

func wholeBatch(h *home) {
	b, t := insert(id(1))
	a := store.Attempt{ID: id(1) + ".1", Thread: t.ID, From: t.Head, N: 1, Status: store.AttemptRunning}
	g := store.Gate{ID: "g1", Task: t.ID, Thread: t.ID, State: store.GateOpen}
	f := store.Flow{Name: "fix", Hash: t.Head, Timestamp: 7}
	b.Attempts = []store.AttemptChange{{Row: a}}
	b.Gates = []store.GateChange{{Row: g}}
	b.Flows = []store.FlowChange{{Row: f}}
	b.Events = []store.Event{{Type: "x", Task: t.ID, Payload: json.RawMessage(`{"a": "<b>"}`)}}
	b.Prove()
	h.commit(b)

	got, err := h.Get(h.ctx, t.Head)
	h.must(err)
	h.same(got, b.Objects[0])
	gotT, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(gotT, t)
	gotA, err := h.Attempt(h.ctx, a.ID)
	h.must(err)
	h.same(gotA, a)
	gotG, err := h.Gate(h.ctx, g.ID)
	h.must(err)
	h.same(gotG, g)
	gotF, err := h.Flow(h.ctx, f.Name)
	h.must(err)
	h.same(gotF, f)
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(events, []store.Event{{Pos: 1, Seq: 1, Type: "x", Task: t.ID, Payload: json.RawMessage(`{"a": "<b>"}`),
		Proof: b.Events[0].Proof}})
}

func noHalfBatch(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	pinned, _, err := h.Stage(h.ctx, "p", strings.NewReader("pinned"))
	h.must(err)

	b, _ = insert(id(2))
	b.Remove = []string{t.ID}
	b.Events = []store.Event{{Type: "x", Task: id(2)}}
	b.Unpin = []string{"p"}
	b.Gates = []store.GateChange{{Row: store.Gate{ID: "g"}, From: store.GateOpen}} // does not exist
	h.want(h.Commit(h.ctx, b), store.ErrConflict)

	if h.has(b.Objects[0].Hash) {
		h.Error("the object was kept")
	}
	_, err = h.Thread(h.ctx, id(2))
	h.want(err, store.ErrNotFound)
	got, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, t)
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(len(events), 0)
	pins, err := h.Pins(h.ctx)
	h.must(err)
	h.same(pins, []dag.Hash{pinned})
}

func shortNames(h *home) {
	b, t := insert(id(1))
	t.Short = "abcd"
	b.Threads[0].Row = t
	h.commit(b)
	taken, other := insert(id(2))
	other.Short = "abcd"
	taken.Threads[0].Row = other
	h.want(h.Commit(h.ctx, taken), store.ErrConflict)
	_, err := h.Thread(h.ctx, other.ID)
	h.want(err, store.ErrNotFound)

	other.Short = ""
	taken.Threads[0].Row = other
	h.commit(taken)
	named := other
	named.Short = "abcd"
	change := store.ThreadChange{Row: named, From: other.State()}
	h.want(h.Commit(h.ctx, store.Batch{Threads: []store.ThreadChange{change}}), store.ErrConflict)
	for _, want := range []store.Thread{t, other} {
		got, err := h.Thread(h.ctx, want.ID)
		h.must(err)
		h.same(got, want)
	}
	// It is free again once its task is removed.
	h.commit(store.Batch{Remove: []string{t.ID}})
	h.commit(store.Batch{Threads: []store.ThreadChange{change}})
}

func threadCAS(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	h.want(h.Commit(h.ctx, b), store.ErrConflict) // inserted twice
	other := h.keep("other")[0]
	for name, from := range map[string]store.ThreadState{
		"head":   {Head: other, Status: t.Status},
		"status": {Head: t.Head, Status: store.Pending},
		"wanted": {Head: t.Head, Status: t.Status, Intent: store.IntentCancel},
		"zero":   {},
	} {
		next := t
		next.Head = other
		err := h.Commit(h.ctx, store.Batch{Threads: []store.ThreadChange{{Row: next, From: &from}}})
		if !errors.Is(err, store.ErrConflict) {
			h.Errorf("with another %s: got %v, want a conflict", name, err)
		}
	}
	gone := thread(id(9), t.Head)
	h.want(h.Commit(h.ctx, store.Batch{Threads: []store.ThreadChange{{Row: gone, From: gone.State()}}}), store.ErrConflict)
	got, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, t)

	// A request recorded by another process makes the owner look again.
	request := t
	request.Intent = store.IntentCancel
	h.commit(store.Batch{Threads: []store.ThreadChange{{Row: request, From: t.State()}}})
	b, _ = step(t, "one")
	h.want(h.Commit(h.ctx, b), store.ErrConflict)
	b, request = step(request, "one")
	request.Status, request.Intent, request.Workspace, request.EndedAt = store.Cancelled, "", "/w", 5
	b.Threads[0].Row = request
	h.commit(b)
	got, err = h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, request)

	// One batch may move a row twice.
	b, request = step(request, "two")
	more, request := step(request, "three")
	b.Objects = append(b.Objects, more.Objects...)
	b.Threads = append(b.Threads, more.Threads...)
	h.commit(b)
	got, err = h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, request)
}

func rowCAS(h *home) {
	hs := h.keep("v1", "v2", "v3")
	attempt := func(status, from store.AttemptStatus) store.Batch {
		return store.Batch{Attempts: []store.AttemptChange{{Row: store.Attempt{ID: "t.1", Status: status}, From: from}}}
	}
	gate := func(state, from store.GateState) store.Batch {
		return store.Batch{Gates: []store.GateChange{{Row: store.Gate{ID: "g", State: state}, From: from}}}
	}
	use := func(at, last int64) store.Batch {
		row := store.Gate{ID: "g", State: store.GateApproved, UsedAt: at}
		return store.Batch{Gates: []store.GateChange{{Row: row, From: store.GateApproved, UsedAt: last}}}
	}
	flow := func(to, from dag.Hash) store.Batch {
		return store.Batch{Flows: []store.FlowChange{{Row: store.Flow{Name: "f", Hash: to}, From: from}}}
	}
	remove := func(from dag.Hash) store.Batch {
		return store.Batch{Flows: []store.FlowChange{{Row: store.Flow{Name: "f"}, From: from, Delete: true}}}
	}
	for i, x := range []struct {
		b    store.Batch
		want error
	}{
		{attempt(store.AttemptRunning, store.AttemptRunning), store.ErrConflict},
		{attempt(store.AttemptRunning, ""), nil},
		{attempt(store.AttemptRunning, ""), store.ErrConflict},
		{attempt(store.AttemptDone, store.AttemptFailed), store.ErrConflict},
		{attempt(store.AttemptDone, store.AttemptRunning), nil},
		{attempt(store.AttemptFailed, store.AttemptRunning), store.ErrConflict},
		{gate(store.GateApproved, store.GateOpen), store.ErrConflict},
		{gate(store.GateOpen, ""), nil},
		{gate(store.GateOpen, ""), store.ErrConflict},
		{gate(store.GateApproved, store.GateOpen), nil},
		{gate(store.GateRejected, store.GateOpen), store.ErrConflict},
		{use(8, 7), store.ErrConflict},
		{use(7, 0), nil},
		{use(8, 0), store.ErrConflict},
		{use(8, 7), nil},
		{gate(store.GateWithdrawn, store.GateApproved), store.ErrConflict},
		{flow(hs[0], hs[0]), store.ErrConflict},
		{remove(hs[0]), store.ErrConflict},
		{remove(dag.Hash{}), store.ErrConflict},
		{flow(hs[0], dag.Hash{}), nil},
		{flow(hs[1], dag.Hash{}), store.ErrConflict},
		{flow(hs[1], hs[2]), store.ErrConflict},
		{flow(hs[1], hs[0]), nil},
		{remove(hs[0]), store.ErrConflict},
		{remove(hs[1]), nil},
		{flow(hs[2], dag.Hash{}), nil},
	} {
		if err := h.Commit(h.ctx, x.b); !errors.Is(err, x.want) {
			h.Fatalf("change %d: got %v, want %v", i, err, x.want)
		}
	}
	a, err := h.Attempt(h.ctx, "t.1")
	h.must(err)
	g, err := h.Gate(h.ctx, "g")
	h.must(err)
	f, err := h.Flow(h.ctx, "f")
	h.must(err)
	h.same([]any{a.Status, g.State, g.UsedAt, f.Hash}, []any{store.AttemptDone, store.GateApproved, int64(8), hs[2]})
}

func noLostUpdate(h *home) {
	const writers, each = 8, 25
	b, t := insert(id(1))
	h.commit(b)
	handles := []store.Store{h.Store, h.again()}
	var wg sync.WaitGroup
	for w := range writers {
		s := handles[w%len(handles)]
		wg.Go(func() {
			for i := 0; i < each; {
				t, err := s.Thread(h.ctx, t.ID)
				if err == nil {
					b, _ := step(t, fmt.Sprint(w, i))
					err = s.Commit(h.ctx, b)
				}
				switch {
				case err == nil:
					i++
				case !errors.Is(err, store.ErrConflict):
					h.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	got, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got.Steps, writers*each)
	h.gapless(writers * each)
}

func removeTree(h *home) {
	var b store.Batch
	o := node("start")
	b.Objects = []store.Object{o}
	for _, x := range []struct{ id, task string }{{"R", "R"}, {"P", "R"}, {"R2", "R2"}} {
		t := thread(x.id, o.Hash)
		t.Task, t.Root = x.task, x.task
		b.Threads = append(b.Threads, store.ThreadChange{Row: t})
		b.Attempts = append(b.Attempts, store.AttemptChange{Row: store.Attempt{ID: x.id + ".1", Thread: x.id,
			Status: store.AttemptRunning}})
		b.Gates = append(b.Gates, store.GateChange{Row: store.Gate{ID: "g" + x.id, Task: x.task, Thread: x.id,
			State: store.GateOpen}})
		b.Events = append(b.Events, store.Event{Type: "x", Task: x.task, Thread: x.id})
	}
	b.Prove()
	h.commit(b)
	for _, pin := range []string{"P.1", "R", "R2.1", "other"} {
		_, _, err := h.Stage(h.ctx, pin, strings.NewReader(pin))
		h.must(err)
	}
	h.commit(store.Batch{Remove: []string{"R", "nobody"}, Events: []store.Event{{Type: "removed", Task: "R2"}}})

	threads, err := h.Threads(h.ctx, store.ThreadFilter{})
	h.must(err)
	attempts, err := h.Attempts(h.ctx, store.AttemptFilter{})
	h.must(err)
	gates, err := h.Gates(h.ctx, store.GateFilter{})
	h.must(err)
	h.same([]int{len(threads), len(attempts), len(gates)}, []int{1, 1, 1})
	h.same([]string{threads[0].ID, attempts[0].ID, gates[0].ID}, []string{"R2", "R2.1", "gR2"})
	pins, err := h.Pins(h.ctx)
	h.must(err)
	h.same(len(pins), 2)
	// No number is assigned twice, not even that of the last event.
	h.commit(store.Batch{Events: []store.Event{{Type: "y", Task: "R"}}})
	h.commit(store.Batch{Remove: []string{"R"}})
	h.reopen()
	h.commit(store.Batch{Events: []store.Event{{Type: "z", Task: "R"}}})
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(events, []store.Event{
		{Pos: 3, Seq: 1, Type: "x", Task: "R2", Thread: "R2", Proof: b.Events[2].Proof},
		{Pos: 4, Seq: 2, Type: "removed", Task: "R2"},
		{Pos: 6, Seq: 1, Type: "z", Task: "R"},
	})
}

func largePayload(h *home) {
	event := func(n int) store.Batch {
		return store.Batch{
			Objects: []store.Object{blob("with it")},
			Events:  []store.Event{{Type: "x", Payload: json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)}},
		}
	}
	if err := h.Commit(h.ctx, event(store.MaxEventPayload+1)); err == nil {
		h.Error("a payload over the limit was taken")
	}
	if h.has(blob("with it").Hash) {
		h.Error("the object beside it was kept")
	}
	h.commit(event(store.MaxEventPayload))
	h.gapless(1)
}

func endedContext(h *home) {
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	b, t := insert(id(1))
	h.want(h.Commit(ctx, b), context.Canceled)
	_, err := h.Thread(h.ctx, t.ID)
	h.want(err, store.ErrNotFound)
}

func survives(h *home) {
	b, t := insert(id(1))
	b.Events = []store.Event{{Type: "x", Task: t.ID}}
	h.commit(b)
	pinned, _, err := h.Stage(h.ctx, "p", strings.NewReader("pinned"))
	h.must(err)
	h.reopen()
	got, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, t)
	o, err := h.Get(h.ctx, t.Head)
	h.must(err)
	h.same(o, b.Objects[0])
	pins, err := h.Pins(h.ctx)
	h.must(err)
	h.same(pins, []dag.Hash{pinned})
	h.commit(store.Batch{Events: []store.Event{{Type: "y", Task: t.ID}}})
	h.gapless(2)
}
