package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// joinFiles merges the files that the paths of a decided join left into the tree of their thread, keeps the
// files of each path on a branch, and commits the join. If the join was not met, it only keeps the branches,
// for a planner that continues. If a person has to be asked first, the row has the reason.
func (e *Engine) joinFiles(ctx context.Context, c *threadState, f *forkState) (store.Thread, error) {
	if f.files {
		why, err := e.mergeFiles(ctx, c, f)
		switch {
		case err != nil:
			return c.Row, err
		case why != nil:
			return e.block(ctx, c, *why)
		}
	}
	head := c.Row.Head
	if e.cfg.Worker != "" {
		c.Row.Host = e.cfg.Worker
	}
	row, err := e.join(ctx, c, f)
	if errors.Is(err, worktree.ErrRefused) { // the merged files are too large for other workers
		why, err := e.refuseMerge(ctx, c, f, err)
		if err != nil {
			return c.Row, err
		}
		return e.block(ctx, c, *why)
	}
	if err == nil && row.Head != head && f.decision.Outcome == flow.Joined {
		err = e.cfg.Trees.Tidy(ctx, f.threads, f.decision.Merge)
	}
	return row, err
}

// mergeFiles merges the files of a join's paths, or returns why it cannot do so now.
func (e *Engine) mergeFiles(ctx context.Context, c *threadState, f *forkState) (*store.Reason, error) {
	fail := func(err error) (*store.Reason, error) {
		err = fmt.Errorf("merge the files of join %s in thread %s: %w", f.Join, c.Row.ID, err)
		if !errors.Is(err, worktree.ErrRefused) {
			return nil, err
		}
		return e.refuseMerge(ctx, c, f, err)
	}
	var changed error
	for range 3 { // repeat if a person changes the files meanwhile, or the process that merged them died
		if f.decision.Merge == nil {
			m, why, err := e.tryMerge(ctx, c.Row, f)
			if err == nil && why == nil {
				m, err = e.addLeft(ctx, f, m)
			}
			switch {
			case err != nil:
				return fail(err)
			case why != nil || m == nil:
				return why, nil
			}
			if err := e.keepMerge(ctx, c, f, m); err != nil {
				return fail(err)
			}
		}
		err := e.cfg.Trees.Apply(ctx, c.Row, f.decision.Merge)
		if err == nil {
			return nil, nil
		}
		changed = err
		if !errors.Is(err, worktree.ErrChanged) && !errors.Is(err, worktree.ErrAway) {
			return fail(err)
		}
		if err := e.keepMerge(ctx, c, f, nil); err != nil {
			return fail(err)
		}
	}
	return &store.Reason{Kind: store.ReasonConflict, Message: "changes cannot be merged into " +
		worktree.Of(c.Row) + ": " +
		changed.Error() + "; resume when nothing changes these files any more"}, nil
}

// refuseMerge returns why files cannot be merged: an agent left them this way, and trying again does not help.
func (e *Engine) refuseMerge(ctx context.Context, c *threadState, f *forkState, err error) (*store.Reason, error) {
	if f.decision.Merge != nil {
		if err := e.keepMerge(ctx, c, f, nil); err != nil {
			return nil, err
		}
	}
	return &store.Reason{Kind: store.ReasonAttempts, Message: err.Error() +
		"; resolve it and resume, or resume and keep everything on branches"}, nil
}

// keepMerge records, next to the decision about a join, how the files that its paths changed are merged. It
// does so before it changes a file, so that the same happens again after a crash.
func (e *Engine) keepMerge(ctx context.Context, c *threadState, f *forkState, m *thread.Merge) error {
	moved, err := e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		d := *f.decision
		d.Merge = m
		var err error
		if row.Decision, err = json.Marshal(d); err != nil {
			return nil, store.Batch{}, err
		}
		row.UpdatedAt = e.now()
		will := event.MergeDecided{Join: f.Join}
		if m != nil {
			will.From, will.To = m.From, m.To
		}
		return c.with(row), store.Batch{Events: []store.Event{event.New(row, row.UpdatedAt, will)}}, nil
	})
	if err == nil && !moved {
		err = fmt.Errorf("thread %s has moved on: %w", c.Row.ID, store.ErrConflict)
	}
	if err == nil {
		f.decision.Merge = m
	}
	return err
}

// tryMerge merges the files of the paths as git trees, and touches none of them. why is set if a
// person has to decide first; m is nil if no path changed a file.
func (e *Engine) tryMerge(ctx context.Context, row store.Thread, f *forkState) (m *thread.Merge, why *store.Reason,
	err error) {
	trees := e.cfg.Trees
	sides, err := trees.Sides(ctx, f.threads)
	if err != nil || len(sides) == 0 {
		return nil, nil, err
	}
	o, err := record.OptionsOf(row)
	if err != nil {
		return nil, nil, err
	}
	m = &thread.Merge{Sides: sides}
	if m.From, err = trees.Hold(ctx, row, "join-"+row.Head.Short()); err != nil {
		return nil, nil, err
	}
	if o.Merge == record.MergeKeep || f.Rule.Files == flow.KeepFiles || f.decision.Outcome != flow.Joined {
		m.To = m.From
		return m, nil, nil
	}
	merged, err := trees.Try(ctx, row, m.From, sides)
	if err != nil {
		return nil, nil, err
	}
	guarded := slices.ContainsFunc(sides, func(s thread.MergedSide) bool { return len(s.Protected) > 0 })
	if o.Merge == record.MergeAsk || len(merged.Conflicts) > 0 || guarded {
		g, err := e.askMerge(ctx, row, f, m, merged)
		switch {
		case err != nil:
			return nil, nil, err
		case g.State == store.GateOpen:
			return nil, mergeReason(g), nil
		case g.State != store.GateApproved:
			merged.Tree, merged.Taken = m.From, nil
		}
	}
	m.To = merged.Tree
	for i := range sides {
		s := &sides[i]
		s.Merged = slices.Contains(merged.Taken, s.Path)
		if files := merged.Conflicts[s.Path]; files != nil {
			s.Conflicts = files
		}
	}
	return m, nil, nil
}

// addLeft returns a merge, nil for none, with the worktrees that stay and the caches that go with the others.
func (e *Engine) addLeft(ctx context.Context, f *forkState, m *thread.Merge) (*thread.Merge, error) {
	kept, caches, err := e.cfg.Trees.Leftovers(ctx, f.threads)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = &thread.Merge{Sides: []thread.MergedSide{}}
	}
	m.Kept = kept
	if f.decision.Outcome == flow.Joined {
		for path, n := range caches {
			if !slices.ContainsFunc(m.Sides, func(s thread.MergedSide) bool { return s.Path == path && !s.Merged }) {
				m.Caches += n
			}
		}
	}
	if len(m.Sides)+len(m.Kept)+m.Caches == 0 {
		return nil, nil
	}
	return m, nil
}
