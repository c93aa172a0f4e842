package engine

import (
	"context"
	"errors"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// path returns the row of a thread of a path that begins at the fork, and its first objects. at has the path's id, and
// which of its threads this is. A path shares its parent's chain; a spawned thread has its own start.
func (e *Engine) path(ctx context.Context, c *threadState, d flow.Fork, at store.Path,
	now int64) (objects []store.Object, row store.Thread, err error) {
	at.Key, at.Join = thread.PathKey(c.Row, d.Node, at.ID), d.Join
	inherits := d.Plan == nil // the conversation of the parent
	if d.Plan != nil {
		a, _ := d.Plan.Action(at.ID)
		inherits = a.Mode == flow.Forked
	}
	if inherits {
		row = thread.Path(c.Row, c.Stamp, at, now)
	} else {
		child := thread.Child{
			Parent: c.Row, Since: c.Stamp, Flow: flow.WorkerFlow, Depth: c.Depth + 1, Prompt: d.Plan.Brief(at.ID),
			Now: now,
		}
		if child.MaxRounds, err = e.childRounds(ctx, c.Row, child.Flow); err != nil {
			return nil, row, err
		}
		if objects, row, err = thread.Spawn(child, at); err != nil {
			return nil, row, err
		}
	}
	row.Tree, err = e.PathTree(ctx, c.Row, row)
	row.Host = initialHost(c.Row, row)
	return objects, row, err
}

// PathTree returns the tree in which a path or child of parent works.
func (e *Engine) PathTree(ctx context.Context, parent, row store.Thread) (string, error) {
	def, err := e.record.Definition(ctx, row)
	if err != nil {
		return "", err
	}
	roles := def.Inside(row.Path.ID)
	if id := def.ActionID(); id != "" {
		roles = []string{id}
	}
	if writes, err := e.Writes(ctx, row, def, roles); err != nil || !writes {
		return parent.Tree, err
	}
	return e.cfg.Trees.Place(ctx, parent, row)
}

// initialHost returns where a thread's tree is when the thread begins: with its parent's if they share one, otherwise
// nowhere yet.
func initialHost(parent, row store.Thread) string {
	if row.Tree != parent.Tree {
		return ""
	}
	return parent.Host
}

// Writes reports whether one of the roles of a thread's flow, or of a flow that they call, writes.
func (e *Engine) Writes(ctx context.Context, row store.Thread, def *flow.Definition, roles []string) (bool, error) {
	var failed error
	writes := def.Writes(roles, func(name string) *flow.Definition {
		called, err := e.record.Flow(ctx, row.Bundle, name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			failed = err
		}
		return called
	})
	return writes, failed
}

// completeAtJoin completes a path in the batch of its last step, the one after which the join comes next. It
// reports whether it did.
func (e *Engine) completeAtJoin(next *threadState, batch *store.Batch) bool {
	if next.Row.Kind != store.KindPath {
		return false
	}
	d, ok := next.Next().(flow.AtJoin)
	if !ok {
		return false
	}
	now := next.Row.UpdatedAt
	next.Row.Status, next.Row.EndedAt, next.Row.InFlight = store.Completed, now, ""
	batch.Events = append(batch.Events, event.New(next.Row, now, event.ThreadEnded{
		Status: store.Completed, Head: next.Row.Head, Path: next.Row.Path.ID, Join: d.Join,
	}))
	return true
}

// atJoin ends a thread that has reached the join of its path: a path adopted by a manual fork, or a manual
// fork made inside a path, for which no thread waits.
func (e *Engine) atJoin(ctx context.Context, c *threadState, d flow.AtJoin) (store.Thread, error) {
	if c.Row.Kind != store.KindPath {
		return e.end(ctx, c, flow.End{Summary: d.Summary()}, nil)
	}
	return e.endPath(ctx, c, store.Completed, nil)
}

// endPath commits the end of a path at its current head: a path writes no last step.
func (e *Engine) endPath(ctx context.Context, c *threadState, status store.Status, why *store.Reason) (store.Thread,
	error) {
	ctx = context.WithoutCancel(ctx)
	return e.change(ctx, c, func(row store.Thread, now int64) (store.Thread, []store.Event) {
		ended := event.ThreadEnded{Status: status, Head: row.Head, Path: row.Path.ID, Join: row.Path.Join}
		var events []store.Event
		if why != nil {
			ended.Summary = event.Text(why.Message)
			events = c.outcome(row, status, *why, now)
			why.Message = store.Text(why.Message)
		}
		events = append(events, event.New(row, now, ended))
		row.Status, row.Reason, row.InFlight, row.EndedAt = status, why, "", now
		return row, events
	})
}
