package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
)

// The least time between two drawings of the index's views, and of the directory of
// a task. A directory that takes long is drawn less often: it may take a tenth of
// the time at most.
const (
	viewsEvery = time.Second
	taskEvery  = viewsEvery / 2
	taskShare  = 10
)

// views draws the index's files when threads have changed, and the directories of
// tasks when something has happened to them.
type views struct {
	draw   thread.Views
	board  *task.DirWriter
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

// keep draws what changed, the views at most once in viewsEvery and the directory of
// the task that is driven at most once in taskEvery, until stop is closed. A view
// that cannot be drawn is drawn next time.
func (v *views) keep(ctx context.Context, id string, stop <-chan struct{}) {
	tick := time.NewTicker(viewsEvery)
	defer tick.Stop()
	drawn := time.NewTimer(taskEvery)
	defer drawn.Stop()
	for {
		select {
		case <-tick.C:
			v.flush(ctx)
		case <-drawn.C:
			began := time.Now()
			v.directory(ctx, id, true)
			drawn.Reset(max(taskEvery, taskShare*time.Since(began)))
		case <-stop:
			return
		}
	}
}

// directory draws the directory of a task when it is behind. driven says that a
// process drives the task, and will after this.
func (v *views) directory(ctx context.Context, id string, driven bool) error {
	if driven {
		if behind, err := v.board.Behind(ctx, id); err != nil || !behind {
			return err
		}
	}
	lease, err := v.lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	return v.board.Draw(ctx, id, driven)
}

// Redraw draws the directory of a task as if it had never been drawn, in whatever
// state it is. What people wrote stays. store.ErrNotFound.
func (c *Controller) Redraw(ctx context.Context, id string) error {
	lease, err := c.cfg.Store.Acquire(ctx, id)
	var held *store.HeldError
	if err != nil && !errors.As(err, &held) {
		return fmt.Errorf("redraw task %s: %w", id, err)
	}
	if err == nil {
		lease.Release()
	}
	c.views.board.Forget(id)
	return c.views.directory(ctx, id, held != nil)
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

// viewsPatience bounds the wait for the right to draw: a process that was stopped
// while it drew must not keep others from their end.
const viewsPatience = 5 * time.Second

// lock waits for the right to draw.
func (v *views) lock(ctx context.Context) (store.Lease, error) {
	for end := time.Now().Add(viewsPatience); ; {
		lease, err := v.leases.Acquire(ctx, "views")
		var held *store.HeldError
		if !errors.As(err, &held) || time.Now().After(end) {
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
