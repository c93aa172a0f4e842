package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/sys/lock"
)

// TestSlots: a slot is taken once at a time, and a drive that left its slot to others comes before those that have not
// begun.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dispatch.NewSlots(1, nil)
		first := s.Take()
		if first == nil || s.Take() != nil || s.Full() == nil {
			t.Fatal("one slot is not taken exactly once")
		}
		full := s.Full()
		first.Pause()
		<-first.Paused()
		<-full
		second := s.Take()
		if second == nil {
			t.Fatal("a slot that was left to others cannot be taken")
		}
		resumed := make(chan error, 1)
		go func() { resumed <- first.Resume(t.Context()) }()
		synctest.Wait()
		second.Release()
		if s.Take() != nil {
			t.Error("a drive that has not begun comes first")
		}
		if err := <-resumed; err != nil {
			t.Fatal(err)
		}
		if s.Take() != nil {
			t.Error("two have the slot")
		}
		first.Release()
		first.Release()
		if s.Take() == nil || s.Take() != nil {
			t.Error("releasing a slot twice does not free exactly one")
		}
	})
}

// TestSlotsOfAMachine: a slot that another process of the machine has cannot be taken, and is tried again later.
func TestSlotsOfAMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := lock.Locks{Dir: t.TempDir()}
		take := func() (*lock.Lock, error) { return machine.Acquire("slot") }
		other, err := take()
		if err != nil {
			t.Fatal(err)
		}
		s := dispatch.NewSlots(2, take)
		if s.Take() != nil {
			t.Fatal("two have the machine's slot")
		}
		full := s.Full()
		if full == nil {
			t.Fatal("it is tried again at once")
		}
		other.Release()
		<-full
		slot := s.Take()
		if slot == nil {
			t.Fatal("it is not tried again")
		}
		slot.Pause()
		if other, err = take(); err != nil {
			t.Fatal("it is not left to others")
		}
		ctx, cancel := context.WithCancel(t.Context())
		resumed := make(chan error, 1)
		go func() { resumed <- slot.Resume(ctx) }()
		synctest.Wait()
		cancel()
		if <-resumed == nil {
			t.Error("two have the machine's slot")
		}
		go func() { resumed <- slot.Resume(t.Context()) }()
		synctest.Wait()
		other.Release()
		if err := <-resumed; err != nil {
			t.Error(err)
		}
		slot.Release()
		if _, err = take(); err != nil {
			t.Error("it is not released")
		}
	})
}

// TestNoBounds: without slots there is no bound.
func TestNoBounds(t *testing.T) {
	var s *dispatch.Slots
	for range 100 {
		if slot := s.Take(); slot == nil || s.Full() != nil {
			t.Fatal("without slots there is a bound")
		} else {
			slot.Pause()
			if err := slot.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			slot.Release()
		}
	}
}
