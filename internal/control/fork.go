package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
)

// A Fork is a fork by hand.
type Fork struct {
	Thread  string  // a thread of any kind
	At      string  // a step as thread.Reader.Find reads it; "": the last step before the end
	ID      string  // empty: drawn
	Prompt  string  // more input, or ""
	Source  string  // of the input; "" is fork
	Options Options // over those of the thread
	// Rejoin forks, of a step inside a path, the thread that the path belongs to:
	// its other paths are adopted as they are, and it joins again.
	Rejoin bool
	// InPlace keeps the working tree of the thread; else the fork has a worktree of
	// its own when it is known how the step left the files.
	InPlace bool
}

// A forkPoint is a step of a thread at which it is forked.
type forkPoint struct {
	row    store.Thread
	steps  []thread.Step // of the thread, oldest first
	step   thread.Step   // its State is nil at the start
	number int           // 0 is the start
}

// Fork makes a new pending task whose head is a step of another thread. It
// copies nothing: the steps are shared. Inside a path it keeps that path's
// position, and ends where the join would be.
func (c *Controller) Fork(ctx context.Context, f Fork) (store.Thread, error) {
	next, batch, err := c.forkBatch(ctx, f)
	if err == nil {
		err = c.cfg.Store.Commit(ctx, batch)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
	}
	return next, errors.Join(task.At(next.Workspace, next.ID).Create(), c.views.flush(ctx, next.Bundle))
}

func (c *Controller) forkBatch(ctx context.Context, f Fork) (next store.Thread, batch store.Batch, err error) {
	row, err := c.cfg.Store.Thread(ctx, f.Thread)
	if err != nil {
		return next, batch, err
	}
	at, err := c.forkPoint(ctx, row, f.At)
	if err != nil {
		return next, batch, err
	}
	def, err := c.newEngine(false, nil).Definition(ctx, row)
	if err != nil {
		return next, batch, err
	}
	place, err := c.position(def, at)
	if err != nil {
		return next, batch, err
	}
	now := c.cfg.Now()
	id := f.ID
	if id == "" {
		id, err = thread.NewID(now, c.cfg.Random)
	} else if id, err = thread.ParseID(id); err != nil {
		err = usageError{err}
	}
	if err != nil {
		return next, batch, err
	}
	if f.Rejoin {
		return c.rejoin(ctx, f, at, def, place, id)
	}
	next = thread.Fork(row, id, at.step, at.number, now.UnixMilli())
	next.Path = place
	if next, err = c.withOptions(ctx, next, f.Options); err != nil {
		return next, batch, err
	}
	if next.Tree, err = c.forkTree(ctx, row, next, f.InPlace); err != nil {
		return next, batch, err
	}
	if f.Prompt != "" {
		ch, err := c.input(ctx, next, cmp.Or(f.Source, "fork"), f.Prompt, now.UnixMilli())
		if err != nil {
			return next, batch, err
		}
		next, batch.Objects = ch.Row, ch.Objects
	}
	batch.Threads = []store.ThreadChange{{Row: next}}
	batch.Events = forkEvents(next, at)
	return next, batch, nil
}

func forkEvents(next store.Thread, at forkPoint) []store.Event {
	return []store.Event{
		newEvent(next, "task.created", map[string]any{"flow": next.Flow, "bundle": next.Bundle, "start": next.Start}),
		newEvent(next, "thread.forked", map[string]any{"from": at.row.ID, "step": at.step.Hash, "n": at.number}),
	}
}

// forkTree says where a fork by hand works: in a worktree of its own when it is
// known how the files were, else where the thread it came from does.
func (c *Controller) forkTree(ctx context.Context, row, next store.Thread, inPlace bool) (string, error) {
	if inPlace {
		return row.Tree, nil
	}
	left, err := c.leftTree(ctx, next.Head)
	if err != nil || left == "" {
		return row.Tree, err
	}
	base := row.Workspace
	if row.Tree != "" && !ownTree(row) {
		base = row.Tree
	}
	if dir, ok := c.worktree(ctx, next, base); ok {
		return dir, nil
	}
	return row.Tree, nil
}

// forkPoint finds the step to fork at.
func (c *Controller) forkPoint(ctx context.Context, row store.Thread, name string) (forkPoint, error) {
	at := forkPoint{row: row}
	var err error
	if at.steps, err = c.reader.Steps(ctx, row.Head); err != nil {
		return at, err
	}
	if name == "" {
		name = row.Head.String()
		if n := len(at.steps); n > 0 && at.steps[n-1].State.Role == thread.RoleEnd {
			name = row.Start.String()
			if a := at.steps[n-1].State.Ancestors; len(a) > 0 {
				name = a[0].String()
			}
		}
	}
	if at.step, at.number, err = c.reader.Find(ctx, row.Head, name); err != nil {
		return at, err
	}
	if at.step.State != nil && at.step.State.Role == thread.RoleEnd {
		return at, usage("step %d is the end; nothing can follow it: fork at %d or before", at.number, at.number-1)
	}
	return at, nil
}

// index returns the place of a step along the chain, 0 for the start, -1 when it
// is not there.
func (p forkPoint) index(h dag.Hash) int {
	if h == p.row.Start {
		return 0
	}
	i := slices.IndexFunc(p.steps, func(s thread.Step) bool { return s.Hash == h })
	if i < 0 {
		return -1
	}
	return i + 1
}

