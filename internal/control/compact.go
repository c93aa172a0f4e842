package control

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/store"
)

// A Compaction says whose conversation is to be summarised, and by whom.
type Compaction = engine.Compaction

// Compact lets an agent write a summary of a thread's conversation, as a step that
// later prompts begin with. It returns the thread's row. Nothing that is
// summarised is lost, and a fork from before it undoes it.
func (c *Controller) Compact(ctx context.Context, r Compaction) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, r.Thread)
	if err != nil {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", r.Thread, err)
	}
	lease, err := c.acquire(ctx, row.Root)
	if err != nil {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", r.Thread, err)
	}
	defer lease.Release()
	defer c.views.flush(context.WithoutCancel(ctx), row)
	return c.newEngine(false).Compact(ctx, r)
}
