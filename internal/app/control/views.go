package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/lock"
	"github.com/plait-run/plait/internal/view/search"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// The least time between two drawings of the index's views, and of a task's directory. A directory that takes
// long to draw is drawn less often: drawing takes at most a tenth of the time.
const (
	viewsEvery = time.Second
	taskEvery  = viewsEvery / 2
	taskShare  = 10
)

// indexEvery is the least time between two looks at what a search index lacks, while a task is driven.
const indexEvery = 2 * time.Second

// IndexShare bounds what keeping a search index up to date takes of a process that drives a task: one part in so many of
// its time.
const IndexShare = 20

// views draws the index's files when threads have changed, and the directories of
// tasks when something has happened to them.
type views struct {
	draw    thread.Views
	board   *taskdir.DirWriter
	locks   lock.Locks
	journal store.Journal
	index   search.Index
}

// keep draws what changed until stop is closed: the index's views at most once in viewsEvery, and the directory
// of the task that is being driven at most once in taskEvery. A view that cannot be drawn now is drawn next
// time.
func (v *views) keep(ctx context.Context, row store.Thread, stop <-chan struct{}) {
	pos := int64(0)
	tick := time.NewTicker(viewsEvery)
	defer tick.Stop()
	drawn := time.NewTimer(taskEvery)
	defer drawn.Stop()
	for {
		select {
		case <-tick.C:
			f := store.EventFilter{Task: row.ID, Newest: true, Limit: 1}
			if news, err := v.journal.Events(ctx, pos, f); err == nil && len(news) > 0 &&
				v.flush(ctx, row) == nil {
				pos = news[0].Pos
			}
		case <-drawn.C:
			began := time.Now()
			v.directory(ctx, row.ID, true)
			drawn.Reset(max(taskEvery, taskShare*time.Since(began)))
		case <-stop:
			return
		}
	}
}

// directory draws the directory of a task if it is out of date. driven means that a process drives the task,
// and will continue to.
func (v *views) directory(ctx context.Context, id string, driven bool) error {
	if driven {
		if behind, err := v.board.Behind(ctx, id); err != nil || !behind {
			return err
		}
	}
	held, err := v.lock(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	return v.board.Draw(ctx, id, driven)
}

// Redraw draws the directory of a task, in whatever state it is, as if for the first time. What people wrote
// stays. If there is no such task, the error matches store.ErrNotFound.
func (c *Controller) Redraw(ctx context.Context, id string) error {
	_, driven, err := c.cfg.Store.Holder(ctx, id)
	if err != nil {
		return fmt.Errorf("redraw task %s: %w", id, err)
	}
	c.views.board.Forget(id)
	return c.views.directory(ctx, id, driven)
}

// flush brings the views of the index up to date with a task. One process draws at a time, and reads only once
// it may draw, so that the last drawing is the newest.
func (v *views) flush(ctx context.Context, row store.Thread) error {
	return v.exclusively(ctx, func() error { return v.draw.Update(ctx, row.Bundle, row.Task) })
}

// drawBundle draws the views of a bundle whose tasks were removed.
func (v *views) drawBundle(ctx context.Context, bundle dag.Hash) error {
	return v.exclusively(ctx, func() error { return v.draw.Draw(ctx, bundle) })
}

func (v *views) exclusively(ctx context.Context, draw func() error) error {
	if v.draw.Dir == "" {
		return nil
	}
	held, err := v.lock(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	return draw()
}

// viewsPatience bounds the wait for the right to draw: a process that was stopped while drawing must not keep
// others from exiting.
const viewsPatience = 5 * time.Second

// lock waits for the right to draw.
func (v *views) lock(ctx context.Context) (*lock.Lock, error) {
	for end := time.Now().Add(viewsPatience); ; {
		held, err := v.locks.Acquire("views")
		var other *lock.HeldError
		if !errors.As(err, &other) || time.Now().After(end) {
			return held, err
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
	return v.exclusively(ctx, func() error { return v.draw.DrawRegistry(ctx) })
}

// Changes returns the patch from one git tree of a thread to another: what a step did to the files.
func (c *Controller) Changes(ctx context.Context, row store.Thread, from, to string) (string, error) {
	return c.trees.Diff(ctx, row, from, to)
}

// Tree returns the git tree that the newest step up to head left, "" if none is recorded.
func (c *Controller) Tree(ctx context.Context, head dag.Hash) (string, error) {
	return c.trees.Left(ctx, head, dag.Hash{})
}

// File returns a file of a git tree of a thread.
func (c *Controller) File(ctx context.Context, row store.Thread, tree, path string) (string, error) {
	return c.trees.File(ctx, row, tree, path)
}
