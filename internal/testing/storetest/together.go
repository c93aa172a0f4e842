package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

func missingObject(h *home) {
	there := h.keep("there")[0]
	lost := dag.Sum([]byte("lost"))
	t := thread(id(1), there)
	h.commit(store.Batch{Threads: []store.ThreadChange{{Row: t}}})
	head, start := thread(id(2), there), thread(id(2), there)
	head.Head, start.Start = lost, lost
	files := thread(id(2), there)
	files.Files = lost
	moved, refiled := t, t
	moved.Head, refiled.Files = lost, lost
	for name, b := range map[string]store.Batch{
		"a new thread's head":  {Threads: []store.ThreadChange{{Row: head}}},
		"a new thread's start": {Threads: []store.ThreadChange{{Row: start}}},
		"a new thread's files": {Threads: []store.ThreadChange{{Row: files}}},
		"a thread's new files": {Threads: []store.ThreadChange{{Row: refiled, From: t.State()}}},
		"a moved head":         {Threads: []store.ThreadChange{{Row: moved, From: t.State()}}},
		"a flow":               {Flows: []store.FlowChange{{Row: store.Flow{Name: "f", Hash: lost}}}},
		"an attempt's prompt":  {Attempts: []store.AttemptChange{{Row: store.Attempt{ID: "a", Prompt: lost}}}},
		"an attempt's pin": {Attempts: []store.AttemptChange{
			{Row: store.Attempt{ID: "a", Pins: []dag.Hash{there, lost}}}}},
		"a gate's diff": {Gates: []store.GateChange{{Row: store.Gate{ID: "g", Diff: lost}}}},
		"a flow's earlier state": {Flows: []store.FlowChange{
			{Row: store.Flow{Name: "f", Hash: there, History: []store.Version{{Hash: lost}}}}}},
	} {
		if err := h.Commit(h.ctx, b); !errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			h.Errorf("%s: got %v, want not found", name, err)
		}
	}
}

func lostObject(h *home) {
	b, t := insert(id(1))
	files := node("files")
	b.Objects, t.Files = append(b.Objects, files), files.Hash
	b.Threads[0].Row = t
	h.commit(b)
	_, err := h.Sweep(h.ctx, 0, func(store.View) ([]dag.Hash, error) { return []dag.Hash{t.Head, t.Files}, nil })
	h.must(err)
	failed := t
	failed.Status = store.Failed
	h.commit(store.Batch{Threads: []store.ThreadChange{{Row: failed, From: t.State()}}})
}

func ownBatchOnly(h *home) {
	const n = 64
	for i := range n {
		b, _ := insert(id(i))
		h.commit(b)
	}
	var failed atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			t, err := h.Thread(h.ctx, id(i))
			if err != nil {
				h.Error(err)
				return
			}
			if i == n/2 {
				t.Head = dag.Sum([]byte("not its head"))
			}
			b, _ := step(t, fmt.Sprint("step of ", i))
			switch err := h.Commit(h.ctx, b); {
			case i == n/2 && errors.Is(err, store.ErrConflict):
				failed.Add(1)
			case err != nil:
				h.Errorf("committer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	h.same(failed.Load(), int32(1))
	for i := range n {
		if want := i != n/2; h.has(node(fmt.Sprint("step of ", i)).Hash) != want {
			h.Errorf("step of %d kept: %v, want %v", i, !want, want)
		}
	}
	h.gapless(n - 1)
}
