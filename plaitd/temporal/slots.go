package temporal

import (
	"context"
	"sync"

	"go.temporal.io/sdk/worker"
)

// slots are the drives that a host takes at once, from all its queues together. Whoever polls while others do cannot
// know whether it will get a slot, so nobody polls once they are taken, and what was polled for by then is
// declined.
type slots struct {
	most int // zero: any number

	mu    sync.Mutex
	taken int
	freed chan struct{} // closed when one is, and made anew
}

func newSlots(most int) *slots { return &slots{most: most, freed: make(chan struct{})} }

// take takes a slot, and reports whether there was one.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.taken == s.most {
		return false
	}
	s.taken++
	return true
}

// give gives it back.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	close(s.freed)
	s.freed = make(chan struct{})
}

// full returns nil if there is a slot, and what is closed when there may be.
func (s *slots) full() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.taken == s.most {
		return s.freed
	}
	return nil
}

// tuner has the pollers of several workers heed the slots.
func (s *slots) tuner() (worker.WorkerTuner, error) {
	others, err := worker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		ActivitySlotSupplier: s, WorkflowSlotSupplier: others, LocalActivitySlotSupplier: others,
		NexusSlotSupplier: others, SessionActivitySlotSupplier: others,
	})
}

// ReserveSlot waits until polling makes sense.
func (s *slots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		freed := s.full()
		if freed == nil {
			return &worker.SlotPermit{}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-freed:
		}
	}
}

// TryReserveSlot is for drives that are not polled for, of which there are none.
func (s *slots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit { return nil }

// MarkSlotUsed does nothing: see take.
func (s *slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot does nothing: see give.
func (s *slots) ReleaseSlot(worker.SlotReleaseInfo) {}

// MaxSlots says zero, for no fixed number: one of several workers does not have them all.
func (s *slots) MaxSlots() int { return 0 }
