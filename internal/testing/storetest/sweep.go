package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var sweepTests = []test{
	{"only what is chosen goes", sweepChosen},
	{"what was put after the grace stays", sweepGrace},
	{"what is pinned stays until the pin ends", sweepPins},
	{"an error of the chooser deletes nothing", sweepError},
	{"the chooser sees the store, and nothing changes meanwhile", sweepView},
	{"sweeping beside writers loses nothing they commit", sweepBeside},
	{"compacting changes nothing that is kept", compacts},
}

func choosing(hs ...dag.Hash) func(store.View) ([]dag.Hash, error) {
	return func(store.View) ([]dag.Hash, error) { return hs, nil }
}

func (h *home) sweep(grace time.Duration, hs ...dag.Hash) []dag.Hash {
	h.Helper()
	entries, err := h.Sweep(h.ctx, grace, choosing(hs...))
	h.must(err)
	gone := []dag.Hash{}
	for _, e := range entries {
		gone = append(gone, e.Hash)
	}
	return gone
}

func sweepChosen(h *home) {
	hs := h.keep("a", "b", strings.Repeat("c", 300<<10))
	big, _, err := h.Stage(h.ctx, "p", strings.NewReader(strings.Repeat("d", 300<<10)))
	h.must(err)
	h.commit(store.Batch{Unpin: []string{"p"}})
	want := []store.Entry{h.entry(hs[0]), h.entry(hs[2]), h.entry(big)}
	got, err := h.Sweep(h.ctx, 0, choosing(hs[0], dag.Sum([]byte("not there")), hs[2], hs[0], big))
	h.must(err)
	h.same(got, want)
	for i, x := range append(hs, big) {
		if kept := i == 1; h.has(x) != kept {
			h.Errorf("object %d is kept: %v", i, !kept)
		}
	}
	_, err = h.Get(h.ctx, big)
	h.want(err, store.ErrNotFound)
	// What was swept can be put again.
	_, _, err = h.Stage(h.ctx, "p", strings.NewReader(strings.Repeat("d", 300<<10)))
	h.must(err)
	_, err = h.Get(h.ctx, big)
	h.must(err)
	lines, err := h.Check(h.ctx)
	h.must(err)
	h.same(len(lines), 0)
}

// sweepGrace gives a grace that falls between two puts. The duration of a sweep adds to it, and must
// be less than the time between them.
func sweepGrace(h *home) {
	x := h.keep("old")[0]
	h.same(h.sweep(time.Hour, x), []dag.Hash{})
	between := 50 * time.Millisecond
	h.until("a sweep that is fast enough", func() bool {
		h.keep("old")
		first := h.entry(x).Put
		h.until("some time after "+first.String(), func() bool { return h.Now().Sub(first) > between })
		h.keep("old") // put again: counts as new
		second, now := h.entry(x).Put, h.Now()
		if !second.After(first) {
			h.Fatalf("put again at %s, after %s", second, first)
		}
		gone := h.sweep(now.Sub(first), x)
		if h.Now().Sub(now) >= second.Sub(first)-5*time.Millisecond {
			between *= 2
			return false
		}
		h.same(gone, []dag.Hash{})
		return true
	})
	h.until("a sweep after the grace", func() bool {
		h.keep("old")
		put := h.entry(x).Put
		h.until("some time after "+put.String(), func() bool { return h.Now().Sub(put) > 20*time.Millisecond })
		return len(h.sweep(20*time.Millisecond, x)) == 1
	})
	h.same(h.has(x), false)
}

func sweepPins(h *home) {
	var hs []dag.Hash
	for _, x := range []struct{ pin, text string }{
		{"p", "one"}, {"p", strings.Repeat("two", 100<<10)}, {"q", "one"}, {"p2", "three"},
	} {
		hash, _, err := h.Stage(h.ctx, x.pin, strings.NewReader(x.text))
		h.must(err)
		hs = append(hs, hash)
	}
	h.same(h.sweep(0, hs...), []dag.Hash{})
	h.commit(store.Batch{Unpin: []string{"p", "not there"}})
	h.same(h.sweep(0, hs...), []dag.Hash{hs[1]})
	h.reopen()
	h.same(h.sweep(0, hs...), []dag.Hash{})
	h.commit(store.Batch{Unpin: []string{"q"}})
	h.same(h.sweep(0, hs...), []dag.Hash{hs[0]})
	pins, err := h.Pins(h.ctx)
	h.must(err)
	h.same(pins, []dag.Hash{hs[3]})
}

func sweepError(h *home) {
	x := h.keep("x")[0]
	broken := errors.New("a reachable object is missing")
	_, err := h.Sweep(h.ctx, 0, func(store.View) ([]dag.Hash, error) { return []dag.Hash{x}, broken })
	h.want(err, broken)
	h.same(h.has(x), true)
}

