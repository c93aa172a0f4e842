package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/plait-run/plait/internal/record/store"
)

var fenceTests = []test{
	{"a token grows each time that a lease is taken", tokenGrows},
	{"a batch under a lease that another has taken changes nothing", fencedOff},
	{"a batch under a lease that nobody gave is refused", fenceUnknown},
	{"of several leases one that is lost is enough", fenceOfMany},
	{"a fence goes before all that could be wrong with a batch", fenceFirst},
	{"a store under a lease fences each of its batches", under},
	{"a fence fails only its own batch", fenceOwnBatch},
	{"nothing is committed under a lease once another has it", zombie},
	{"a lease that was released was not lost", lostOpen},
}

// take acquires a lease through s.
func (h *home) take(s store.Store, name string) store.Lease {
	h.Helper()
	l, err := s.Acquire(h.ctx, name)
	h.must(err)
	return l
}

// after releases l and takes a lease next: the fence of l is then no longer valid.
func (h *home) after(l store.Lease, s store.Store, name string) store.Lease {
	h.Helper()
	h.must(l.Release())
	return h.take(s, name)
}

func tokenGrows(h *home) {
	other := h.again()
	l := h.take(h.Store, "one")
	beside := h.take(other, "two") // has its own numbers
	if f := l.Fence(); f.Name != "one" || f.Token <= 0 {
		h.Fatalf("fence %+v", f)
	}
	for i := range 5 {
		last := l.Fence()
		if i == 3 {
			h.must(l.Release())
			h.reopen() // and the store remembers them
		}
		l = h.after(l, []store.Store{h.Store, other}[i%2], "one")
		if f := l.Fence(); f.Name != "one" || f.Token <= last.Token {
			h.Errorf("taken after %+v: %+v", last, f)
		}
	}
	h.commit(store.Batch{Under: []store.Fence{l.Fence(), beside.Fence()}})
	h.must(l.Release())
	h.must(beside.Release())
}

// full is a batch that changes something of everything, and what it would have left.
func full(h *home, t store.Thread, fences ...store.Fence) (store.Batch, func()) {
	h.Helper()
	pinned, _, err := h.Stage(h.ctx, "p", strings.NewReader("pinned"))
	h.must(err)
	b, _ := step(t, "by the fenced one")
	b.Under = fences
	b.Attempts = []store.AttemptChange{{Row: store.Attempt{ID: t.ID + ".9", Thread: t.ID, Status: store.AttemptRunning}}}
	b.Gates = []store.GateChange{{Row: store.Gate{ID: "G9", Task: t.ID, State: store.GateOpen}}}
	b.Flows = []store.FlowChange{{Row: store.Flow{Name: "f9", Hash: t.Head}}}
	b.Requests = []store.RequestChange{{Row: store.Request{ID: "W9", Task: t.ID}}}
	b.Counts = []store.Count{{Task: t.ID, Name: "n", Add: 1, Most: 9}}
	b.Unpin = []string{"p"}
	before, err := h.Task(h.ctx, t.ID)
	h.must(err)
	return b, func() {
		h.Helper()
		now, err := h.Task(h.ctx, t.ID)
		h.must(err)
		h.same(now, before)
		for _, o := range b.Objects {
			h.same(h.has(o.Hash), false)
		}
		_, err = h.Flow(h.ctx, "f9")
		h.want(err, store.ErrNotFound)
		pins, err := h.Pins(h.ctx)
		h.must(err)
		h.same(len(pins), 1)
		h.same(pins[0], pinned)
	}
}

func fencedOff(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	l := h.take(h.Store, t.ID)
	old := l.Fence()
	for _, taker := range []store.Store{h.Store, h.again()} { // even if its own process took it
		l = h.after(l, taker, t.ID)
		b, nothing := full(h, t, old)
		err := h.Commit(h.ctx, b)
		h.want(err, store.ErrFenced)
		if errors.Is(err, store.ErrConflict) {
			h.Errorf("%v: is a conflict too, and would be tried again", err)
		}
		nothing()
	}
	b, _ = full(h, t, l.Fence())
	h.commit(b)
	h.reopen()
	b, _ = step(t, "later")
	b.Under = []store.Fence{old}
	h.want(h.Commit(h.ctx, b), store.ErrFenced)
	h.must(l.Release())
}

func fenceUnknown(h *home) {
	l := h.take(h.Store, "one")
	defer l.Release()
	for _, f := range []store.Fence{
		{Name: "one", Token: l.Fence().Token + 1}, {Name: "one"}, {Name: "one", Token: -1},
		{Name: "never", Token: l.Fence().Token}, {Name: "never"}, {},
	} {
		b, t := insert(id(1))
		b.Under = []store.Fence{f}
		if err := h.Commit(h.ctx, b); !errors.Is(err, store.ErrFenced) {
			h.Errorf("%+v: got %v, want fenced", f, err)
		}
		_, err := h.Thread(h.ctx, t.ID)
		h.want(err, store.ErrNotFound)
	}
}

