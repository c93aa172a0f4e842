package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// rejoin forks the thread that a path belongs to: the path continues from the fork point, and the other paths
// are adopted at their heads.
func (c *Controller) rejoin(ctx context.Context, f Fork, at forkPoint, def *flow.Definition, id string) (
	next store.Thread, batch store.Batch, err error) {
	place, err := c.pathAt(ctx, def, at)
	if err != nil {
		return next, batch, err
	}
	if place == nil {
		return next, batch, usage("step %d is not inside a path, so there is nothing to rejoin", at.number)
	}
	if place.Join == thread.RoleJoin {
		return next, batch, usage("step %d belongs to action %s of a plan: fork the planner's thread from before "+
			"the plan, or fork this one without --rejoin", at.number, place.ID)
	}
	parent, siblings, err := c.siblings(ctx, at.row, place)
	if err != nil {
		return next, batch, err
	}
	up, err := c.forkOf(ctx, parent, place, at)
	if err != nil {
		return next, batch, err
	}
	now := c.cfg.Now().UnixMilli()
	if next, err = c.forkRow(ctx, parent, id, up, now); err != nil {
		return next, batch, err
	}
	if next.Path, err = c.pathAt(ctx, def, up); err != nil {
		return next, batch, err
	}
	e := c.newEngine(false)
	if next, err = e.WithOptions(ctx, next, f.Options); err != nil {
		return next, batch, err
	}
	batch.Events = forkEvents(next, up)
	fork, _, _ := def.Branch(place.ID)
	forked := now
	if up.step.State != nil {
		forked = up.step.State.Timestamp
	}
	ended, err := c.endPositions(ctx, parent.Task)
	if err != nil {
		return next, batch, err
	}
	var adopted []adoptedPath
	var ids, threads []string
	batch.Threads = []store.ThreadChange{{Row: next}}
	for _, p := range def.Forks[fork].Paths {
		old, ok := siblings[p.ID]
		if !ok {
			return next, batch, usage("thread %s no longer has the path %s of this fork", parent.ID, p.ID)
		}
		row := thread.Path(next, forked, store.Path{Key: thread.PathKey(next, fork, p.ID), ID: p.ID, Join: place.Join,
			N: 1}, now)
		row.Head, row.Steps = old.Head, old.Steps
		if row.Tree, err = e.PathTree(ctx, next, row); err != nil {
			return next, batch, err
		}
		switch {
		case p.ID == place.ID:
			row.Head, row.Steps = at.step.Hash, at.number
			if f.InPlace {
				row.Tree = old.Tree
			}
			if row, batch.Objects, err = c.addPrompt(ctx, row, f, now); err != nil {
				return next, batch, err
			}
		case old.Status == store.Completed:
			row.Status, row.EndedAt = store.Completed, old.EndedAt
			adopted = append(adopted, adoptedPath{row, ended[old.ID]})
		}
		ids, threads = append(ids, p.ID), append(threads, row.ID)
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: row})
	}
	batch.Events = append(batch.Events, event.New(next, now, event.ThreadForked{
		Fork: fork, Join: place.Join, Head: next.Head, Paths: ids, Threads: threads,
	}))
	batch.Events = append(batch.Events, endEvents(adopted, now)...)
	return next, batch, nil
}

// An adoptedPath is a path that has ended in the thread that is forked.
type adoptedPath struct {
	row   store.Thread
	ended int64 // position of its end in the journal
}

// endEvents returns the events of the ends of adopted paths, in the order in which they ended.
func endEvents(adopted []adoptedPath, now int64) []store.Event {
	slices.SortStableFunc(adopted, func(a, b adoptedPath) int { return cmp.Compare(a.ended, b.ended) })
	var events []store.Event
	for _, p := range adopted {
		events = append(events, event.New(p.row, now, event.ThreadEnded{
			Status: p.row.Status, Head: p.row.Head, Path: p.row.Path.ID, Join: p.row.Path.Join,
		}))
	}
	return events
}

// endPositions returns, for the threads of a task, the positions of their ends in the journal.
func (c *Controller) endPositions(ctx context.Context, task string) (map[string]int64, error) {
	events, err := c.cfg.Store.Events(ctx, 0, store.EventFilter{Task: task, Types: event.Types(event.ThreadEnded{})})
	if err != nil {
		return nil, fmt.Errorf("read the ends of task %s: %w", task, err)
	}
	ends := make(map[string]int64, len(events))
	for _, ev := range events {
		ends[ev.Thread] = ev.Pos
	}
	return ends, nil
}

// forkOf returns the step of a thread at which the path began that contains a step.
func (c *Controller) forkOf(ctx context.Context, parent store.Thread, place *store.Path, at forkPoint) (forkPoint,
	error) {
	up := forkPoint{row: parent, head: place.Fork, step: thread.Step{Hash: place.Fork}, number: at.number}
	for s, err := range c.reader.Walk(ctx, at.step.Hash) {
		if err != nil {
			return up, err
		}
		if s.Hash == place.Fork {
			up.step = s
			break
		}
		up.number--
	}
	return up, nil
}

// siblings returns, in the task of row, the newest thread of each path of the fork that a path belongs to, and
// the thread that forked.
func (c *Controller) siblings(ctx context.Context, row store.Thread, place *store.Path) (parent store.Thread,
	paths map[string]store.Thread, err error) {
	rows, err := thread.Subtree(ctx, c.cfg.Store, row.Root)
	if err != nil {
		return parent, nil, err
	}
	of := slices.IndexFunc(rows, func(t store.Thread) bool {
		return t.Parent != nil && t.Path != nil && t.Path.ID == place.ID && t.Path.Fork == place.Fork
	})
	if of < 0 {
		return parent, nil, usage("thread %s was forked inside path %s and does not have the other paths: use "+
			"--rejoin with the thread that it was forked from", row.ID, place.ID)
	}
	paths = map[string]store.Thread{}
	for _, t := range rows {
		switch {
		case t.ID == rows[of].Parent.Thread:
			parent = t
		case t.Path == nil || t.Parent == nil || *t.Parent != *rows[of].Parent:
		default:
			if old, ok := paths[t.Path.ID]; !ok || t.Path.N > old.Path.N {
				paths[t.Path.ID] = t
			}
		}
	}
	return parent, paths, nil
}
