package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/store"
)

// fenced is the store of an engine whose threads are each driven under their own lease. What is committed for
// a drive carries the fence of the drive's lease, which is in the context.
type fenced struct{ Store }

type fenceKey struct{}

func (f fenced) Commit(ctx context.Context, b store.Batch) error {
	if fence, ok := ctx.Value(fenceKey{}).(store.Fence); ok {
		b.Under = append(slices.Clip(b.Under), fence)
	}
	return f.Store.Commit(ctx, b)
}

// lease acquires the right to drive a thread. It returns the context for work under the lease, which ends when
// the lease is lost, or nil if another process has the lease.
func (e *Engine) lease(ctx context.Context, id string) (under context.Context, release func(), err error) {
	if !e.cfg.Shared {
		return ctx, func() {}, nil // the caller holds the lease of the task
	}
	lease, err := e.cfg.Store.Acquire(context.WithoutCancel(ctx), store.ThreadLease(id))
	var held *store.HeldError
	if errors.As(err, &held) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("drive thread %s: %w", id, err)
	}
	under, done := WhileHeld(context.WithValue(ctx, fenceKey{}, lease.Fence()), lease)
	return under, func() {
		done()
		lease.Release()
	}, nil
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
