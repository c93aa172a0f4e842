package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/plait-run/plait/internal/record/store"
)

// A Claim is a right to drive threads: a [TaskClaim] or a [ThreadClaim].
type Claim interface {
	// alone reports whether no other process drives threads of the task while the engine exists.
	alone() bool

	// take takes the right to drive a thread, and reports false if another process has it. The lease is the thread's, nil
	// if that of the task is enough.
	take(ctx context.Context, thread string) (lease store.Lease, ok bool, err error)

	// driven returns which of the threads other processes drive.
	driven(ctx context.Context, threads []string) (map[string]bool, error)

	// turn takes one of so many turns that all processes which drive a task share. It returns nil if no others do, and a
	// *store.HeldError if none is free.
	turn(ctx context.Context, task string, most int) (store.Lease, error)

	// turns returns how many turns of a task are taken.
	turns(ctx context.Context, task string) (int, error)
}

// A TaskClaim is the right to drive a whole task. The caller holds the task's lease, and the store that the engine has
// is under it.
type TaskClaim struct{}

func (TaskClaim) alone() bool { return true }

func (TaskClaim) take(context.Context, string) (store.Lease, bool, error) { return nil, true, nil }

func (TaskClaim) driven(context.Context, []string) (map[string]bool, error) { return nil, nil }

func (TaskClaim) turn(context.Context, string, int) (store.Lease, error) { return nil, nil }

func (TaskClaim) turns(context.Context, string) (int, error) { return 0, nil }

// A ThreadClaim is the right to drive any thread of a task that others drive too: each is driven under its own lease.
type ThreadClaim struct{ Store store.Leases }

func (ThreadClaim) alone() bool { return false }

func (c ThreadClaim) take(ctx context.Context, thread string) (store.Lease, bool, error) {
	lease, err := c.Store.Acquire(ctx, store.ThreadLease(thread))
	var other *store.HeldError
	switch {
	case errors.As(err, &other):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("drive thread %s: %w", thread, err)
	}
	return lease, true, nil
}

func (c ThreadClaim) driven(ctx context.Context, threads []string) (map[string]bool, error) {
	names := make([]string, len(threads))
	for i, id := range threads {
		names[i] = store.ThreadLease(id)
	}
	owners, err := c.Store.Holders(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("look who drives threads: %w", err)
	}
	driven := make(map[string]bool, len(owners))
	for i, id := range threads {
		if _, ok := owners[names[i]]; ok {
			driven[id] = true
		}
	}
	return driven, nil
}

func (c ThreadClaim) turn(ctx context.Context, task string, most int) (lease store.Lease, err error) {
	for _, name := range slotNames(turnsOf(task), most) {
		lease, err = c.Store.Acquire(ctx, name)
		var other *store.HeldError
		if !errors.As(err, &other) {
			return lease, err
		}
	}
	return nil, err
}

func (c ThreadClaim) turns(ctx context.Context, task string) (int, error) {
	held, err := c.Store.Held(ctx, turnsOf(task)+"-")
	if err != nil {
		return 0, fmt.Errorf("look how many agents of task %s work: %w", task, err)
	}
	return len(held), nil
}

// turnsOf returns the prefix of the names of the leases that are turns of a task.
func turnsOf(task string) string { return "slot-" + task }

// withLease returns the engine for work under a lease, and a context that ends when the lease is lost. What the engine
// commits is refused once another process has the lease. done releases it. Without a lease all stays as it is.
func (e *Engine) withLease(ctx context.Context, lease store.Lease) (held *Engine, work context.Context, done func()) {
	if lease == nil {
		return e, ctx, func() {}
	}
	work, end := WhileHeld(ctx, lease)
	return e.with(&fenced{Store: e.cfg.Store, fence: lease.Fence()}), work, func() {
		end()
		lease.Release()
	}
}

// fenced is a store each of whose batches carries a fence.
type fenced struct {
	Store
	fence  store.Fence
	failed atomic.Bool // a batch was not kept for a reason that is the record's
}

func (f *fenced) Commit(ctx context.Context, b store.Batch) error {
	b.Under = append(slices.Clip(b.Under), f.fence)
	err := f.Store.Commit(ctx, b)
	switch {
	case err == nil, errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrInvalid):
	default:
		f.failed.Store(true)
	}
	return err
}

// errLost is the cause of a context whose lease was lost.
var errLost = fmt.Errorf("%w: %w", ErrInterrupted, store.ErrFenced)

// WhileHeld returns a context that ends with ctx, and with ErrInterrupted and store.ErrFenced as the cause when
// the lease is lost: agents are stopped before another process can run them. done ends it.
func WhileHeld(ctx context.Context, l store.Lease) (held context.Context, done func()) {
	held, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-l.Lost():
			cancel(errLost)
		case <-held.Done():
		}
	}()
	return held, func() { cancel(nil) }
}
