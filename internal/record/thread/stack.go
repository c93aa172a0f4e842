package thread

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Frame is a node on the way from a step up to the top of its task.
type Frame struct {
	Hash  dag.Hash
	Type  string // dag.TypeState or dag.TypeStart
	Role  string // of a state
	Flow  string // of the chain
	Depth int    // of the chain: 0 is the top
}

// Stack returns the call stack of h, a state or a start: the step itself, its chain's start, the
// state that called that chain, its start, and so on up to the start that was not called. A chain
// that was called before its caller had a step has the caller's start as parent. Every start's
// depth is the number of starts above it; otherwise the record is store.ErrCorrupt.
func (r *Reader) Stack(ctx context.Context, h dag.Hash) ([]Frame, error) {
	fail := func(err error) ([]Frame, error) { return nil, fmt.Errorf("read call stack of %s: %w", h.Short(), err) }
	var frames []Frame
	below := -1 // depth of the chain below, -1: none yet
	for at := h; ; {
		s, err := r.At(ctx, at)
		if err != nil {
			return fail(err)
		}
		startHash := at
		if s.State != nil {
			startHash = s.State.Start
		}
		start, err := r.Start(ctx, startHash)
		if err != nil {
			return fail(err)
		}
		switch {
		case below >= 0 && start.Depth != below-1:
			return fail(fmt.Errorf("start %s has depth %d, but what it called has %d: %w",
				startHash.Short(), start.Depth, below, store.ErrCorrupt))
		case start.ParentState.IsZero() != (start.Depth == 0), start.Depth < 0:
			return fail(fmt.Errorf("start %s has depth %d and parent state %q: %w",
				startHash.Short(), start.Depth, start.ParentState.Short(), store.ErrCorrupt))
		}
		if s.State != nil {
			frames = append(frames, Frame{at, dag.TypeState, s.State.Role, start.Name, start.Depth})
		}
		frames = append(frames, Frame{Hash: startHash, Type: dag.TypeStart, Flow: start.Name, Depth: start.Depth})
		if start.ParentState.IsZero() {
			return frames, nil
		}
		// Depth decreases each time, so the walk ends.
		below, at = start.Depth, start.ParentState
	}
}