func fenceOfMany(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	one, two := h.take(h.Store, "one"), h.take(h.Store, "two")
	b, t = step(t, "both held")
	b.Under = []store.Fence{one.Fence(), two.Fence()}
	h.commit(b)
	old := two.Fence()
	two = h.after(two, h.again(), "two")
	for _, fences := range [][]store.Fence{{one.Fence(), old}, {old, one.Fence()}} {
		b, nothing := full(h, t, fences...)
		h.want(h.Commit(h.ctx, b), store.ErrFenced)
		nothing()
	}
	h.must(one.Release())
	h.must(two.Release())
}

// fenceFirst checks that a holder that was taken over gets that error, rather than that rows have moved since.
func fenceFirst(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	l := h.take(h.Store, "one")
	old := l.Fence()
	l = h.after(l, h.Store, "one")
	moved, _ := step(t, "moved")
	h.commit(moved)
	missing := t
	missing.Head[0]++
	for name, b := range map[string]store.Batch{
		"a conflict":        moved,
		"a missing object":  {Threads: []store.ThreadChange{{Row: missing, From: t.State()}}},
		"a count too large": {Counts: []store.Count{{Task: t.ID, Name: "n", Add: 2, Most: 1}}},
	} {
		b.Under = []store.Fence{old}
		if err := h.Commit(h.ctx, b); !errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrConflict) {
			h.Errorf("%s: got %v, want fenced", name, err)
		}
	}
	h.must(l.Release())
}

func under(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	outer, l := h.take(h.Store, "outer"), h.take(h.Store, t.ID)
	s := store.Under(store.Under(h.Store, outer), l)
	b, t = step(t, "held")
	own := []store.Fence{outer.Fence()}
	b.Under = own[:1:1]
	h.must(s.Commit(h.ctx, b))
	h.same(b.Under, own) // the caller's batch is unchanged
	got, err := s.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, t)

	l = h.after(l, h.again(), t.ID)
	b, nothing := full(h, t)
	h.want(s.Commit(h.ctx, b), store.ErrFenced)
	nothing()
	got, err = s.Thread(h.ctx, t.ID) // reading is still allowed
	h.must(err)
	h.same(got, t)
	b.Under = nil
	h.must(store.Under(h.Store, l).Commit(h.ctx, b))
	h.must(l.Release())
	h.must(outer.Release())
}

func fenceOwnBatch(h *home) {
	const n = 48
	for i := range n {
		b, _ := insert(id(i))
		h.commit(b)
	}
	l := h.take(h.Store, "one")
	old := l.Fence()
	l = h.after(l, h.Store, "one")
	var fenced atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b, _ := step(thread(id(i), node("start of "+id(i)).Hash), fmt.Sprint("step of ", i))
			b.Under = []store.Fence{l.Fence()}
			if i%8 == 3 {
				b.Under[0] = old
			}
			switch err := h.Commit(h.ctx, b); {
			case i%8 == 3 && errors.Is(err, store.ErrFenced):
				fenced.Add(1)
			case err != nil:
				h.Errorf("committer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	h.same(fenced.Load(), int32(n/8))
	h.gapless(n - n/8)
	h.must(l.Release())
}

// zombie has one holder keep committing while another takes its lease: after that, nothing of the
// first follows.
func zombie(h *home) {
	other := h.again()
	for round := range 10 {
		l := h.take(h.Store, "one")
		fence := l.Fence()
		begun, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for i := 0; ; i++ {
				err := h.Commit(h.ctx, store.Batch{
					Under: []store.Fence{fence}, Events: []store.Event{{Type: "zombie", Task: fmt.Sprint(round)}},
				})
				if err != nil {
					ended <- err
					return
				}
				if i == 0 {
					close(begun)
				}
			}
		}()
		<-begun
		l = h.after(l, other, "one")
		h.must(other.Commit(h.ctx, store.Batch{
			Under: []store.Fence{l.Fence()}, Events: []store.Event{{Type: "taken", Task: fmt.Sprint(round)}},
		}))
		h.want(<-ended, store.ErrFenced)
		events, err := h.Events(h.ctx, 0, store.EventFilter{Task: fmt.Sprint(round), Newest: true, Limit: 1})
		h.must(err)
		if len(events) != 1 || events[0].Type != "taken" {
			h.Errorf("round %d: the last is %+v", round, events)
		}
		h.must(l.Release())
	}
}

func lostOpen(h *home) {
	l := h.take(h.Store, "one")
	open := func(when string) {
		h.Helper()
		select {
		case <-l.Lost():
			h.Errorf("%s: lost", when)
		default:
		}
	}
	open("held")
	_, err := h.again().Acquire(h.ctx, "one")
	h.want(err, store.ErrConflict)
	open("asked for by another")
	next := h.after(l, h.again(), "one")
	open("released and taken by another")
	h.must(l.Release())
	open("released twice")
	h.must(next.Release())
}
