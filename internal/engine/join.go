package engine

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// join commits the step of a decided join whose paths have all ended, or blocks the thread when the
// flow has no route for the outcome.
func (e *Engine) join(ctx context.Context, c *threadState, f *forkState) (store.Thread, error) {
	if !c.Def.Continues(f.Fork, f.decision.Outcome) {
		return e.blockAtJoin(ctx, c, f)
	}
	_, err := e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		var batch store.Batch
		ch, between, err := e.joined(ctx, c, f)
		if err != nil {
			return nil, batch, err
		}
		n := *c
		n.Thread = c.Clone()
		if err := e.attempts.Through(ctx, &n.Thread, between); err != nil {
			return nil, batch, err
		}
		next, err := e.stateAfter(ctx, &n, ch)
		if err != nil {
			return nil, batch, err
		}
		batch = store.Batch{Objects: ch.Objects, Unpin: []string{joinPin(row)},
			Events: []store.Event{event.New(row, ch.Step.State.Timestamp, event.ThreadJoined{
				Join: f.Join, Outcome: f.decision.Outcome, Step: ch.Step.Hash, N: ch.Row.Steps,
				DecidedBy: f.decision.DecidedBy, Kept: f.kept(),
			})}}
		e.completeAtJoin(next, &batch)
		return next, batch, nil
	})
	return c.Row, err
}

// joined builds the step of a join, and returns the steps of the path whose conversation continues, oldest
// first.
func (e *Engine) joined(ctx context.Context, c *threadState, f *forkState) (thread.Change, []thread.Step, error) {
	draft := thread.JoinDraft{Node: f.Join, Outcome: f.decision.Outcome, DecidedBy: f.decision.DecidedBy, At: e.now(),
		Since: f.since, Merge: f.decision.Merge}
	var follow *store.Thread
	var between []thread.Step
	var err error
	if e.cfg.Player != nil {
		if draft.Pointing, err = e.cfg.Player.Points(ctx, f.threads[0]); err != nil {
			return thread.Change{}, nil, err
		}
	}
	for i, p := range f.threads {
		end, own, err := e.record.PathEnd(ctx, p)
		if err != nil {
			return thread.Change{}, nil, err
		}
		draft.Paths = append(draft.Paths, end)
		if f.decision.Outcome != flow.Joined || p.Kind != store.KindPath {
			continue // a spawned thread has its own conversation
		}
		main := p.Path.ID == f.Rule.Main && (p.Status == store.Completed || f.decision.DecidedBy == "")
		if main || follow == nil && p.Path.ID == f.decision.DecidedBy {
			follow, between = &f.threads[i], own
		}
	}
	var paths []string // with those that they continue
	for _, p := range f.threads {
		if follow == nil || p.ID != follow.ID { // its steps have the same text
			paths = append(paths, c.tries(p.Path.ID, p.Path.N)...)
		}
	}
	if draft.Usage, err = e.usage(ctx, c.Row.Task, paths); err != nil {
		return thread.Change{}, nil, err
	}
	row := c.Row
	row.Status, row.Reason, row.Decision, row.InFlight = store.Running, nil, nil, ""
	if draft.Approvals, err = e.approvals(ctx, row); err != nil {
		return thread.Change{}, nil, err
	}
	files, err := e.mergedFiles(ctx, row, f.decision.Merge, &draft)
	if err != nil {
		return thread.Change{}, nil, err
	}
	tip, steps := c.Tip, row.Steps
	if follow != nil {
		steps = follow.Steps
		if tip, err = e.cfg.Reader.Tip(ctx, follow.Head); err != nil {
			return thread.Change{}, nil, err
		}
	}
	ch, err := thread.Join(row, tip, steps, draft)
	ch.Objects = append(ch.Objects, files...)
	return ch, between, err
}

// mergedFiles records the files as they are after a join, if the task wants that, and returns the new objects.
// They are pinned under joinPin.
func (e *Engine) mergedFiles(ctx context.Context, row store.Thread, m *thread.Merge, draft *thread.JoinDraft) (
	objects []store.Object, err error) {
	o, err := record.OptionsOf(row)
	if err != nil || !o.KeepsFiles() || m == nil || m.To == "" {
		return nil, err
	}
	change := worktree.Change{Name: "files", From: m.From, To: m.To, Whole: o.KeepFiles}
	draft.Files, objects, err = e.cfg.Trees.Keep(ctx, row, change, row.Head, func(r io.Reader) (dag.Hash, error) {
		blob, _, err := e.cfg.Store.Stage(ctx, joinPin(row), r)
		return blob, err
	})
	return objects, err
}

// joinPin is the name of the pin on what is staged for a thread's join, until the join is committed.
func joinPin(row store.Thread) string { return row.ID + ".join" }

// blockAtJoin blocks a thread whose flow has no route for the outcome of its join.
func (e *Engine) blockAtJoin(ctx context.Context, c *threadState, f *forkState) (store.Thread, error) {
	what := "join " + f.Join
	if f.Plan != nil {
		what = "actions of " + f.Node
	}
	why := store.Reason{Kind: store.ReasonJoin, Message: fmt.Sprintf("%s: %s; %s", what, f.decision.Outcome,
		describeEnds(f.threads))}
	return e.change(ctx, c, func(row store.Thread, now int64) (store.Thread, []store.Event) {
		row = blockedRow(row, why)
		row.Decision = nil
		return row, append(event.Phase(row, f.Plan != nil, now, event.Blocked), blockedEvents(row, why, now)...)
	})
}

// describeEnds returns a line about how paths ended.
func describeEnds(paths []store.Thread) string {
	var failed []store.Thread
	counts := map[store.Status][]string{}
	for _, p := range paths {
		if p.Status == store.Failed {
			failed = append(failed, p)
			continue
		}
		counts[p.Status] = append(counts[p.Status], p.Path.ID)
	}
	var parts []string
	if len(failed) > 0 {
		parts = append(parts, describeStopped(failed))
	}
	for _, status := range []store.Status{store.Completed, store.Cancelled} {
		if n := len(counts[status]); n > maxListed {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		} else if n > 0 {
			parts = append(parts, strings.Join(counts[status], ", ")+" "+string(status))
		}
	}
	return event.Brief(strings.Join(parts, "; "))
}
