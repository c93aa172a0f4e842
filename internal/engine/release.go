package engine

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record/store"
)

// Release ends unfinished attempts at those threads of a task that are not being driven, so that another
// machine can take the task over. An attempt that was cut off and may have changed something is examined here,
// where it did so: without a person's consent that it is repeated, the error matches attempt.ErrUsage. The caller holds
// the task's lease.
func (e *Engine) Release(ctx context.Context, rows []store.Thread) error {
	if err := e.recover(ctx, rows); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Ended() || row.Status == store.Pending {
			continue
		}
		last, err := e.lastAttempt(ctx, row)
		if err != nil {
			return err
		}
		gates, err := e.gates.Gates(ctx, store.GateFilter{Thread: row.ID})
		if err != nil {
			return fmt.Errorf("release thread %s: %w", row.ID, err)
		}
		if why, asked := openQuestion(row, last, gates); why != nil || asked {
			continue // the next driver waits for the answer, or has it
		}
		acted, err := e.mayHaveActed(ctx, row, last)
		if err != nil {
			return err
		}
		if !acted {
			continue
		}
		allowed, err := e.allowed(ctx, row, *last)
		if err != nil {
			return err
		}
		if !allowed {
			return attempt.Usage("%q of task %s was interrupted here and may have changed files", last.Role, row.Task)
		}
	}
	return nil
}