// position returns the path that a step lies in, nil for none: that of the thread
// it is taken from, or one that a join's conversation goes through. Of several, the
// innermost one.
func (c *Controller) position(def *flow.Definition, p forkPoint) (*store.Path, error) {
	var place *store.Path
	inner := -1
	if own := p.row.Path; own != nil {
		if from := p.index(own.Fork); from >= 0 && from <= p.number {
			place, inner = own, from
		}
	}
	for i, s := range p.steps {
		if s.State.Paths == nil || i+1 <= p.number {
			continue
		}
		from, main := p.index(s.State.Fork), s.State.Main()
		if main < 0 || from < 0 || from >= p.number || from < inner {
			continue
		}
		id := s.State.Paths[main].ID
		name, _, ok := def.Branch(id)
		if !ok {
			return nil, fmt.Errorf("flow %s has no path %q", def.Name, id)
		}
		place = &store.Path{Key: thread.PathKey(p.row, name, id), ID: id, Fork: s.State.Fork, Join: s.State.Role, N: 1}
		inner = from
	}
	if place != nil {
		copied := *place
		place = &copied
	}
	return place, nil
}

// rejoin makes a fork of the thread that a path belongs to, at the fork point: the
// path goes on from the step, the others are adopted by their heads.
func (c *Controller) rejoin(ctx context.Context, f Fork, at forkPoint, def *flow.Definition, place *store.Path, id string) (next store.Thread, batch store.Batch, err error) {
	if place == nil {
		return next, batch, usage("step %d is not inside a path: there is no join to come to", at.number)
	}
	parent := at.row
	if parent.Kind == store.KindPath && parent.Path.Fork == place.Fork && parent.Path.ID == place.ID {
		if parent, err = c.cfg.Store.Thread(ctx, parent.Parent.Thread); err != nil {
			return next, batch, err
		}
	} else if parent.Path != nil && parent.Path.Fork == place.Fork {
		return next, batch, usage("thread %s is itself a fork from inside path %s, without the other paths", parent.ID, place.ID)
	}
	up := forkPoint{row: parent}
	if up.steps, err = c.reader.Steps(ctx, place.Fork); err != nil {
		return next, batch, err
	}
	up.step, up.number = thread.Step{Hash: place.Fork}, len(up.steps)
	if n := len(up.steps); n > 0 {
		up.step = up.steps[n-1]
	}
	now := c.cfg.Now().UnixMilli()
	next = thread.Fork(parent, id, up.step, up.number, now)
	if next.Path, err = c.position(def, up); err != nil {
		return next, batch, err
	}
	if next, err = c.withOptions(ctx, next, f.Options); err != nil {
		return next, batch, err
	}
	batch.Events = forkEvents(next, up)
	fork, _, _ := def.Branch(place.ID)
	forked := now
	if up.step.State != nil {
		forked = up.step.State.Timestamp
	}
	siblings, err := c.siblings(ctx, parent, place.Fork)
	if err != nil {
		return next, batch, err
	}
	var adopted []store.Thread
	var ids, threads []string
	batch.Threads = []store.ThreadChange{{Row: next}}
	for _, p := range def.Forks[fork].Paths {
		old, ok := siblings[p.ID]
		if !ok {
			return next, batch, usage("thread %s has no path %s from this fork any more", parent.ID, p.ID)
		}
		row := thread.Path(next, forked, store.Path{Key: thread.PathKey(next, fork, p.ID), ID: p.ID, Join: place.Join, N: 1}, now)
		row.Head, row.Steps, row.Tree = old.Head, old.Steps, old.Tree
		switch {
		case p.ID == place.ID:
			row.Head, row.Steps = at.step.Hash, at.number
			if row.Tree, err = c.forkTree(ctx, old, row, f.InPlace); err != nil {
				return next, batch, err
			}
			if f.Prompt != "" {
				ch, err := c.input(ctx, row, cmp.Or(f.Source, "fork"), f.Prompt, now)
				if err != nil {
					return next, batch, err
				}
				row, batch.Objects = ch.Row, ch.Objects
			}
		case old.Status == store.Completed:
			row.Status, row.EndedAt = store.Completed, old.EndedAt
			adopted = append(adopted, row)
		}
		ids, threads = append(ids, p.ID), append(threads, row.ID)
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: row})
	}
	batch.Events = append(batch.Events, newEvent(next, "thread.forked", map[string]any{
		"fork": fork, "join": place.Join, "head": next.Head, "paths": ids, "threads": threads,
	}))
	// What was first stays first.
	slices.SortStableFunc(adopted, func(a, b store.Thread) int { return cmp.Compare(a.EndedAt, b.EndedAt) })
	for _, row := range adopted {
		batch.Events = append(batch.Events, newEvent(row, "thread.ended", map[string]any{
			"status": row.Status, "head": row.Head, "path": row.Path.ID, "join": row.Path.Join,
		}))
	}
	return next, batch, nil
}

// siblings returns the newest thread of each path that a thread had from a fork.
func (c *Controller) siblings(ctx context.Context, parent store.Thread, fork dag.Hash) (map[string]store.Thread, error) {
	rows, err := c.under(ctx, parent.ID)
	if err != nil {
		return nil, err
	}
	out := map[string]store.Thread{}
	for _, row := range rows {
		if row.Path == nil || row.Parent == nil || row.Parent.Thread != parent.ID || row.Path.Fork != fork {
			continue
		}
		if old, ok := out[row.Path.ID]; !ok || row.Path.N > old.Path.N {
			out[row.Path.ID] = row
		}
	}
	return out, nil
}
