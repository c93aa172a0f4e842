package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// viewsEvery is the least time between two drawings of the views.
const viewsEvery = time.Second

// views draws the index's files when threads have changed.
type views struct {
	draw   thread.Views
	leases store.Leases

	mu    sync.Mutex
	dirty map[dag.Hash]bool // by bundle
}

// watched is a store that notes which bundles' threads changed.
type watched struct {
	store.Store
	views *views
}

func (w watched) Commit(ctx context.Context, b store.Batch) error {
	err := w.Store.Commit(ctx, b)
	if err == nil && len(b.Threads) > 0 {
		w.views.mu.Lock()
		defer w.views.mu.Unlock()
		if w.views.dirty == nil {
			w.views.dirty = make(map[dag.Hash]bool)
		}
		for _, t := range b.Threads {
			w.views.dirty[t.Row.Bundle] = true
		}
	}
	return err
}

// keep draws what changed, at most once in viewsEvery, until stop is closed;
// then it draws once more. A view that cannot be drawn is drawn next time.
func (v *views) keep(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(viewsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			v.flush(ctx)
		case <-stop:
			return
		}
	}
}

// flush draws the views of every dirty bundle, and of those given. One process
// draws at a time, reading after it may write, so that the last drawing is the
// newest.
func (v *views) flush(ctx context.Context, bundles ...dag.Hash) error {
	v.mu.Lock()
	for h := range v.dirty {
		bundles = append(bundles, h)
	}
	v.dirty = nil
	v.mu.Unlock()
	if v.draw.Dir == "" || len(bundles) == 0 {
		return nil
	}
	lease, err := v.lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	for _, h := range bundles {
		err = errors.Join(err, v.draw.Draw(ctx, h))
	}
	return err
}

// lock waits for the right to draw.
func (v *views) lock(ctx context.Context) (store.Lease, error) {
	for {
		lease, err := v.leases.Acquire(ctx, "views")
		var held *store.HeldError
		if !errors.As(err, &held) {
			return lease, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// registry draws workflow.yaml.
func (v *views) registry(ctx context.Context) error {
	lease, err := v.lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	return v.draw.DrawRegistry(ctx)
}
