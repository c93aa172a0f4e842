package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxTimeline limits the steps of each thread, and the attempts of a task, on its timeline. It
// shows the newest.
const maxTimeline = 1000

// Timeline reads the timeline of a task as of now.
func (b *Reader) Timeline(ctx context.Context, root store.Thread, now time.Time) (Timeline, error) {
	r := TimelineRecord{Root: root, Chains: map[string][]ChainStep{}, Driven: b.Continues(ctx, root),
		Now: now.UnixMilli()}
	var err error
	if r.Threads, err = b.Store.Threads(ctx, store.ThreadFilter{Task: root.ID}); err != nil {
		return Timeline{}, err
	}
	if r.Attempts, err = b.Store.Attempts(ctx, store.AttemptFilter{Task: root.ID}); err != nil {
		return Timeline{}, err
	}
	if r.Gates, err = b.Store.Gates(ctx, store.GateFilter{Task: root.ID}); err != nil {
		return Timeline{}, err
	}
	if r.Cut = len(r.Attempts) > maxTimeline; r.Cut {
		slices.SortStableFunc(r.Attempts, func(a, b store.Attempt) int { return cmp.Compare(b.StartedAt, a.StartedAt) })
		r.Attempts = r.Attempts[:maxTimeline]
	}
	for _, row := range r.Threads {
		chain, whole, err := b.chain(ctx, row)
		if err != nil {
			return Timeline{}, err
		}
		r.Chains[row.ID], r.Cut = chain, r.Cut || !whole
	}
	return NewTimeline(r), nil
}

// chain reads the newest steps that a thread made itself, oldest first: not those before its
// fork, nor those of a path that a join continued.
func (b *Reader) chain(ctx context.Context, row store.Thread) (list []ChainStep, whole bool, err error) {
	n := row.Steps
	var until, skip dag.Hash // where the thread began; where a path that a join continued began
	switch {
	case row.ForkedFrom != nil:
		until = row.ForkedFrom.Step
	case row.Kind == store.KindPath && row.Path != nil:
		until = row.Path.Fork
	}
	for s, err := range b.Nodes.Walk(ctx, row.Head) {
		if err != nil {
			return nil, false, err
		}
		if s.Hash == until {
			break
		}
		if len(list) == maxTimeline {
			return reversed(list), false, nil
		}
		if skip.IsZero() || s.Hash == skip {
			skip = dag.Hash{}
			list = append(list, newChainStep(s, n))
			if s.State.MainPath() >= 0 {
				skip = s.State.Fork
			}
		}
		n--
	}
	return reversed(list), true, nil
}

func reversed(list []ChainStep) []ChainStep {
	slices.Reverse(list)
	return list
}

func newChainStep(s thread.Step, n int) ChainStep {
	st := s.State
	c := ChainStep{N: n, Hash: s.Hash, Before: st.Start, Role: st.Role, Kind: MarkStep,
		Outcome: Outcome(st.Role, st.Meta), At: st.Timestamp, Child: st.ChildThread}
	if len(st.Ancestors) > 0 {
		c.Before = st.Ancestors[0]
	}
	for _, p := range st.Paths {
		c.Joins = append(c.Joins, p.Thread)
	}
	switch {
	case st.Paths != nil:
		c.Kind = MarkJoin
	case !st.ChildThread.IsZero():
		c.Kind = MarkCall
	case st.Role == thread.RoleEnd:
		c.Kind = MarkEnd
	case !st.Compact.IsZero():
		c.Kind = MarkSummary
	case st.Role == thread.RoleInput:
		c.Kind = MarkInput
	}
	return c
}
