package view

import (
	"context"
	"errors"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Stack is the path from a step up to the top of its task.
type Stack struct {
	Stack []Frame `json:"stack"` // the step first, the top's start last
}

// A Frame is one node of a call stack.
type Frame struct {
	Hash   dag.Hash `json:"hash"`
	Type   string   `json:"type"` // state or start
	Role   string   `json:"role"` // of a state
	Flow   string   `json:"flow"`
	Depth  int      `json:"depth"`  // 0 is the top
	Thread string   `json:"thread"` // "" if not in the index
}

// Stack reads the path from a thread's head, or a step, up to the top.
func (b *Reader) Stack(ctx context.Context, of Subject) (*Stack, error) {
	frames, err := b.Nodes.Stack(ctx, of.Head)
	if err != nil {
		return nil, err
	}
	row := of.Row
	if row.ID == "" {
		if row, err = b.ThreadOf(ctx, of.Head); err != nil {
			return nil, err
		}
	}
	lineage, err := b.lineage(ctx, row)
	if err != nil {
		return nil, err
	}
	v := &Stack{Stack: make([]Frame, 0, len(frames))}
	for _, f := range frames {
		if f.Type == dag.TypeStart {
			row = lineage.Chain(row)
		}
		v.Stack = append(v.Stack, Frame{f.Hash, f.Type, f.Role, f.Flow, f.Depth, row.ID})
		if f.Type == dag.TypeStart {
			row, _ = lineage.Caller(row)
		}
	}
	return v, nil
}

// maxLooked limits how many threads with the same start are searched for a step.
const maxLooked = 64

// ThreadOf returns the thread that a step or start belongs to: the one whose agent made it, or
// one that ends at it, or the oldest whose chain contains it. It is the zero Thread if there is
// none.
func (b *Reader) ThreadOf(ctx context.Context, h dag.Hash) (store.Thread, error) {
	r := b.Nodes
	startHash, err := r.StartOf(ctx, h)
	if err != nil {
		return store.Thread{}, err
	}
	if startHash != h {
		s, err := r.State(ctx, h)
		if err != nil {
			return store.Thread{}, err
		}
		d, err := r.Detail(ctx, s.Detail)
		if err != nil {
			return store.Thread{}, err
		}
		if d != nil && d.Attempt != "" {
			id, _, _ := strings.Cut(d.Attempt, ".")
			row, err := b.Store.Thread(ctx, id)
			if !errors.Is(err, store.ErrNotFound) {
				return row, err
			}
		}
	}
	start, err := r.Start(ctx, startHash)
	if err != nil {
		return store.Thread{}, err
	}
	rows, err := b.Store.Threads(ctx, store.ThreadFilter{Bundle: start.Hash})
	if err != nil {
		return store.Thread{}, err
	}
	var on []store.Thread
	for _, row := range rows {
		switch {
		case row.Start != startHash:
		case row.Head == h:
			return row, nil
		case len(on) < maxLooked:
			on = append(on, row)
		}
	}
	for _, row := range on {
		if startHash == h {
			return row, nil
		}
		for s, err := range r.Walk(ctx, row.Head) {
			if err != nil {
				return store.Thread{}, err
			}
			if s.Hash == h {
				return row, nil
			}
		}
	}
	return store.Thread{}, nil
}
