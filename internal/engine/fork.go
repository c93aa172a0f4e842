package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Fork is what a thread waits for whose next step is that of a join.
type Fork struct {
	Node    string
	Join    string
	Serial  bool
	Plan    *flow.Plan          // whose actions the paths are, or nil
	After   map[string][]string // what a path waits for, by their ids
	Paths   []store.Thread      // the newest thread of each path, in the fork's order
	Since   int64               // when the paths were made, Unix ms
	Timeout flow.Duration       // of the join; zero: none
	// Decision is what the join came to, nil before it is decided.
	Decision *Decision
	// Cancel are the threads of paths that are to be cancelled before the join.
	Cancel []string
}

// A Decision is what a join came to, as it is kept in the parent's row from the
// moment it is decided until the join's step is there.
type Decision struct {
	Join      string `json:"join"`
	Outcome   string `json:"outcome"`
	DecidedBy string `json:"decidedBy"`
	// Merge is what is to become of files that the paths changed, once that is known.
	Merge *thread.Merge `json:"merge,omitempty"`
}

// decision reads the one kept in a row, nil when there is none.
func decision(row store.Thread) (*Decision, error) {
	if len(row.Decision) == 0 || string(row.Decision) == "null" {
		return nil, nil
	}
	d := new(Decision)
	if err := json.Unmarshal(row.Decision, d); err != nil {
		return nil, fmt.Errorf("thread %s: decision: %w", row.ID, err)
	}
	return d, nil
}

// fork makes the paths of a fork, once, and returns how they stand.
func (e *Engine) fork(ctx context.Context, c *cursor, d flow.Fork) (Stand, error) {
	keep := context.WithoutCancel(ctx)
	f, made, err := e.paths(keep, c, d)
	if err == nil && made && c.row.Status == store.Pending {
		err = e.start(keep, c) // its paths were adopted when it was forked
	}
	if err == nil && made && c.row.ForkedFrom != nil {
		f.Since = max(f.Since, c.row.UpdatedAt)
	}
	if err != nil || made {
		return Stand{Thread: c.row, Fork: f}, err
	}
	if ctx.Err() != nil {
		return stand(e.stopped(ctx, c))
	}
	if c.forked, err = e.cfg.Store.Wait(keep, -1); err != nil {
		return Stand{}, fmt.Errorf("fork thread %s: %w", c.row.ID, err)
	}
	if why, err := e.beyond(keep, c, d); err != nil || why != nil {
		if err != nil {
			return Stand{}, err
		}
		return stand(e.block(ctx, c, *why))
	}
	row, now := c.row, e.now()
	batch := store.Batch{Events: started(row, now)}
	row.Status, row.UpdatedAt, row.InFlight = store.Running, now, ""
	var names, ids []string
	for _, p := range d.Paths {
		objects, path, err := e.path(keep, c, d, p.ID, 1, now)
		if err != nil {
			return Stand{}, err
		}
		batch.Objects = append(batch.Objects, objects...)
		f.Paths = append(f.Paths, path)
		names, ids = append(names, p.ID), append(ids, path.ID)
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: path})
	}
	f.Since = now
	batch.Threads = append(batch.Threads, store.ThreadChange{Row: row, From: c.row.State()})
	batch.Events = append(batch.Events, event.New(row, now, event.ThreadForked{
		Fork: d.Node, Join: d.Join, Head: row.Head, Paths: names, Threads: ids,
	}))
	batch.Events = append(batch.Events, phase(row, d.Plan != nil, now, event.Monitoring)...)
	moved, err := e.spawn(keep, c, batch, row)
	if err != nil || !moved {
		e.Forget(c.row.ID)
		return Stand{Thread: c.row}, err
	}
	c.row = row
	for _, p := range f.Paths {
		e.seed(c, p)
	}
	return Stand{Thread: row, Fork: f}, nil
}

// start commits that a pending thread runs.
func (e *Engine) start(ctx context.Context, c *cursor) error {
	_, err := e.change(ctx, c, func(row store.Thread) (thread.Change, store.Batch, error) {
		now := e.now()
		b := store.Batch{Events: started(row, now)}
		row.Status, row.UpdatedAt = store.Running, now
		return thread.Change{Row: row, Tip: c.tip}, b, nil
	})
	return err
}

