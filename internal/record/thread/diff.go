package thread

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
)

// A Side is one of two chains that are compared.
type Side struct {
	Head  dag.Hash
	Steps int // how many steps it has; see Reader.Length
}

// A Difference is where two chains diverge, and what each has from there on.
type Difference struct {
	N      int      // steps in common
	Common dag.Hash // the newest of them; the start if N is 0, zero if they do not share that either
	Pairs  []Pair   // the steps after it, oldest first
}

// A Pair is two steps that correspond, one of each side, or a step without a counterpart.
type Pair struct {
	A, B *NumberedStep
	Same bool // role, meta, text and artifacts are equal, though the hashes differ
}

// A NumberedStep is a step with its number along the chain.
type NumberedStep struct {
	Step
	N int
}

// Length returns how many steps the chain at head has. It reads one state for every Window steps.
func (r *Reader) Length(ctx context.Context, head dag.Hash) (int, error) {
	n := 0
	for h := head; ; {
		s, err := r.At(ctx, h)
		if err != nil {
			return 0, fmt.Errorf("measure chain of %s: %w", head.Short(), err)
		}
		switch {
		case s.State == nil:
			return n, nil
		case len(s.State.Ancestors) == 0:
			return n + 1, nil
		}
		n += len(s.State.Ancestors)
		h = s.State.Ancestors[len(s.State.Ancestors)-1]
	}
}

// Diff compares two chains. The common prefix is found by hash and not read: the longer chain is
// walked back to the length of the other, then both together until they meet. After that, steps
// of the same role correspond to each other.
func (r *Reader) Diff(ctx context.Context, a, b Side) (Difference, error) {
	fail := func(err error) (Difference, error) {
		return Difference{}, fmt.Errorf("compare %s and %s: %w", a.Head.Short(), b.Head.Short(), err)
	}
	left := backward{r: r, at: a.Head, seen: map[dag.Hash]int{}}
	right := backward{r: r, at: b.Head, seen: map[dag.Hash]int{}}
	// Lengths only decide which side moves. If one is wrong the chains still meet, because each
	// remembers its steps.
	for left.at != right.at {
		if n, ok := right.seen[left.at]; ok {
			right.cut(n, left.at)
			break
		}
		if n, ok := left.seen[right.at]; ok {
			left.cut(n, right.at)
			break
		}
		turn, other, ahead := &left, &right, a.Steps-len(left.steps) >= b.Steps-len(right.steps)
		if !ahead {
			turn, other = other, turn
		}
		if turn.done {
			turn = other
		}
		if turn.done {
			break // two starts
		}
		if err := turn.back(ctx); err != nil {
			return fail(err)
		}
	}
	d := Difference{}
	if left.at == right.at {
		d.Common = left.at
	}
	slices.Reverse(left.steps)
	slices.Reverse(right.steps)
	d.N = a.Steps - len(left.steps)
	if d.Common.IsZero() {
		d.N = 0
	}
	d.Pairs = pair(left.steps, right.steps, d.N)
	return d, nil
}

// A backward is a backward walk that remembers the steps it passed.
type backward struct {
	r     *Reader
	at    dag.Hash // not read yet
	done  bool     // at is the start
	steps []Step   // newest first
	seen  map[dag.Hash]int
}

func (w *backward) back(ctx context.Context) error {
	s, err := w.r.At(ctx, w.at)
	if err != nil {
		return err
	}
	if s.State == nil {
		w.done = true
		return nil
	}
	w.seen[w.at] = len(w.steps)
	w.steps = append(w.steps, s)
	if w.at = s.Parent(); w.at.IsZero() {
		w.at = s.State.Start
	}
	return nil
}

// cut rewinds the walk to h, its n-th step.
func (w *backward) cut(n int, h dag.Hash) { w.steps, w.at = w.steps[:n], h }

// maxAligned limits the work of aligning by role; longer chains are compared by position.
const maxAligned = 4 << 20

// pair matches the steps of two chains, oldest first: equal steps at either end, then the longest
// common sequence of roles, then by position within the gaps.
func pair(a, b []Step, common int) []Pair {
	pairs := make([]Pair, 0, max(len(a), len(b)))
	add := func(i, j int) {
		p := Pair{}
		if i >= 0 {
			p.A = &NumberedStep{a[i], common + i + 1}
		}
		if j >= 0 {
			p.B = &NumberedStep{b[j], common + j + 1}
		}
		p.Same = i >= 0 && j >= 0 && equalSteps(a[i].State, b[j].State)
		pairs = append(pairs, p)
	}
	head := 0
	for head < min(len(a), len(b)) && equalSteps(a[head].State, b[head].State) {
		add(head, head)
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && equalSteps(a[len(a)-1-tail].State, b[len(b)-1-tail].State) {
		tail++
	}
	i, j := head, head
	endA, endB := len(a)-tail, len(b)-tail
	for _, m := range append(byRole(a[head:endA], b[head:endB]), [2]int{endA - head, endB - head}) {
		toA, toB := head+m[0], head+m[1]
		for i < toA && j < toB && Routed(a[i].State.Role) && Routed(b[j].State.Role) {
			add(i, j)
			i, j = i+1, j+1
		}
		for ; i < toA; i++ {
			add(i, -1)
		}
		for ; j < toB; j++ {
			add(-1, j)
		}
		if i < endA && j < endB {
			add(i, j)
			i, j = i+1, j+1
		}
	}
	for ; i < len(a); i, j = i+1, j+1 {
		add(i, j)
	}
	return pairs
}

// byRole returns a longest common subsequence of a and b by role, as pairs of indices.
func byRole(a, b []Step) [][2]int {
	var out [][2]int
	if len(a)*len(b) > maxAligned {
		for i := range min(len(a), len(b)) {
			out = append(out, [2]int{i, i})
		}
		return out
	}
	width := len(b) + 1
	best := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].State.Role == b[j].State.Role {
				best[i*width+j] = best[(i+1)*width+j+1] + 1
			} else {
				best[i*width+j] = max(best[(i+1)*width+j], best[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].State.Role == b[j].State.Role:
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		case best[(i+1)*width+j] >= best[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return out
}

// equalSteps reports whether two steps are equal; a content's hash stands for its text and artifacts.
func equalSteps(a, b *State) bool {
	return a.Role == b.Role && a.Content == b.Content && bytes.Equal(a.Meta, b.Meta)
}
