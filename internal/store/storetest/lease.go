package storetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/plait-run/plait/internal/store"
)

var leaseTests = []test{
	{"a lease is held once", leaseOnce},
	{"of many who ask at once one gets it", leaseRace},
	{"a bad name is refused", leaseNames},
}

func leaseOnce(h *home) {
	l, err := h.Acquire(h.ctx, "01J.x-1")
	h.must(err)
	for _, s := range []store.Store{h.Store, h.again()} {
		_, err := s.Acquire(h.ctx, "01J.x-1")
		h.want(err, store.ErrConflict)
		held, ok := errors.AsType[*store.HeldError](err)
		if !ok || held.Name != "01J.x-1" || !strings.HasPrefix(held.Owner, "process ") {
			h.Fatalf("got %#v, want the name and who holds it", err)
		}
	}
	other, err := h.Acquire(h.ctx, "other")
	h.must(err)
	h.must(other.Release())
	h.must(l.Release())
	again, err := h.again().Acquire(h.ctx, "01J.x-1")
	h.must(err)
	h.must(l.Release()) // the second time; must not release what others hold
	_, err = h.Acquire(h.ctx, "01J.x-1")
	h.want(err, store.ErrConflict)
	h.must(again.Release())
}

// leaseRace has many acquire and release in turn: never two hold it.
func leaseRace(h *home) {
	handles := []store.Store{h.Store, h.again()}
	var holding, taken atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 50 {
				l, err := handles[i%2].Acquire(h.ctx, "one")
				if errors.Is(err, store.ErrConflict) {
					continue
				}
				if err != nil {
					h.Error(err)
					return
				}
				taken.Add(1)
				if holding.Add(1) != 1 {
					h.Error("held twice")
				}
				holding.Add(-1)
				if err := l.Release(); err != nil {
					h.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() == 0 {
		h.Error("nobody got it")
	}
}

func leaseNames(h *home) {
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a b", "a\x00", "ä", ".hidden", strings.Repeat("x", 300)} {
		if l, err := h.Acquire(h.ctx, name); err == nil {
			h.Errorf("%q was taken", name)
			l.Release()
		}
	}
}
