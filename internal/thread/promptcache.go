package thread

import (
	"context"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/dag"
)

// telling caches what prompts are made of: nearly everything in a prompt was in the previous
// prompt of its thread. It is dropped as a whole when full.
type telling struct {
	said  map[dag.Hash]*rendition // by step
	heard int                     // bytes of said
	past  map[dag.Hash][]told     // by head: the steps up to it, oldest first
	steps int                     // in past
	times int                     // how often it was dropped
}

// Limits of the cache.
const (
	maxHeard = 16 << 20 // bytes of renditions
	maxPast  = 16 << 10 // steps
	maxTold  = 1 << 10  // steps of one thread
)

// A told is a step, and its rendition if that is always the same.
type told struct {
	Step
	said *rendition
}

// forget drops the cache. It is called with r.mu held.
func (r *Reader) forget() { r.telling = telling{times: r.times + 1} }

// remembered returns the cached rendition of a step, or nil.
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

// recall is Walk for a prompt. It caches what it yields, for prompts at head and at the step
// after it.
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
		var older []told // newest first
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

// takePast removes the cached steps up to head and returns them, with how often the cache was
// dropped.
func (r *Reader) takePast(head dag.Hash) ([]told, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.past[head]
	delete(r.past, head)
	r.telling.steps -= len(steps)
	return steps, r.times
}

// keepPast caches the steps up to head, unless the cache was dropped since they were taken.
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