// path returns the row of the n-th thread of a path that begins at the fork, and the
// objects that it begins with: a path shares its parent's, what is spawned has a start.
func (e *Engine) path(ctx context.Context, c *cursor, d flow.Fork, id string, n int, now int64) (objects []store.Object, row store.Thread, err error) {
	place := store.Path{Key: thread.PathKey(c.row, d.Node, id), ID: id, Join: d.Join, N: n}
	if d.Plan == nil || forked(d.Plan, id) {
		row = thread.Path(c.row, c.stamp, place, now)
	} else {
		child := thread.Child{
			Parent: c.row, Since: c.stamp, Flow: flow.WorkerFlow, Depth: c.depth + 1, Prompt: d.Plan.Brief(id), Now: now,
		}
		if child.MaxRounds, err = e.childRounds(ctx, c.row, child.Flow); err != nil {
			return nil, row, err
		}
		if objects, row, err = thread.Spawn(child, place); err != nil {
			return nil, row, err
		}
	}
	if e.cfg.Tree != nil {
		row.Tree, err = e.cfg.Tree(ctx, c.row, row)
	}
	return objects, row, err
}

// paths reads how the paths of a fork stand; not made: there are none yet.
func (e *Engine) paths(ctx context.Context, c *cursor, d flow.Fork) (f *Fork, made bool, err error) {
	f = &Fork{Node: d.Node, Join: d.Join, Serial: d.Strategy == flow.Serial, Timeout: d.Rule.Timeout, Plan: d.Plan}
	if d.Plan != nil {
		f.After = d.Plan.After()
	}
	if f.Decision, err = decision(c.row); err != nil {
		return nil, false, err
	}
	for _, p := range d.Paths {
		row, n, err := e.newest(ctx, c, p.ID)
		if err != nil {
			return nil, false, err
		}
		if n == 0 {
			return f, false, nil
		}
		f.Paths = append(f.Paths, row)
		f.Since = max(f.Since, row.CreatedAt)
	}
	if f.Decision != nil {
		for _, p := range f.Paths {
			if !p.Ended() && (d.Rule.Losers != flow.WaitForLosers || f.Decision.Outcome == flow.TimedOut) {
				f.Cancel = append(f.Cancel, p.ID)
			}
		}
	}
	return f, true, nil
}

// newest returns the last of the threads that were made at the cursor's head for a
// path or a call, by the path's id or the role, and how many there are: what did
// not complete goes on in another.
func (e *Engine) newest(ctx context.Context, c *cursor, name string) (row store.Thread, n int, err error) {
	fail := func(err error) (store.Thread, int, error) {
		return row, n, fmt.Errorf("read what thread %s waits for: %w", c.row.ID, err)
	}
	if known := c.made[name]; known.from == c.row.Head && known.n > 0 {
		row, n = known.row, known.n
		if !row.Ended() {
			if row, err = e.cfg.Store.Thread(ctx, row.ID); err != nil {
				return fail(err)
			}
		}
	} else {
		for ; ; n++ {
			next, err := e.cfg.Store.Thread(ctx, thread.DerivedID(c.stamp, c.row.ID, c.row.Head, name, n+1))
			if errors.Is(err, store.ErrNotFound) {
				break
			}
			if err != nil {
				return fail(err)
			}
			row = next
		}
	}
	if c.made == nil {
		c.made = make(map[string]made)
	}
	c.made[name] = made{c.row.Head, n, row}
	return row, n, nil
}

// made is what was made at a head for a path or a call: how many threads, and the last of
// them. One more is only made by what begins with a new cursor.
type made struct {
	from dag.Hash
	n    int
	row  store.Thread
}

// waiting returns the cursor of a thread that stands at a fork.
func (e *Engine) waiting(ctx context.Context, id string, from dag.Hash) (*cursor, flow.Fork, error) {
	c, _, err := e.load(ctx, id, from)
	if err != nil {
		return nil, flow.Fork{}, err
	}
	if c == nil {
		return nil, flow.Fork{}, fmt.Errorf("thread %s has moved on: %w", id, store.ErrConflict)
	}
	d, ok := flow.Next(c.def, c.at(), c.last).(flow.Fork)
	if !ok {
		return nil, d, fmt.Errorf("thread %s is at no fork: %w", id, store.ErrConflict)
	}
	return c, d, nil
}

