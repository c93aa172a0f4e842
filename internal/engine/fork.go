package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Fork is what a thread waits for whose next step is that of a join.
type Fork struct {
	Node    string
	Join    string
	Serial  bool
	Paths   []store.Thread // the newest thread of each path, in the fork's order
	Since   int64          // when the paths were made, Unix ms
	Timeout flow.Duration  // of the join; zero: none
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
	if err != nil || made {
		return Stand{Thread: c.row, Fork: f}, err
	}
	if ctx.Err() != nil {
		return stand(e.stopped(ctx, c))
	}
	row, now := c.row, e.now()
	batch := store.Batch{Events: started(row, now)}
	row.Status, row.UpdatedAt, row.InFlight = store.Running, now, ""
	ids := []string{}
	for _, p := range d.Paths {
		path, err := e.path(keep, c, d, p.ID, 1, now)
		if err != nil {
			return Stand{}, err
		}
		f.Paths = append(f.Paths, path)
		ids = append(ids, path.ID)
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: path})
	}
	f.Since = now
	batch.Threads = append(batch.Threads, store.ThreadChange{Row: row, From: c.row.State()})
	batch.Events = append(batch.Events, event(row, now, "thread.forked", map[string]any{
		"fork": d.Node, "join": d.Join, "head": row.Head, "paths": pathIDs(d.Branching), "threads": ids,
	}))
	moved, err := e.commit(keep, c, batch, row)
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

// path returns the row of the n-th thread of a path that begins at the fork.
func (e *Engine) path(ctx context.Context, c *cursor, d flow.Fork, id string, n int, now int64) (store.Thread, error) {
	row := thread.Path(c.row, c.stamp, store.Path{Key: thread.PathKey(c.row, d.Node, id), ID: id, Join: d.Join, N: n}, now)
	if e.cfg.Tree == nil {
		return row, nil
	}
	var err error
	row.Tree, err = e.cfg.Tree(ctx, c.row, row)
	return row, err
}

func pathIDs(b flow.Branching) []string {
	ids := make([]string, len(b.Paths))
	for i, p := range b.Paths {
		ids[i] = p.ID
	}
	return ids
}

// paths reads how the paths of a fork stand; not made: there are none yet.
func (e *Engine) paths(ctx context.Context, c *cursor, d flow.Fork) (f *Fork, made bool, err error) {
	f = &Fork{Node: d.Node, Join: d.Join, Serial: d.Strategy == flow.Serial, Timeout: c.def.Joins[d.Join].Timeout}
	if f.Decision, err = decision(c.row); err != nil {
		return nil, false, err
	}
	for _, p := range d.Paths {
		row, ok, err := e.newest(ctx, c, p.ID)
		if err != nil {
			return nil, false, fmt.Errorf("read the paths of thread %s: %w", c.row.ID, err)
		}
		if !ok {
			return f, false, nil
		}
		f.Paths = append(f.Paths, row)
		f.Since = max(f.Since, row.CreatedAt)
	}
	if f.Decision != nil {
		for _, p := range f.Paths {
			if !p.Ended() && (c.def.Joins[d.Join].Losers != flow.WaitForLosers || f.Decision.Outcome == flow.TimedOut) {
				f.Cancel = append(f.Cancel, p.ID)
			}
		}
	}
	return f, true, nil
}

// newest returns the last of a path's threads at the cursor's head: a path that
// did not complete goes on in a successor.
func (e *Engine) newest(ctx context.Context, c *cursor, id string) (row store.Thread, ok bool, err error) {
	for n := 1; ; n++ {
		next, err := e.cfg.Store.Thread(ctx, thread.DerivedID(c.stamp, c.row.ID, c.row.Head, id, n))
		if errors.Is(err, store.ErrNotFound) {
			return row, n > 1, nil
		}
		if err != nil {
			return row, false, err
		}
		row = next
	}
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
		f, _, err := e.paths(ctx, c, d)
		if err != nil || f.Decision != nil {
			return f, err
		}
		states, err := e.states(ctx, c.row, f.Paths)
		if err != nil {
			return nil, err
		}
		r := flow.Resolve(c.def.Joins[d.Join], states, late)
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
			Events: []store.Event{event(row, now, "join.decided", map[string]any{
				"join": d.Join, "outcome": r.Outcome, "decidedBy": r.DecidedBy, "cancel": r.Cancel,
			})},
		}, row)
		if err != nil {
			return nil, err
		}
		if moved {
			c.row = row
		} else if c.row.Head != from {
			e.Forget(id)
			return nil, fmt.Errorf("thread %s has moved on: %w", id, store.ErrConflict)
		}
	}
}

