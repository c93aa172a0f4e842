package temporal

import (
	"context"
	"sync"

	"go.temporal.io/sdk/worker"
)

// slots are the concurrent drives of a host, from all its queues together. A poller cannot know whether it will get
// a slot while others poll, so none polls once they are taken, and whatever arrives from earlier polls is declined.
type slots struct {
	most int // zero: any number

	mu    sync.Mutex
	taken int
	freed chan struct{} // closed and replaced when one is
}

func newSlots(most int) *slots { return &slots{most: most, freed: make(chan struct{})} }

// take takes a slot, and reports whether one was free.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.taken == s.most {
		return false
	}
	s.taken++
	return true
}

// give gives a slot back.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	close(s.freed)
	s.freed = make(chan struct{})
}

// full returns nil if there is a free slot, and otherwise a channel that is closed when there may be one.
func (s *slots) full() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.taken == s.most {
		return s.freed
	}
	return nil
}

// tuner makes the pollers of several workers respect the slots.
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

// ReserveSlot waits until there is a free slot, so that polling makes sense.
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

// TryReserveSlot is for drives that arrive without polling. There are none.
func (s *slots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit { return nil }

// MarkSlotUsed does nothing: see take.
func (s *slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot does nothing: see give.
func (s *slots) ReleaseSlot(worker.SlotReleaseInfo) {}

// MaxSlots returns zero, meaning no fixed number: the workers share the slots.
func (s *slots) MaxSlots() int { return 0 }
