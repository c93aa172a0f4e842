package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/store"
)

// A drive is what one process does for one task while it holds the lease: a
// goroutine for each thread that runs, and each thread stepped by one of them.
type drive struct {
	*Controller
	engine *engine.Engine
	task   string
	resume Resume
	// hears is the thread that the resume's prompt is for, "" when there is none.
	hears string
	slots *slots
	work  *workload

	trees sync.Mutex // held while the tree of a fork is looked at

	mu sync.Mutex
	// stuck holds the threads that were blocked when the drive began: a resume
	// tries them once more. What blocks later waits for the next one.
	stuck map[string]bool
}

// thread drives one thread until it has ended, or nothing goes on without a
// person.
func (d *drive) thread(ctx context.Context, id string) (store.Thread, error) {
	row, err := d.cfg.Store.Thread(context.WithoutCancel(ctx), id)
	if err == nil && !row.Ended() && row.Wanted != store.WantCancel && ctx.Err() == nil {
		switch err = d.settleTree(ctx, row); {
		case err == nil:
			row, err = d.wake(ctx, id)
		case ctx.Err() != nil:
			err = nil // cut off on the way: the loop sees to that
		default:
			return d.engine.Block(ctx, id, row.Head, store.Reason{Kind: store.ReasonAttempts, Message: err.Error()})
		}
	}
	for err == nil && !row.Ended() {
		switch {
		case row.Wanted == store.WantCancel, ctx.Err() != nil && !interrupted(ctx):
			return d.cancel(ctx, id)
		case row.Status == store.Blocked:
			return row, d.askLimit(ctx, row)
		case interrupted(ctx) && row.InFlight == "":
			return row, engine.ErrInterrupted
		}
		var at engine.Stand
		if at, err = d.engine.Step(ctx, id, row.Head); err != nil {
			return row, err
		}
		switch {
		case at.Fork != nil:
			row, err = d.fork(ctx, at)
		case at.Call != nil:
			row, err = d.call(ctx, at)
		default:
			row = at.Thread
		}
	}
	return row, err
}

// interrupted tells that ctx ended because this process has to stop, rather than
// because the work is not wanted.
func interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), engine.ErrInterrupted)
}

// call drives the child that a thread waits for, and commits the caller's step.
func (d *drive) call(ctx context.Context, at engine.Stand) (store.Thread, error) {
	child := at.Call.Child
	if !child.Ended() {
		var err error
		if child, err = d.thread(ctx, child.ID); err != nil {
			return at.Thread, err
		}
	}
	switch {
	case child.Ended() && ctx.Err() == nil:
		next, err := d.engine.Return(ctx, at.ID, at.Head)
		return next.Thread, err
	case child.Ended():
		return at.Thread, nil // nobody wants what it returned: thread sees to that
	}
	return d.engine.Block(ctx, at.ID, at.Head, below(child))
}

// below is why a thread is blocked that waits for another.
func below(rows ...store.Thread) store.Reason {
	why := store.Reason{Kind: store.ReasonChild}
	for _, row := range rows {
		if why.Message != "" {
			why.Message += "; "
		}
		name := row.Flow
		if row.Path != nil {
			name = "path " + row.Path.ID
		}
		why.Message += fmt.Sprintf("%s (thread %s) is blocked", name, row.ID)
		if row.Reason != nil {
			why.Message += ": " + row.Reason.Message
		}
	}
	return why
}

// cancel ends a thread as cancelled, and before it everything below it.
func (d *drive) cancel(ctx context.Context, id string) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	rows, err := d.under(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
	}
	var row store.Thread
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].Ended() {
			row = rows[i]
			continue
		}
		if row, err = d.engine.Cancel(ctx, rows[i].ID); err != nil {
			return row, err
		}
		if err := d.withdraw(ctx, row); err != nil {
			return row, err
		}
	}
	return row, nil
}

// under returns a thread and all threads below it, a caller before what it called.
func (c *Controller) under(ctx context.Context, id string) ([]store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err != nil {
		return nil, err
	}
	below := make(map[string][]store.Thread)
	for _, t := range all {
		if t.Parent != nil {
			below[t.Parent.Thread] = append(below[t.Parent.Thread], t)
		}
	}
	rows := []store.Thread{row}
	for i := 0; i < len(rows); i++ {
		rows = append(rows, below[rows[i].ID]...)
	}
	return rows, nil
}