// states returns the paths as a join's rule sees them, in the order of their ends:
// by time, and within a millisecond by their events.
func (e *Engine) states(ctx context.Context, row store.Thread, paths []store.Thread) ([]flow.PathState, error) {
	states := make([]flow.PathState, len(paths))
	at := make(map[int64]bool)
	tie := false
	for i, p := range paths {
		states[i] = flow.PathState{ID: p.Path.ID, Status: p.Status, Ended: math.MaxInt64}
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
		events, err := e.cfg.Store.Events(ctx, 0, store.EventFilter{Task: row.Task, Thread: p.ID})
		if err != nil {
			return nil, fmt.Errorf("read the ends of paths of thread %s: %w", row.ID, err)
		}
		for _, ev := range events {
			if ev.Type == "thread.ended" {
				states[i].Ended = ev.Pos
			}
		}
	}
	return states, nil
}

// Join commits the step of a decided join, or blocks the thread when the flow has
// no route for the outcome. Every path must have ended.
func (e *Engine) Join(ctx context.Context, id string, from dag.Hash) (Stand, error) {
	ctx = context.WithoutCancel(ctx)
	c, d, err := e.waiting(ctx, id, from)
	if err != nil {
		return Stand{}, err
	}
	f, _, err := e.paths(ctx, c, d)
	if err != nil {
		return Stand{}, err
	}
	if f.Decision == nil {
		return Stand{}, fmt.Errorf("join %s in thread %s: it is not decided: %w", d.Join, id, store.ErrConflict)
	}
	if i := slices.IndexFunc(f.Paths, func(p store.Thread) bool { return !p.Ended() }); i >= 0 {
		return Stand{}, fmt.Errorf("join %s in thread %s: path %s is still %s: %w", d.Join, id, f.Paths[i].Path.ID, f.Paths[i].Status, store.ErrConflict)
	}
	if _, ok := c.def.Graph[d.Join][f.Decision.Outcome]; !ok {
		return stand(e.notJoined(ctx, c, f))
	}
	for {
		ch, between, err := e.joined(ctx, c, f)
		if err != nil {
			return Stand{}, err
		}
		row, now := c.row, ch.Step.State.Timestamp
		n := *c
		n.visits, n.last = maps.Clone(c.visits), slices.Clip(c.last)
		for _, s := range between {
			step, err := e.flowStep(ctx, s)
			if err != nil {
				return Stand{}, err
			}
			n.advance(s, step)
		}
		next, err := e.after(ctx, &n, ch)
		if err != nil {
			return Stand{}, err
		}
		batch := store.Batch{Objects: ch.Objects, Events: []store.Event{event(row, now, "thread.joined", map[string]any{
			"join": d.Join, "outcome": f.Decision.Outcome, "step": ch.Step.Hash, "n": ch.Row.Steps, "decidedBy": f.Decision.DecidedBy,
		})}}
		e.arrive(next, &batch)
		batch.Threads = []store.ThreadChange{{Row: next.row, From: row.State()}}
		moved, err := e.commit(ctx, c, batch, next.row)
		if err != nil {
			return Stand{}, err
		}
		if moved {
			*c = *next
			return Stand{Thread: c.row}, nil
		}
		if c.row.Head != from || c.row.Status != row.Status {
			e.Forget(id)
			return Stand{Thread: c.row}, nil
		}
	}
}

// joined builds the step of a join, and returns the steps of the path that it
// follows, oldest first.
func (e *Engine) joined(ctx context.Context, c *cursor, f *Fork) (thread.Change, []thread.Step, error) {
	draft := thread.JoinDraft{Node: f.Join, Outcome: f.Decision.Outcome, DecidedBy: f.Decision.DecidedBy, At: e.now(), Since: f.Since}
	var follow *store.Thread
	join := c.def.Joins[f.Join]
	for i, p := range f.Paths {
		end, _, err := e.pathEnd(ctx, p)
		if err != nil {
			return thread.Change{}, nil, err
		}
		draft.Paths = append(draft.Paths, end)
		if f.Decision.Outcome != flow.Joined {
			continue
		}
		main := p.Path.ID == join.Main && (p.Status == store.Completed || f.Decision.DecidedBy == "")
		if main || follow == nil && p.Path.ID == f.Decision.DecidedBy {
			follow = &f.Paths[i]
		}
	}
	for i, p := range f.Paths {
		if follow != nil && p.ID == follow.ID {
			continue // its steps say it themselves
		}
		used, err := e.pathUsage(ctx, f.Paths[i])
		if err != nil {
			return thread.Change{}, nil, err
		}
		draft.Usage = draft.Usage.Add(used)
	}
	row := c.row
	row.Status, row.Reason, row.Decision, row.InFlight = store.Running, nil, nil, ""
	if follow == nil {
		ch, err := thread.Join(row, c.tip, row.Steps, draft)
		return ch, nil, err
	}
	tip, err := e.cfg.Reader.Tip(ctx, follow.Head)
	if err != nil {
		return thread.Change{}, nil, err
	}
	_, between, err := e.pathEnd(ctx, *follow)
	if err != nil {
		return thread.Change{}, nil, err
	}
	ch, err := thread.Join(row, tip, follow.Steps, draft)
	return ch, between, err
}

