package thread

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Step is a state and its hash.
type Step struct {
	Hash  dag.Hash
	State *State
}

// Walk yields the steps from head back to the first one, newest first. It yields none if head is
// a start.
func (r *Reader) Walk(ctx context.Context, head dag.Hash) iter.Seq2[Step, error] {
	return r.walk(ctx, head, 0)
}

// walk is Walk for a caller that has read some steps already. It prefetches a third as many: a
// caller that has come far may want all, and one that stops early wastes little. Each state lists
// its ancestors, so they can be fetched together.
func (r *Reader) walk(ctx context.Context, head dag.Hash, read int) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		read := read
		for h := head; !h.IsZero(); {
			s, err := r.At(ctx, h)
			if err != nil {
				yield(Step{}, err)
				return
			}
			if s.State == nil || !yield(s, nil) {
				return
			}
			if h = s.Parent(); !r.cached(h) {
				ahead := min(max(1, read/3), len(s.State.Ancestors))
				r.fetch(ctx, s.State.Ancestors[:ahead])
				read += ahead
			}
		}
	}
}

// At returns the step under h; its State is nil when h is a start.
func (r *Reader) At(ctx context.Context, h dag.Hash) (Step, error) {
	v, err := r.load(ctx, h)
	if err != nil {
		return Step{}, err
	}
	switch v := v.(type) {
	case *State:
		return Step{h, v}, nil
	case *Start:
		return Step{Hash: h}, nil
	}
	return Step{}, fmt.Errorf("read step %s: the object is not a step: %w", h.Short(), store.ErrNotFound)
}

// Parent returns the step before s, zero for the first one.
func (s Step) Parent() dag.Hash {
	if len(s.State.Ancestors) == 0 {
		return dag.Hash{}
	}
	return s.State.Ancestors[0]
}

// LastRouted returns the first routed step of a walk back, if it comes before the step until is reached. Its State
// is nil if there is none.
func LastRouted(walk iter.Seq2[Step, error], until dag.Hash) (Step, error) {
	for s, err := range walk {
		if err != nil || s.Hash == until {
			return Step{}, err
		}
		if Routed(s.State.Role) {
			return s, nil
		}
	}
	return Step{}, nil
}

// Steps returns all steps up to head, oldest first.
func (r *Reader) Steps(ctx context.Context, head dag.Hash) ([]Step, error) {
	var steps []Step
	for s, err := range r.walk(ctx, head, 3*Window) {
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	slices.Reverse(steps)
	return steps, nil
}

// textsAhead is how many texts are read at a time.
const textsAhead = 32

// WithTexts yields steps in order, for a caller that reads the text of each. Texts are fetched in
// groups.
func (r *Reader) WithTexts(ctx context.Context, steps []Step) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for part := range slices.Chunk(steps, textsAhead) {
			texts := make([]dag.Hash, len(part))
			for i, s := range part {
				texts[i] = s.State.Content
			}
			r.fetch(ctx, texts)
			for _, s := range part {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Back returns the step n steps before head (0 is head itself). It reads one state for every
// Window steps. ok is false if the chain is shorter.
func (r *Reader) Back(ctx context.Context, head dag.Hash, n int) (s Step, ok bool, err error) {
	for h := head; ; {
		s, err := r.At(ctx, h)
		if err != nil || s.State == nil {
			return Step{}, false, err
		}
		if n == 0 {
			return s, true, nil
		}
		a := s.State.Ancestors
		if len(a) == 0 {
			return Step{}, false, nil
		}
		hop := min(n, len(a))
		h, n = a[hop-1], n-hop
	}
}

// Page returns at most limit steps, newest first, starting skip steps before head.
func (r *Reader) Page(ctx context.Context, head dag.Hash, skip, limit int) ([]Step, error) {
	first, ok, err := r.Back(ctx, head, skip)
	if err != nil || !ok {
		return nil, err
	}
	var steps []Step
	for s, err := range r.Walk(ctx, first.Hash) {
		if err != nil {
			return nil, err
		}
		if steps = append(steps, s); len(steps) == limit {
			break
		}
	}
	return steps, nil
}

// StartOf returns the hash of the start of the chain at head.
func (r *Reader) StartOf(ctx context.Context, head dag.Hash) (dag.Hash, error) {
	s, err := r.At(ctx, head)
	if err != nil {
		return dag.Hash{}, err
	}
	if s.State == nil {
		return head, nil
	}
	return s.State.Start, nil
}

// BeforeEnd returns the head that a thread had before its end: the last one that attempts were made at.
func (r *Reader) BeforeEnd(ctx context.Context, head dag.Hash) (dag.Hash, error) {
	s, err := r.At(ctx, head)
	switch {
	case err != nil || s.State == nil || s.State.Role != RoleEnd:
		return head, err
	case len(s.State.Ancestors) == 0:
		return s.State.Start, nil
	}
	return s.Parent(), nil
}

// Find returns the step of the chain at head that name refers to: a number along the chain (0 is
// the start, 1 the first step) or a prefix of a hash. number is the step's position; the State of
// step 0 is nil.
func (r *Reader) Find(ctx context.Context, head dag.Hash, name string) (s Step, number int, err error) {
	steps, err := r.Steps(ctx, head)
	if err != nil {
		return Step{}, 0, err
	}
	start, err := r.StartOf(ctx, head)
	if err != nil {
		return Step{}, 0, err
	}
	all := append([]Step{{Hash: start}}, steps...)
	if n, ok := stepNumber(name); ok {
		if n >= len(all) {
			return Step{}, 0, fmt.Errorf("step %d: the thread has %d steps: %w", n, len(steps), store.ErrNotFound)
		}
		return all[n], n, nil
	}
	if len(name) < dag.MinPrefix {
		return Step{}, 0, fmt.Errorf("step %q: give a number, or at least %d digits of a hash: %w", name, dag.MinPrefix,
			store.ErrNotFound)
	}
	found := -1
	for i, s := range all {
		if text := s.Hash.String(); len(name) <= len(text) && text[:len(name)] == name {
			if found >= 0 {
				return Step{}, 0, fmt.Errorf("step %q: more than one step has this prefix: %w", name, store.ErrNotFound)
			}
			found = i
		}
	}
	if found < 0 {
		return Step{}, 0, fmt.Errorf("step %q: not in this thread: %w", name, store.ErrNotFound)
	}
	return all[found], found, nil
}

// stepNumber parses a step number. Six or more digits are a hash prefix: steps of such long
// threads are addressed by hash.
func stepNumber(s string) (int, bool) {
	if s == "" || len(s) >= dag.MinPrefix {
		return 0, false
	}
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
