package view

import (
	"context"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// ownSteps yields the steps that a thread made itself, newest first, with their numbers along the chain: those after
// until, without those of a path whose conversation a join continues.
func (b *Reader) ownSteps(
	ctx context.Context, row store.Thread, until dag.Hash,
) iter.Seq2[thread.NumberedStep, error] {
	return func(yield func(thread.NumberedStep, error) bool) {
		n := row.Steps + 1
		var fork dag.Hash // of the join whose path is being skipped
		for s, err := range b.Nodes.Walk(ctx, row.Head) {
			if err != nil {
				yield(thread.NumberedStep{}, err)
				return
			}
			n--
			switch {
			case s.Hash == until:
				return
			case !fork.IsZero() && s.Hash != fork:
				continue
			case !yield(thread.NumberedStep{Step: s, N: n}, nil):
				return
			}
			fork = dag.Hash{}
			if s.State.MainPath() >= 0 {
				fork = s.State.Fork
			}
		}
	}
}

// shared returns the last step that a thread shares with the one that it was forked from; zero if it shares none.
func shared(row store.Thread) dag.Hash {
	switch {
	case row.ForkedFrom != nil:
		return row.ForkedFrom.Step
	case row.Kind == store.KindPath && row.Path != nil:
		return row.Path.Fork
	}
	return dag.Hash{}
}

// NewSteps reads the steps that a thread made itself, oldest first, after the last one that is known. If the step that
// it was forked from is not known, those before it are among them.
func (b *Reader) NewSteps(ctx context.Context, row store.Thread, known func(dag.Hash) (bool, error)) ([]Step, error) {
	until := shared(row)
	if is, err := known(until); err != nil {
		return nil, err
	} else if row.ForkedFrom != nil && !is {
		until = dag.Hash{}
	}
	var steps []Step
	for s, err := range b.ownSteps(ctx, row, until) {
		if err != nil {
			return nil, err
		}
		if is, err := known(s.Hash); err != nil {
			return nil, err
		} else if is {
			break
		}
		one, err := b.step(ctx, s.Step, s.N)
		if err != nil {
			return nil, err
		}
		steps = append(steps, one)
	}
	slices.Reverse(steps)
	return steps, b.fillDone(ctx, steps)
}