// pathEnd reads how a path ended, and its own steps, oldest first.
func (e *Engine) pathEnd(ctx context.Context, p store.Thread) (thread.PathEnd, []thread.Step, error) {
	end := thread.PathEnd{Row: p}
	var own []thread.Step
	for s, err := range e.cfg.Reader.Walk(ctx, p.Head) {
		if err != nil {
			return end, nil, fmt.Errorf("read path %s: %w", p.ID, err)
		}
		if s.Hash == p.Path.Fork {
			break
		}
		own = append(own, s)
		if end.Meta == nil && !thread.Reserved(s.State.Role) {
			end.Meta = s.State.Meta
			if end.Text, err = e.cfg.Reader.Text(ctx, s.State.Content); err != nil {
				return end, nil, fmt.Errorf("read path %s: %w", p.ID, err)
			}
		}
	}
	slices.Reverse(own)
	return end, own, nil
}

// pathUsage adds up what a path's attempts used, and what its steps say of
// threads below.
func (e *Engine) pathUsage(ctx context.Context, p store.Thread) (store.Usage, error) {
	var used store.Usage
	attempts, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: p.ID})
	if err != nil {
		return used, fmt.Errorf("read path %s: %w", p.ID, err)
	}
	for _, a := range attempts {
		used = used.Add(a.Usage)
	}
	_, own, err := e.pathEnd(ctx, p)
	for _, s := range own {
		if s.State.ChildThread.IsZero() && s.State.Paths == nil {
			continue
		}
		d, err := e.cfg.Reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return used, fmt.Errorf("read path %s: %w", p.ID, err)
		}
		if d != nil {
			used = used.Add(d.Usage)
		}
	}
	return used, err
}

// results reads what a join's routes see of its paths.
func (e *Engine) results(ctx context.Context, s *thread.State) (map[string]flow.PathResult, error) {
	out := make(map[string]flow.PathResult, len(s.Paths))
	for _, p := range s.Paths {
		r := flow.PathResult{Status: p.Status}
		if p.Status != store.Cancelled {
			row := store.Thread{ID: p.Thread, Head: p.Head, Path: &store.Path{ID: p.ID, Fork: s.Fork}}
			end, _, err := e.pathEnd(ctx, row)
			if err != nil {
				return nil, err
			}
			r.Text = end.Text
			if len(end.Meta) > 0 && json.Unmarshal(end.Meta, &r.Meta) != nil {
				r.Meta = nil
			}
		}
		out[p.ID] = r
	}
	return out, nil
}

// notJoined blocks a thread whose flow has no route for what its join came to.
func (e *Engine) notJoined(ctx context.Context, c *cursor, f *Fork) (store.Thread, error) {
	why := store.Reason{Kind: "join", Message: fmt.Sprintf("join %s: %s; %s", f.Join, f.Decision.Outcome, ends(f.Paths))}
	return e.change(ctx, c, func(row store.Thread) (thread.Change, store.Batch, error) {
		now := e.now()
		row = blockedRow(row, why, now)
		row.Decision = nil
		return thread.Change{Row: row, Tip: c.tip}, store.Batch{Events: blockedEvents(row, why, now)}, nil
	})
}

// ends says in a line how paths ended.
func ends(paths []store.Thread) string {
	var text string
	for _, p := range paths {
		why := ""
		if p.Reason != nil && p.Status == store.Failed {
			why = " (" + p.Reason.Message + ")"
		}
		text += cmp.Or(map[bool]string{true: ", "}[text != ""], "") + "path " + p.Path.ID + " " + p.Status + why
	}
	return clip(text)
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
		next, err := e.path(ctx, c, d, p.Path.ID, p.Path.N+1, now)
		if err != nil {
			return store.Thread{}, err
		}
		next.Head, next.Steps, next.Tree = p.Head, p.Steps, p.Tree
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: next})
	}
	row.Status, row.Reason, row.Decision, row.UpdatedAt = store.Running, nil, nil, now
	batch.Threads = append(batch.Threads, store.ThreadChange{Row: row, From: c.row.State()})
	batch.Events = resumed(c.row, now)
	if _, err := e.commit(ctx, c, batch, row); err != nil {
		return store.Thread{}, err
	}
	e.Forget(id)
	return e.cfg.Store.Thread(ctx, id)
}
