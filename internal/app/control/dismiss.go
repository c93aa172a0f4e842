package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Dismiss records that nobody need be told any more that a task has stopped: it failed, was interrupted, or is blocked
// and asks nothing. If it is resumed or retried and stops again, people are told again.
func (c *Controller) Dismiss(ctx context.Context, id string) (store.Thread, error) {
	for {
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil {
			return row, fmt.Errorf("dismiss task %s: %w", id, err)
		}
		open, err := c.cfg.Store.Gates(ctx, store.GateFilter{Task: id, State: store.GateOpen})
		if err != nil {
			return row, fmt.Errorf("dismiss task %s: %w", id, err)
		}
		_, driven, err := c.cfg.Store.Holder(ctx, id)
		if err != nil {
			return row, fmt.Errorf("dismiss task %s: %w", id, err)
		}
		stopped := row.Status == store.Failed || row.Intent != store.IntentCancel &&
			(row.Status == store.Blocked || row.Status == store.Running && !driven)
		switch {
		case row.Root != row.ID:
			return row, usage("thread %s is part of task %s; dismiss the task", id, row.Root)
		case row.Intent == store.IntentDismiss:
			return row, nil
		case !stopped:
			return row, usage("task %s is %s: only one that failed, is blocked or was interrupted can be dismissed", id,
				row.Status)
		case len(open) > 0:
			return row, usage("task %s has an open question: answer it, or cancel the task", id)
		}
		was := row.State()
		row.Intent, row.UpdatedAt = store.IntentDismiss, c.cfg.Now().UnixMilli()
		err = c.cfg.Store.Commit(ctx, store.Batch{
			Threads: []store.ThreadChange{{Row: row, From: was}},
			Events:  []store.Event{event.New(row, row.UpdatedAt, event.TaskUpdated{Intent: store.IntentDismiss})},
		})
		if errors.Is(err, store.ErrConflict) {
			continue // it moved on
		}
		if err != nil {
			return row, fmt.Errorf("dismiss task %s: %w", id, err)
		}
		return row, nil
	}
}
