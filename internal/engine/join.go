package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

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
	if !c.def.Continues(d, f.Decision.Outcome) {
		return stand(e.notJoined(ctx, c, f))
	}
	for {
		ch, between, err := e.joined(ctx, c, f, d.Rule.Main)
		if err != nil {
			return Stand{}, err
		}
		row, now := c.row, ch.Step.State.Timestamp
		n := *c
		n.visits, n.last = maps.Clone(c.visits), slices.Clip(c.last)
		n.sessions, n.past = maps.Clone(c.sessions), maps.Clone(c.past)
		if err := e.left(ctx, &n, between); err != nil {
			return Stand{}, err
		}
		asked, err := e.lastAsked(ctx, between)
		if err != nil {
			return Stand{}, err
		}
		if asked != nil {
			n.asked = asked
		}
		n.inherit()
		for _, s := range between {
			step, err := e.flowStep(ctx, s)
			if err != nil {
				return Stand{}, err
			}
			if err := e.advance(ctx, &n, s, step); err != nil {
				return Stand{}, err
			}
		}
		next, err := e.after(ctx, &n, ch)
		if err != nil {
			return Stand{}, err
		}
		batch := store.Batch{Objects: ch.Objects, Events: []store.Event{event.New(row, now, event.ThreadJoined{
			Join: d.Join, Outcome: f.Decision.Outcome, Step: ch.Step.Hash, N: ch.Row.Steps, DecidedBy: f.Decision.DecidedBy,
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
// follows, oldest first: through is the path whose conversation goes on.
func (e *Engine) joined(ctx context.Context, c *cursor, f *Fork, through string) (thread.Change, []thread.Step, error) {
	draft := thread.JoinDraft{Node: f.Join, Outcome: f.Decision.Outcome, DecidedBy: f.Decision.DecidedBy, At: e.now(), Since: f.Since, Merge: f.Decision.Merge}
	var follow *store.Thread
	for i, p := range f.Paths {
		end, _, err := e.pathEnd(ctx, p)
		if err != nil {
			return thread.Change{}, nil, err
		}
		draft.Paths = append(draft.Paths, end)
		if f.Decision.Outcome != flow.Joined || p.Kind != store.KindPath {
			continue // what was spawned has a conversation of its own
		}
		main := p.Path.ID == through && (p.Status == store.Completed || f.Decision.DecidedBy == "")
		if main || follow == nil && p.Path.ID == f.Decision.DecidedBy {
			follow = &f.Paths[i]
		}
	}
	for i, p := range f.Paths {
		if follow != nil && p.ID == follow.ID {
			continue // its steps say it themselves
		}
		used, err := e.pathUsage(ctx, c, f.Paths[i])
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
		if end.Meta != nil || !thread.Routed(s.State.Role) {
			continue
		}
		end.Meta = s.State.Meta
		if action(p) != "" {
			d, err := e.cfg.Reader.Detail(ctx, s.State.Detail)
			if err != nil {
				return end, nil, fmt.Errorf("read path %s: %w", p.ID, err)
			}
			instance := action(p)
			if d != nil && d.Instance != "" {
				instance = d.Instance
			}
			end.Text = outcome(instance, end.Meta)
		} else if end.Text, err = e.cfg.Reader.Text(ctx, s.State.Content); err != nil {
			return end, nil, fmt.Errorf("read path %s: %w", p.ID, err)
		}
	}
	slices.Reverse(own)
	return end, own, nil
}

// pathUsage returns what a path used, with those that it goes on from and all that
// they called.
func (e *Engine) pathUsage(ctx context.Context, c *cursor, p store.Thread) (store.Usage, error) {
	var all store.Usage
	for n := 1; n <= p.Path.N; n++ {
		used, err := e.usage(ctx, thread.DerivedID(c.stamp, c.row.ID, c.row.Head, p.Path.ID, n))
		if err != nil {
			return all, fmt.Errorf("read path %s: %w", p.ID, err)
		}
		all = all.Add(used)
	}
	return all, nil
}

// results reads what a join's routes see of its paths.
func (e *Engine) results(ctx context.Context, s *thread.State) (map[string]flow.PathResult, error) {
	out := make(map[string]flow.PathResult, len(s.Paths))
	for _, p := range s.Paths {
		r := flow.PathResult{Status: string(p.Status)}
		if p.Status != store.Cancelled {
			row := store.Thread{ID: p.Thread, Head: p.Head, Path: &store.Path{ID: p.ID, Fork: s.Fork, Join: s.Role}}
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
	why := store.Reason{Kind: store.ReasonJoin, Message: fmt.Sprintf("join %s: %s; %s", f.Join, f.Decision.Outcome, ends(f.Paths))}
	return e.change(ctx, c, func(row store.Thread) (thread.Change, store.Batch, error) {
		now := e.now()
		row = blockedRow(row, why, now)
		row.Decision = nil
		return thread.Change{Row: row, Tip: c.tip}, store.Batch{Events: append(phase(row, f.Plan != nil, now, event.Blocked), blockedEvents(row, why, now)...)}, nil
	})
}

// ends says in a line how paths ended.
func ends(paths []store.Thread) string {
	parts := make([]string, len(paths))
	for i, p := range paths {
		parts[i] = "path " + p.Path.ID + " " + string(p.Status)
		if p.Reason != nil && p.Status == store.Failed {
			parts[i] += " (" + p.Reason.Message + ")"
		}
	}
	return clip(strings.Join(parts, ", "))
}
