package temporal

import (
	"context"

	"go.temporal.io/sdk/worker"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// polling lets all pollers of a host poll while it has a free slot. A poller cannot know whether it will get that while
// others poll, so whatever arrives when the slots are taken is declined.
type polling struct{ slots *dispatch.Slots }

// tuner makes the pollers of several workers respect the slots.
func (p polling) tuner() (worker.WorkerTuner, error) {
	others, err := worker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		ActivitySlotSupplier: p, WorkflowSlotSupplier: others, LocalActivitySlotSupplier: others,
		NexusSlotSupplier: others, SessionActivitySlotSupplier: others,
	})
}

// ReserveSlot waits until there is a free slot, so that polling makes sense.
func (p polling) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		full := p.slots.Full()
		if full == nil {
			return &worker.SlotPermit{}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-full:
		}
	}
}

// TryReserveSlot is for drives that arrive without polling. There are none.
func (p polling) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit { return nil }

// MarkSlotUsed does nothing: a drive takes its slot itself.
func (p polling) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot does nothing, see MarkSlotUsed.
func (p polling) ReleaseSlot(worker.SlotReleaseInfo) {}

// MaxSlots returns zero, meaning no fixed number: the workers share the slots.
func (p polling) MaxSlots() int { return 0 }
