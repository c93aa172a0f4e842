package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/worktree"
)

// A Fork is a fork by hand.
type Fork struct {
	Thread  string  // a thread of any kind
	At      string  // a step as thread.Reader.Find reads it; "": the last step before the end
	ID      string  // empty: drawn
	Prompt  string  // more input, or ""
	Source  string  // of the input; "" is fork
	Options Options // over the options of the thread
	// Rejoin forks, of a step inside a path, the thread that the path belongs to:
	// its other paths are adopted as they are, and it joins again.
	Rejoin bool
	// InPlace keeps the working tree of the thread; else the fork has a worktree of
	// its own when it is known how the step left the files.
	InPlace bool
	// Tree is a git tree: the fork has a worktree of its own that begins with it. Not with Rejoin.
	Tree string
}

// A forkPoint is a step of a thread at which it is forked.
type forkPoint struct {
	row    store.Thread
	head   dag.Hash    // of the chain that the step is in
	step   thread.Step // its State is nil at the start
	number int         // 0 is the start
}

// Fork makes a new pending task whose head is a step of another thread. It
// copies nothing: the steps are shared. Inside a path it keeps that path's
// position, and ends where the join would be.
func (c *Controller) Fork(ctx context.Context, f Fork) (store.Thread, error) {
	next, batch, err := c.forkBatch(ctx, f)
	if err == nil {
		next, err = c.commitRoot(ctx, batch)
	}
	if err != nil {
		if f.Tree != "" && next.ID != "" {
			err = errors.Join(err, c.trees.Remove(context.WithoutCancel(ctx), []store.Thread{next}))
		}
		return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
	}
	return next, c.begun(ctx, next)
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
	def, err := c.record.Definition(ctx, row)
	if err != nil {
		return next, batch, err
	}
	place, err := c.position(ctx, def, at)
	if err != nil {
		return next, batch, err
	}
	now := c.cfg.Now()
	id, err := c.newID(f.ID, now)
	if err != nil {
		return next, batch, err
	}
	e := c.newEngine(false)
	if f.Rejoin {
		return c.rejoin(ctx, e, f, at, def, place, id)
	}
	next = thread.Fork(row, id, at.step, at.number, now.UnixMilli())
	next.Path = place
	if next, err = e.WithOptions(ctx, next, f.Options); err != nil {
		return next, batch, err
	}
	if f.Tree == "" {
		next.Tree, err = c.forkTree(ctx, e, def, row, next, f.InPlace)
	} else if next.Tree, err = c.trees.Place(ctx, row, next); err == nil {
		err = c.trees.Begin(ctx, next, f.Tree)
	}
	if err != nil {
		return next, batch, err
	}
	if next, batch.Objects, err = c.addPrompt(ctx, next, f, now.UnixMilli()); err != nil {
		return next, batch, err
	}
	batch.Threads = []store.ThreadChange{{Row: next}}
	batch.Events = forkEvents(next, at)
	return next, batch, nil
}

func forkEvents(next store.Thread, at forkPoint) []store.Event {
	return []store.Event{
		event.New(next, next.UpdatedAt, event.TaskCreated{Flow: next.Flow, Bundle: next.Bundle, Start: next.Start}),
		event.New(next, next.UpdatedAt, event.ThreadForked{From: at.row.ID, Step: at.step.Hash, N: at.number}),
	}
}

// forkTree says where a fork by hand works: in a worktree of its own when it is
// known how the files were, else where the thread it came from does.
func (c *Controller) forkTree(ctx context.Context, e *engine.Engine, def *flow.Definition, row, next store.Thread,
	inPlace bool) (string, error) {
	if c.cfg.Place != nil && c.cfg.Place.Has(row) {
		return c.trees.PlaceFork(ctx, row, next) // of the files that the record has: those of row are on no machine for certain
	}
	if inPlace {
		if top, _, made := worktree.Made(row); made {
			if _, err := os.Lstat(top); errors.Is(err, os.ErrNotExist) {
				return "", usage("the working tree of thread %s was removed when its changes were merged: fork it "+
					"without --in-place", row.ID)
			}
		}
		return row.Tree, nil
	}
	// Only steps of roles that write say so, and only where there is git: else the
	// whole chain would be read in vain.
	if writes, err := e.Writes(ctx, row, def, slices.Sorted(maps.Keys(def.Roles))); err != nil || !writes {
		return row.Tree, err
	}
	return c.trees.PlaceFork(ctx, row, next)
}

