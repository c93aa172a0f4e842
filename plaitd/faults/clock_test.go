package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestClocks has a server whose clock is ten minutes off from ours, either way: the hosts share its
// time. Leases last and end as they should, what is young is kept, and what is old goes.
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, pgtest.Config{Clock: ahead})
			url := newRecord(t, server)
			a, b := open(t, hasty(url)), open(t, hasty(url))
			for _, s := range []store.Store{a, b} {
				if off := s.Now().Sub(time.Now().Add(ahead)).Abs(); off > 30*time.Second {
					t.Errorf("the store's clock is %v from the server's", off)
				}
			}
			lease := take(t, a, "held")
			for end := time.Now().Add(2 * hasty(url).TTL); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if _, err := b.Acquire(t.Context(), "held"); !errors.Is(err, store.ErrConflict) {
					t.Fatalf("a lease of somebody who lives was had: %v", err)
				}
			}
			used(t, a, b, lease)

			text := "young by every clock but a wrong one"
			young, _, err := a.Stage(t.Context(), "p", strings.NewReader(text))
			if err == nil {
				err = a.Commit(t.Context(), store.Batch{Unpin: []string{"p"}})
			}
			if err != nil {
				t.Fatal(err)
			}
			all := func(store.View) ([]dag.Hash, error) { return []dag.Hash{young}, nil }
			if gone, err := b.Sweep(t.Context(), 5*time.Minute, all); err != nil || len(gone) > 0 {
				t.Errorf("five minutes of grace, and what was put just now is swept: %v, %v", gone, err)
			}
			if gone, err := b.Sweep(t.Context(), 0, all); err != nil || len(gone) != 1 {
				t.Errorf("without grace %d were swept: %v", len(gone), err)
			}
		})
	}
}

// TestClockJumps sets the server's clock back, and ahead, while a lease is held: at worst that costs
// a lease, and there are never two holders.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": 10 * time.Minute, "back": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, pgtest.Config{})
			url := newRecord(t, server)
			a, b := open(t, hasty(url)), open(t, hasty(url))
			l, err := begin(t.Context(), a, id(1))
			if err != nil {
				t.Fatal(err)
			}
			lease := take(t, a, "held")
			server.Stop(pgtest.Immediate)
			server.Clock(ahead)
			server.Start()
			other, err := b.Acquire(t.Context(), "held")
			mine := l.step(t.Context(), store.Under(a, lease), "after")
			switch {
			case err == nil && !errors.Is(mine, store.ErrFenced):
				t.Errorf("two hold it at once: the first commits with %v", mine)
			case err != nil && (mine != nil || !errors.Is(err, store.ErrConflict)):
				t.Errorf("nobody holds it: the first commits with %v, the second gets %v", mine, err)
			case err == nil:
				used(t, b, a, other)
			}
			check(t, a, l)
		})
	}
}
