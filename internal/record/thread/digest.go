package thread

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Digest returns the outcome digest of the chain at head: what was decided and
// said, without times, attempts, sessions and summaries. Each step folds into
//
//	d = SHA-256(JCS([previous, role, meta, text, paths, child]))
//
// where previous is null before the first step, paths is a list of
// [path id, status, digest] in fork order (digest null for a cancelled path),
// and child is the digest of childThread or null. The gate in the meta of an __input__
// counts as null: its id is derived from a head, and so from times. __compact__ steps are
// skipped. Two runs of one flow with the same answers have the same digest on any
// store, even if they were killed. A chain without steps has the zero hash.
func (r *Reader) Digest(ctx context.Context, head dag.Hash) (dag.Hash, error) {
	return r.digest(ctx, head, map[dag.Hash]dag.Hash{})
}

// digest is Digest, where known has the digests at the steps that were folded before: a path shares
// the chain before its fork.
func (r *Reader) digest(ctx context.Context, head dag.Hash, known map[dag.Hash]dag.Hash) (dag.Hash, error) {
	var steps []Step
	var prev dag.Hash
	for s, err := range r.walk(ctx, head, 3*Window) {
		if err != nil {
			return dag.Hash{}, err
		}
		if d, ok := known[s.Hash]; ok {
			prev = d
			break
		}
		steps = append(steps, s)
	}
	slices.Reverse(steps)
	for s := range r.WithTexts(ctx, steps) {
		if s.State.Role != RoleCompact {
			var err error
			if prev, err = r.fold(ctx, prev, s.State, known); err != nil {
				return dag.Hash{}, err
			}
		}
		known[s.Hash] = prev
	}
	return prev, nil
}

// fold adds one step. Paths and children are separate chains; the depth of their
// nesting is bounded by the flow's maxDepth.
func (r *Reader) fold(ctx context.Context, prev dag.Hash, s *State, known map[dag.Hash]dag.Hash) (dag.Hash, error) {
	text, err := r.Text(ctx, s.Content)
	if err != nil {
		return dag.Hash{}, err
	}
	var child dag.Hash
	if !s.ChildThread.IsZero() {
		if child, err = r.digest(ctx, s.ChildThread, known); err != nil {
			return dag.Hash{}, err
		}
	}
	b := prev.Append([]byte{'['})
	b = append(b, ',')
	b = dag.AppendString(b, s.Role)
	b = append(b, ',')
	b = append(b, stableMeta(s)...)
	b = append(b, ',')
	b = dag.AppendString(b, text)
	b = append(b, ",["...)
	for i, p := range s.Paths {
		var d dag.Hash
		if p.Status != store.Cancelled {
			if d, err = r.digest(ctx, p.Head, known); err != nil {
				return dag.Hash{}, err
			}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = dag.AppendString(b, p.ID)
		b = append(b, ',')
		b = dag.AppendString(b, string(p.Status))
		b = append(b, ',')
		b = d.Append(b)
		b = append(b, ']')
	}
	b = append(b, "],"...)
	b = child.Append(b)
	return dag.Sum(slices.Concat(b, []byte{']'})), nil
}

// stableMeta returns the meta of a step without what differs from run to run, so that equal
// outcomes hash equally.
func stableMeta(s *State) []byte {
	var input struct{ Source string }
	if s.Role != RoleInput || json.Unmarshal(s.Meta, &input) != nil || input.Source == SourceComment {
		return s.Meta
	}
	return InputMeta(input.Source, "")
}