// forkPoint finds the step to fork at. Unless it is named by a hash, this does not
// read the chain.
func (c *Controller) forkPoint(ctx context.Context, row store.Thread, name string) (forkPoint, error) {
	at := forkPoint{row: row, head: row.Head, number: row.Steps}
	var err error
	if name == "" {
		if at.step, err = c.stepAt(ctx, row, at.number); err != nil {
			return at, err
		}
		if at.step.State != nil && at.step.State.Role == thread.RoleEnd {
			at.number--
			at.step, err = c.stepAt(ctx, row, at.number)
		}
		return at, err
	}
	if n, numErr := strconv.Atoi(name); numErr == nil && len(name) < dag.MinPrefix && 0 <= n && n <= row.Steps {
		at.number = n
		at.step, err = c.stepAt(ctx, row, n)
	} else {
		at.step, at.number, err = c.reader.Find(ctx, row.Head, name)
	}
	if err != nil {
		return at, err
	}
	if at.step.State != nil && at.step.State.Role == thread.RoleEnd {
		return at, usage("step %d is the end, and nothing can follow it: fork from step %d or earlier", at.number,
			at.number-1)
	}
	return at, nil
}

// stepAt returns the n-th step of a thread; step 0, the start, has no State.
func (c *Controller) stepAt(ctx context.Context, row store.Thread, n int) (thread.Step, error) {
	if n == 0 {
		return thread.Step{Hash: row.Start}, nil
	}
	s, ok, err := c.reader.Back(ctx, row.Head, row.Steps-n)
	if err == nil && !ok {
		err = fmt.Errorf("step %d: %w", n, store.ErrNotFound)
	}
	return s, err
}

// position returns the innermost path that a step lies in, nil for none.
func (c *Controller) position(ctx context.Context, def *flow.Definition, p forkPoint) (*store.Path, error) {
	if own := p.row.Path; own != nil && p.row.Kind != store.KindWorker && own.Fork == p.step.Hash {
		place := *own // its path begins here
		return &place, nil
	}
	if p.step.State == nil {
		return nil, nil
	}
	id := p.step.State.Path
	switch {
	case !id.Said:
		return c.positionOfOlder(ctx, def, p)
	case id.ID == "":
		return nil, nil
	}
	at := &store.Path{ID: id.ID, Fork: p.row.Start, N: 1}
	var inner dag.Hash // the fork of what was joined inside of the path
	for s, err := range c.reader.Walk(ctx, p.step.Hash) {
		if err != nil {
			return nil, err
		}
		if !inner.IsZero() && s.Hash != inner {
			continue
		}
		inner = s.State.Fork
		if s.State.Path != id { // the first step of the path follows on this one
			at.Fork = s.Hash
			break
		}
	}
	name, _, ok := def.Branch(id.ID)
	at.Join = def.Forks[name].Join
	if !ok {
		planned, err := c.reader.State(ctx, at.Fork)
		if err != nil {
			return nil, err
		}
		name, at.Join = planned.Role, thread.RoleJoin
	}
	at.Key = thread.PathKey(p.row, name, id.ID)
	return at, nil
}