func sweepView(h *home) {
	b, t := insert(id(1))
	b.Flows = []store.FlowChange{{Row: store.Flow{Name: "f", Hash: t.Head}}}
	h.commit(b)
	pinned, _, err := h.Stage(h.ctx, "p", strings.NewReader("pinned"))
	h.must(err)
	other := h.again()
	committed := make(chan error, 1)
	_, err = h.Sweep(h.ctx, 0, func(v store.View) ([]dag.Hash, error) {
		go func() {
			b, _ := step(t, "meanwhile")
			committed <- other.Commit(h.ctx, b)
		}()
		var errs []error
		check := func(ok bool, err error, what string) {
			if err != nil || !ok {
				errs = append(errs, errors.Join(err, errors.New(what)))
			}
		}
		// The view is the same whether the commit has not begun or is waiting.
		for range 50 {
			row, err := v.Thread(h.ctx, t.ID)
			check(row.Head == t.Head, err, "the thread moved")
		}
		rows, err := v.Threads(h.ctx, store.ThreadFilter{})
		check(len(rows) == 1, err, "threads")
		o, err := v.Get(h.ctx, t.Head)
		check(bytes.Equal(o.Data, b.Objects[0].Data), err, "get")
		pins, err := v.Pins(h.ctx)
		check(slices.Equal(pins, []dag.Hash{pinned}), err, "pins")
		flow, err := v.Flow(h.ctx, "f")
		check(flow.Hash == t.Head, err, "flow")
		_, err = v.Gate(h.ctx, "g")
		check(errors.Is(err, store.ErrNotFound), nil, "gate")
		found, err := v.Resolve(h.ctx, t.Head.String()[:8], 2)
		check(len(found) == 1, err, "resolve")
		if _, _, err := v.Stage(h.ctx, "p", strings.NewReader("x")); err == nil {
			errs = append(errs, errors.New("staged during a sweep"))
		}
		select {
		case <-committed:
			errs = append(errs, errors.New("committed during a sweep"))
		default:
		}
		return nil, errors.Join(errs...)
	})
	h.must(err)
	h.must(<-committed)
}

// sweepBeside has writers repeatedly put a few objects that a sweeper takes for
// garbage unless a thread's head is there.
func sweepBeside(h *home) {
	const writers, rounds = 4, 40
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	swept := make(chan error, 1)
	sweeper := h.again()
	go func() {
		for ctx.Err() == nil {
			_, err := sweeper.Sweep(h.ctx, 0, func(v store.View) ([]dag.Hash, error) {
				rows, err := v.Threads(h.ctx, store.ThreadFilter{})
				if err != nil {
					return nil, err
				}
				garbage, err := v.Resolve(h.ctx, "", 1000)
				return slices.DeleteFunc(garbage, func(x dag.Hash) bool {
					return slices.ContainsFunc(rows, func(t store.Thread) bool { return t.Head == x || t.Start == x })
				}), err
			})
			if err != nil {
				swept <- err
				return
			}
		}
		swept <- nil
	}()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			b, t := insert(id(w))
			err := h.Commit(h.ctx, b)
			for i := 0; i < rounds && err == nil; i++ {
				b, t = step(t, []string{"a", "b", strings.Repeat("c", 10)}[i%3])
				if err = h.Commit(h.ctx, b); err != nil {
					break
				}
				if _, err = h.Get(h.ctx, t.Head); err != nil {
					break
				}
				var x dag.Hash
				if x, _, err = h.Stage(h.ctx, t.ID+".1", strings.NewReader(strings.Repeat("staged",
					[]int{1, 50000}[i%2]))); err == nil {
					_, err = h.Get(h.ctx, x)
				}
				if err == nil {
					err = h.Commit(h.ctx, store.Batch{Unpin: []string{t.ID + ".1"}})
				}
			}
			if err != nil {
				h.Errorf("writer %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	cancel()
	h.must(<-swept)
}

func compacts(h *home) {
	hs := h.keep("a", strings.Repeat("b", 2<<20))
	big, _, err := h.Stage(h.ctx, "p", strings.NewReader(strings.Repeat("d", 300<<10)))
	h.must(err)
	h.sweep(0, hs[1])
	h.must(h.Compact(h.ctx, 0))
	for _, x := range []dag.Hash{hs[0], big} {
		_, err := h.Get(h.ctx, x)
		h.must(err)
	}
	h.same(h.has(hs[1]), false)
	lines, err := h.Check(h.ctx)
	h.must(err)
	h.same(len(lines), 0)
}
