package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Compaction says whose conversation is to be summarised, and by whom.
type Compaction struct {
	Thread  string
	Agent   string // "": the one the task's options or the configuration name
	Offline string // the scenario of a scripted model, or ""
}

// Compact lets an agent write a summary of a thread's conversation, as a step that
// later prompts stand on. It returns the thread's row. Nothing that the summary
// stands for is lost, and a fork from before it undoes it.
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
	defer c.views.flush(context.WithoutCancel(ctx), row.Bundle)
	root, err := c.cfg.Store.Thread(ctx, row.Root)
	if err != nil {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", r.Thread, err)
	}
	d, err := c.newDrive(ctx, root, Resume{}, "")
	if err != nil {
		return store.Thread{}, err
	}
	if row, err = c.cfg.Store.Thread(ctx, r.Thread); err != nil {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", r.Thread, err)
	}
	if err := d.compactable(ctx, row); err != nil {
		return store.Thread{}, err
	}
	if err := d.settleTree(ctx, row); err != nil {
		return store.Thread{}, err
	}
	opts, err := optionsOf(row)
	if err != nil {
		return store.Thread{}, err
	}
	if r.Agent != "" {
		opts.Agent, opts.Roles = r.Agent, nil
	}
	if r.Offline != "" {
		opts.Offline = r.Offline
	}
	as := row
	if as.Options, err = json.Marshal(opts); err != nil {
		return store.Thread{}, err
	}
	w, err := c.worker(as, thread.RoleCompact, flow.Role{})
	if err != nil {
		return store.Thread{}, err
	}
	work, cancel := context.WithCancelCause(ctx)
	stop := d.heed(work, cancel)
	slot, err := d.slots.take(work, row, flow.Role{})
	if err == nil {
		row, err = d.engine.Compact(work, row.ID, w)
		slot.Release()
	}
	stop()
	now, readErr := c.cfg.Store.Thread(ctx, d.task)
	if readErr == nil && now.Wanted == store.WantCancel && !now.Ended() {
		_, err := d.cancel(ctx, d.task)
		return store.Thread{}, errors.Join(fmt.Errorf("compact thread %s: the task was cancelled: %w", r.Thread, store.ErrConflict), err)
	}
	var fail *agent.Failure
	if errors.As(err, &fail) {
		return store.Thread{}, fmt.Errorf("compact thread %s: agent %s: %w", r.Thread, w.Name, err)
	}
	return row, errors.Join(err, readErr)
}

// compactable refuses a thread to which no step can be added now. One that waits
// for others has to stay where they left it.
func (d *drive) compactable(ctx context.Context, row store.Thread) error {
	switch {
	case row.Ended():
		return usage("thread %s has ended, and nothing can follow its end: fork it, and compact the fork", row.ID)
	case row.Steps == 0:
		return usage("thread %s has no steps to summarise", row.ID)
	case row.Status == store.Blocked && row.Reason != nil && (row.Reason.Kind == store.ReasonGate || row.Reason.Kind == store.ReasonJoin):
		return usage("thread %s is blocked (%s); compact it when it runs again", row.ID, row.Reason.Kind)
	}
	attempts, err := d.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID, From: row.Head})
	if err != nil {
		return fmt.Errorf("compact thread %s: %w", row.ID, err)
	}
	if n := len(attempts); n > 0 {
		// What was cut off here must not be forgotten by moving on.
		if why, err := d.unanswered(ctx, row, &attempts[n-1], false); err != nil || why != nil {
			if err == nil {
				err = usage("thread %s: %s", row.ID, why.Message)
			}
			return err
		}
	}
	head, err := d.reader.State(ctx, row.Head)
	if err == nil && head.Role == thread.RoleCompact {
		return usage("thread %s has just been compacted: its last step is a summary", row.ID)
	}
	rows, err := d.under(ctx, row.ID)
	if err != nil {
		return fmt.Errorf("compact thread %s: %w", row.ID, err)
	}
	for _, t := range rows[1:] {
		if t.Parent != nil && t.Parent.Thread == row.ID && t.Parent.From == row.Head {
			return usage("thread %s waits for thread %s; compact that, or this one when it has gone on", row.ID, t.ID)
		}
	}
	return nil
}
