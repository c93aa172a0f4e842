package storetest

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/plait-run/plait/internal/record/store"
)

var leaseTests = []test{
	{"a lease is held once", leaseOnce},
	{"of many who ask at once one gets it", leaseRace},
	{"a bad name is refused", leaseNames},
	{"who holds a lease can be looked up", leaseHolder},
	{"looking at a lease takes nothing", leaseLooks},
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

// leaseRace has many goroutines acquire and release in turn: no two hold it together.
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
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a b", "a\x00", "ä", ".hidden",
		strings.Repeat("x", 300)} {
		if l, err := h.Acquire(h.ctx, name); err == nil {
			h.Errorf("%q was taken", name)
			l.Release()
		}
		if _, held, err := h.Holder(h.ctx, name); err == nil || held {
			h.Errorf("%q was looked at", name)
		}
		if owners, err := h.Holders(h.ctx, []string{"good", name}); err == nil {
			h.Errorf("%q was looked at with another: %v", name, owners)
		}
		if owners, err := h.Held(h.ctx, name); err == nil {
			h.Errorf("%q was looked at as a prefix: %v", name, owners)
		}
	}
}

// holder fails the test unless every handle reports whether a lease is held as want says.
func (h *home) holder(name string, want bool, handles ...store.Store) {
	h.Helper()
	for _, s := range handles {
		owner, held, err := s.Holder(h.ctx, name)
		h.must(err)
		if held != want || strings.HasPrefix(owner, "process ") != want {
			h.Errorf("%s: held by %q: %v, want %v", name, owner, held, want)
		}
	}
}

func leaseHolder(h *home) {
	other := h.again()
	h.holder("01J.x-1", false, h.Store, other) // never taken
	for _, s := range []store.Store{h.Store, other} {
		l, err := s.Acquire(h.ctx, "01J.x-1")
		h.must(err)
		h.holder("01J.x-1", true, h.Store, other)
		h.holder("01J.x-2", false, h.Store, other)
		_, err = h.Acquire(h.ctx, "01J.x-1")
		held, ok := errors.AsType[*store.HeldError](err)
		owner, _, err := other.Holder(h.ctx, "01J.x-1")
		h.must(err)
		if !ok || held.Owner != owner {
			h.Errorf("held by %q, and to whoever asks for it by %+v", owner, held)
		}
		owners, err := other.Holders(h.ctx, []string{"01J.x-1", "01J.x-2", "01J.x-3"})
		h.must(err)
		if !maps.Equal(owners, map[string]string{"01J.x-1": owner}) {
			h.Errorf("of three, one of them held by %q: %v", owner, owners)
		}
		for prefix, want := range map[string]map[string]string{
			"01J.x-": {"01J.x-1": owner}, "01J.x-1": {"01J.x-1": owner}, "01J.x-12": {}, "01J.x-2": {}, "x": {},
		} {
			owners, err := other.Held(h.ctx, prefix)
			h.must(err)
			if !maps.Equal(owners, want) {
				h.Errorf("whose names begin with %s: %v, want %v", prefix, owners, want)
			}
		}
		h.must(l.Release())
		h.holder("01J.x-1", false, h.Store, other)
	}
	if owners, err := other.Held(h.ctx, "01J"); err != nil || len(owners) > 0 {
		h.Errorf("after the release: %v, %v", owners, err)
	}
	owners, err := other.Holders(h.ctx, nil)
	h.must(err)
	if len(owners) > 0 {
		h.Errorf("of none: %v", owners)
	}
}

// leaseLooks has many goroutines look while one takes and releases: no look turns
// it away, and none sees another.
func leaseLooks(h *home) {
	handles := []store.Store{h.Store, h.again()}
	kept, err := h.Acquire(h.ctx, "kept")
	h.must(err)
	defer kept.Release()
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	for i := range 8 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for name, want := range map[string]bool{"never": false, "kept": true} {
					if owner, held, err := handles[i%2].Holder(h.ctx, name); err != nil || held != want {
						h.Errorf("%s: held by %q: %v, %v", name, owner, held, err)
						return
					}
				}
				if _, _, err := handles[i%2].Holder(h.ctx, "moved"); err != nil {
					h.Error(err)
					return
				}
			}
		})
	}
	for i := range 200 {
		l, err := handles[i%2].Acquire(h.ctx, "moved")
		if err != nil {
			h.Error(err)
			break
		}
		h.holder("moved", true, handles...)
		h.must(l.Release())
		h.holder("moved", false, handles...)
	}
}