// positionOfOlder is position for a step that does not say its path: it is in the path of the
// thread it is taken from, or in one that a join's conversation goes through. It reads what
// came after the step.
func (c *Controller) positionOfOlder(ctx context.Context, def *flow.Definition, p forkPoint) (*store.Path, error) {
	own := p.row.Path
	if p.row.Kind == store.KindWorker {
		own = nil // a thread of its own: once it is forked, nothing waits for it
	}
	if own == nil && len(def.Forks) == 0 && len(def.Plans()) == 0 {
		return nil, nil
	}
	// Going back from the head, the forks met are those after the step or at it. A
	// join whose fork is not met is the join of a path around the step, and each
	// further one lies inside those before it.
	var around []thread.Step
	behind := false // the thread's own path begins after the step
	for s, err := range c.reader.Walk(ctx, p.head) {
		if err != nil {
			return nil, err
		}
		around = slices.DeleteFunc(around, func(join thread.Step) bool { return join.State.Fork == s.Hash })
		if s.Hash == p.step.Hash {
			break
		}
		behind = behind || own != nil && own.Fork == s.Hash
		if s.State.Main() >= 0 {
			around = append(around, s)
		}
	}
	if len(around) == 0 || p.number == 0 {
		if own == nil || behind {
			return nil, nil
		}
		place := *own
		return &place, nil
	}
	join := around[len(around)-1].State
	id := join.Paths[join.Main()].ID
	name, _, ok := def.Branch(id)
	if join.Role == thread.RoleJoin {
		planned, err := c.reader.State(ctx, join.Fork)
		if err != nil {
			return nil, err
		}
		name, ok = planned.Role, true
	}
	if !ok {
		return nil, fmt.Errorf("flow %s has no path %q", def.Name, id)
	}
	return &store.Path{Key: thread.PathKey(p.row, name, id), ID: id, Fork: join.Fork, Join: join.Role, N: 1}, nil
}

// rejoin makes a fork of the thread that a path belongs to, at the fork point: the
// path goes on from the step, the others are adopted by their heads.
func (c *Controller) rejoin(ctx context.Context, e *engine.Engine, f Fork, at forkPoint, def *flow.Definition,
	place *store.Path, id string) (next store.Thread, batch store.Batch, err error) {
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
	next = thread.Fork(parent, id, up.step, up.number, now)
	if next.Path, err = c.position(ctx, def, up); err != nil {
		return next, batch, err
	}
	if next, err = e.WithOptions(ctx, next, f.Options); err != nil {
		return next, batch, err
	}
	batch.Events = forkEvents(next, up)
	fork, _, _ := def.Branch(place.ID)
	forked := now
	if up.step.State != nil {
		forked = up.step.State.Timestamp
	}
	ended, err := c.ends(ctx, parent.Task)
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
	// What was first stays first.
	slices.SortStableFunc(adopted, func(a, b adoptedPath) int { return cmp.Compare(a.ended, b.ended) })
	for _, p := range adopted {
		batch.Events = append(batch.Events, event.New(p.row, now, event.ThreadEnded{
			Status: p.row.Status, Head: p.row.Head, Path: p.row.Path.ID, Join: p.row.Path.Join,
		}))
	}
	return next, batch, nil
}

// An adoptedPath is a path that has ended in the thread that is forked.
type adoptedPath struct {
	row   store.Thread
	ended int64 // where the journal says so
}

// ends returns where the journal says that the threads of a task have ended.
func (c *Controller) ends(ctx context.Context, task string) (map[string]int64, error) {
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

// forkOf returns the step of a thread at which one of its paths began that goes through a step.
func (c *Controller) forkOf(ctx context.Context, parent store.Thread, place *store.Path, at forkPoint) (forkPoint, error) {
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

// siblings returns the newest thread of each path of the fork that a path belongs
// to, in the task of row, and the thread whose paths they are.
func (c *Controller) siblings(ctx context.Context, row store.Thread, place *store.Path) (parent store.Thread,
	paths map[string]store.Thread, err error) {
	rows, err := thread.Under(ctx, c.cfg.Store, row.Root)
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

// addPrompt adds what a fork is told to a thread, if anything, and returns the row then and its new objects.
func (c *Controller) addPrompt(ctx context.Context, row store.Thread, f Fork, now int64) (store.Thread, []store.Object,
	error) {
	if f.Prompt == "" {
		return row, nil, nil
	}
	tip, err := c.reader.Tip(ctx, row.Head)
	if err != nil {
		return row, nil, err
	}
	ch, err := thread.Append(row, tip, thread.Draft{
		Role: thread.RoleInput, Meta: thread.InputMeta(cmp.Or(f.Source, "fork"), ""), Text: f.Prompt,
		Detail: thread.ByPerson(person(), now, now), At: now,
	})
	return ch.Row, ch.Objects, err
}
