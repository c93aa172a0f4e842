package control

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
)

// A Compaction names the thread to summarize and the agent that does it.
type Compaction = engine.Compaction

// Compact has an agent write a summary of a thread's conversation, as a step that later prompts begin with. It
// returns the thread's row. Nothing is lost: the steps that it summarizes stay, and a fork from before the
// summary undoes it.
func (c *Controller) Compact(ctx context.Context, r Compaction) (store.Thread, error) {
	fail := func(err error) (store.Thread, error) {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", r.Thread, err)
	}
	row, err := c.cfg.Store.Thread(ctx, r.Thread)
	if err != nil {
		return fail(err)
	}
	lease, err := c.acquire(ctx, row.Root)
	if err != nil {
		return fail(err)
	}
	defer lease.Release()
	c = c.withLease(lease)
	leased, end := engine.WhileHeld(ctx, lease)
	defer end()
	root, err := c.cfg.Store.Thread(ctx, row.Root)
	if err == nil {
		err = c.ensureNoDriver(ctx, root)
	}
	if err != nil {
		return fail(err)
	}
	if Team(root) { // workers drive under leases of threads, and must not take this one now
		own, err := c.cfg.Store.Acquire(ctx, store.ThreadLease(row.ID))
		if err != nil {
			return fail(err)
		}
		defer own.Release()
		c = c.withLease(own)
		leased, end = engine.WhileHeld(leased, own)
		defer end()
	}
	defer c.views.flush(context.WithoutCancel(ctx), row)
	return c.newEngine(false).Compact(leased, r)
}
