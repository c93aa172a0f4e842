package control

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A forkPoint is a step of a thread at which it is forked.
type forkPoint struct {
	row    store.Thread
	head   dag.Hash    // of the chain that the step is in
	step   thread.Step // its State is nil at the start
	number int         // 0 is the start
}

// forkPoint finds the step to fork at. It reads the chain only if the step is named by a hash.
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

// pathAt returns the innermost path that a step is in, nil for none.
func (c *Controller) pathAt(ctx context.Context, def *flow.Definition, p forkPoint) (*store.Path, error) {
	if own := p.row.Path; own != nil && p.row.Kind != store.KindWorker && own.Fork == p.step.Hash {
		place := *own // its path begins here
		return &place, nil
	}
	if p.step.State == nil {
		return nil, nil
	}
	id := p.step.State.Path
	switch {
	case !id.Present:
		return c.olderPathAt(ctx, def, p)
	case id.ID == "":
		return nil, nil
	}
	at := &store.Path{ID: id.ID, Fork: p.row.Start, N: 1}
	var inner dag.Hash // the fork of a join inside the path
	for s, err := range c.reader.Walk(ctx, p.step.Hash) {
		if err != nil {
			return nil, err
		}
		if !inner.IsZero() && s.Hash != inner {
			continue
		}
		inner = s.State.Fork
		if s.State.Path != id { // the first step of the path comes next
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

// olderPathAt is pathAt for a step that does not record its path. The step is in the path of its thread,
// or in one whose conversation a join continued. It reads the steps that came after it.
func (c *Controller) olderPathAt(ctx context.Context, def *flow.Definition, p forkPoint) (*store.Path, error) {
	own := p.row.Path
	if p.row.Kind == store.KindWorker {
		own = nil // a separate thread: no thread waits for its fork
	}
	if own == nil && len(def.Forks) == 0 && len(def.Plans()) == 0 {
		return nil, nil
	}
	// Going back from the head, it meets the forks after the step or at it. A join whose fork it does not meet
	// is the join of a path around the step; each further one is inside the earlier ones.
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
		if s.State.MainPath() >= 0 {
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
	id := join.Paths[join.MainPath()].ID
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