// Resolve looks whether what the paths of a fork have come to decides its join,
// and keeps the decision with its event. late says that the join's time is up.
// It is safe to repeat: what is decided stays decided.
func (e *Engine) Resolve(ctx context.Context, id string, from dag.Hash, late bool) (*Fork, error) {
	ctx = context.WithoutCancel(ctx)
	c, d, err := e.waiting(ctx, id, from)
	if err != nil {
		return nil, err
	}
	for {
		f, made, err := e.paths(ctx, c, d)
		if err == nil && !made {
			err = fmt.Errorf("fork %s of thread %s has no paths: %w", d.Node, id, store.ErrConflict)
		}
		if err != nil || f.Decision != nil {
			return f, err
		}
		states, err := e.states(ctx, c, f.Paths)
		if err != nil {
			return nil, err
		}
		r := flow.Resolve(d.Rule, states, late)
		if r.Outcome == "" {
			return f, nil
		}
		row, now := c.row, e.now()
		if row.Decision, err = json.Marshal(Decision{Join: d.Join, Outcome: r.Outcome, DecidedBy: r.DecidedBy}); err != nil {
			return nil, err
		}
		row.Status, row.Reason, row.UpdatedAt = store.Running, nil, now
		moved, err := e.commit(ctx, c, store.Batch{
			Threads: []store.ThreadChange{{Row: row, From: c.row.State()}},
			Events: append([]store.Event{event.New(row, now, event.JoinDecided{
				Join: d.Join, Outcome: r.Outcome, DecidedBy: r.DecidedBy, Cancel: r.Cancel,
			})}, phase(row, d.Plan != nil, now, event.Joining)...),
		}, row)
		if err != nil {
			return nil, err
		}
		if moved { // or not, when that was not known: what is kept tells
			if c.row, err = e.cfg.Store.Thread(ctx, id); err != nil {
				return nil, fmt.Errorf("read thread %s: %w", id, err)
			}
		} else if c.row.Head != from {
			e.Forget(id)
			return nil, fmt.Errorf("thread %s has moved on: %w", id, store.ErrConflict)
		}
	}
}

// states returns the paths as a join's rule sees them, in the order of their ends:
// by time, and within a millisecond by their events.
func (e *Engine) states(ctx context.Context, c *cursor, paths []store.Thread) ([]flow.PathState, error) {
	states := make([]flow.PathState, len(paths))
	at := make(map[int64]bool)
	tie := false
	for i, p := range paths {
		states[i] = flow.PathState{ID: p.Path.ID, Status: string(p.Status), Ended: math.MaxInt64}
		if p.Ended() {
			tie = tie || at[p.EndedAt]
			states[i].Ended, at[p.EndedAt] = p.EndedAt, true
		}
	}
	if !tie {
		return states, nil
	}
	for i, p := range paths {
		if !p.Ended() {
			continue
		}
		events, err := e.cfg.Store.Events(ctx, c.forked, store.EventFilter{Task: c.row.Task, Thread: p.ID})
		if err != nil {
			return nil, fmt.Errorf("read the ends of paths of thread %s: %w", c.row.ID, err)
		}
		for _, ev := range events {
			if event.Is(ev, event.ThreadEnded{}) {
				states[i].Ended = ev.Pos
			}
		}
	}
	return states, nil
}

// Again makes a thread whose join could not be met wait once more: each path that
// is not completed goes on in a successor, from where it was.
func (e *Engine) Again(ctx context.Context, id string, from dag.Hash) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	c, d, err := e.waiting(ctx, id, from)
	if err != nil {
		return store.Thread{}, err
	}
	f, _, err := e.paths(ctx, c, d)
	if err != nil {
		return store.Thread{}, err
	}
	row, now := c.row, e.now()
	batch := store.Batch{}
	for _, p := range f.Paths {
		if p.Status == store.Completed {
			continue
		}
		objects, next, err := e.path(ctx, c, d, p.Path.ID, p.Path.N+1, now)
		if err != nil {
			return store.Thread{}, err
		}
		if d.Plan == nil { // an action is begun anew: what it did last was to fail
			next.Head, next.Steps = p.Head, p.Steps
		}
		batch.Objects = append(batch.Objects, objects...)
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: next})
	}
	row.Status, row.Reason, row.Decision, row.UpdatedAt = store.Running, nil, nil, now
	batch.Threads = append(batch.Threads, store.ThreadChange{Row: row, From: c.row.State()})
	batch.Events = resumed(c.row, now)
	if _, err := e.spawn(ctx, c, batch, row); err != nil {
		return store.Thread{}, err
	}
	e.Forget(id)
	return e.cfg.Store.Thread(ctx, id)
}
