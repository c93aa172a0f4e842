package thread

import (
	"context"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/dag"
)

// telling is what a Reader remembers of prompts, for the next ones: nearly all that a prompt tells
// was told in the one before it in the thread. It is forgotten all at once.
type telling struct {
	said  map[dag.Hash]*rendition // by step
	heard int                     // bytes of said
	past  map[dag.Hash][]told     // by head: the steps before, and it, the oldest first
	steps int                     // of past
	times int                     // it was forgotten
}

// Bounds of what is remembered.
const (
	maxHeard = 16 << 20 // bytes of renditions
	maxPast  = 16 << 10 // steps
	maxTold  = 1 << 10  // steps of one thread
)

// A told is a step, and what was told of it, if that is always the same.
type told struct {
	Step
	said *rendition
}

// forget is called with r.mu held.
func (r *Reader) forget() { r.telling = telling{times: r.times + 1} }

// remembered returns what was told of a step, or nil.
func (r *Reader) remembered(step dag.Hash) *rendition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[step]
}

func (r *Reader) remember(step dag.Hash, said *rendition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := said.fullSize + said.metaSize
	if r.heard+size > maxHeard {
		r.forget()
	}
	if r.said == nil {
		r.said = make(map[dag.Hash]*rendition)
	}
	r.said[step] = said
	r.heard += size
}

// recall is Walk for a prompt. What it yields is remembered for the prompts at head and after the next
// step.
func (r *Reader) recall(ctx context.Context, head dag.Hash) iter.Seq2[*told, error] {
	return func(yield func(*told, error) bool) {
		steps, times := r.takePast(head)
		if steps == nil {
			s, err := r.at(ctx, head)
			if err != nil {
				yield(nil, err)
				return
			}
			if s.State == nil {
				return
			}
			steps, times = r.takePast(s.parent())
			steps = append(steps, told{Step: s})
		}
		from := len(steps)
		var older []told // the newest first
		defer func() {
			steps = steps[from:]
			if len(older) > 0 {
				slices.Reverse(older)
				steps = append(older, steps...)
			}
			r.keepPast(head, steps, times)
		}()
		for from > 0 {
			from--
			if !yield(&steps[from], nil) {
				return
			}
		}
		for s, err := range r.Walk(ctx, steps[0].parent()) {
			if err != nil {
				yield(nil, err)
				return
			}
			one := told{Step: s}
			more := yield(&one, nil)
			older = append(older, one)
			if !more {
				return
			}
		}
	}
}

// takePast returns the steps that are remembered up to a head, which are the caller's from then on, and how
// often all was forgotten.
func (r *Reader) takePast(head dag.Hash) ([]told, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.past[head]
	delete(r.past, head)
	r.telling.steps -= len(steps)
	return steps, r.times
}

// keepPast remembers the steps up to a head, which are the reader's from then on, unless all was
// forgotten since they were taken.
func (r *Reader) keepPast(head dag.Hash, steps []told, times int) {
	steps = steps[max(0, len(steps)-maxTold):]
	r.mu.Lock()
	defer r.mu.Unlock()
	if times != r.times {
		return
	}
	if r.telling.steps+len(steps) > maxPast {
		r.forget()
	}
	if r.past == nil {
		r.past = make(map[dag.Hash][]told)
	}
	r.telling.steps += len(steps) - len(r.past[head])
	r.past[head] = steps
}
