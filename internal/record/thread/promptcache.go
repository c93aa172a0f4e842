package thread

import (
	"context"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
)

// promptCache caches what prompts are made of: nearly everything in a prompt was in the previous
// prompt of its thread. It is dropped as a whole when full.
type promptCache struct {
	renditions     map[dag.Hash]*rendition   // by step
	renditionBytes int                       // bytes of renditions
	chains         map[dag.Hash][]cachedStep // by head: the steps up to it, oldest first
	chainSteps     int                       // in chains
	resets         int                       // how often it was dropped
}

// Limits of the cache.
const (
	maxRenditionBytes = 16 << 20 // bytes of renditions
	maxCachedSteps    = 16 << 10 // steps
	maxChainSteps     = 1 << 10  // steps of one thread
)

// A cachedStep is a step, and its rendition if that is always the same.
type cachedStep struct {
	Step
	rendition *rendition
}

// dropPromptCache drops the cache. It is called with r.mu held.
func (r *Reader) dropPromptCache() { r.promptCache = promptCache{resets: r.resets + 1} }

// cachedRendition returns the cached rendition of a step, or nil.
func (r *Reader) cachedRendition(step dag.Hash) *rendition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renditions[step]
}

func (r *Reader) cacheRendition(step dag.Hash, said *rendition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := said.fullSize + said.metaSize
	if said.brief != nil {
		size += said.brief.fullSize + said.alone.fullSize
	}
	if r.renditionBytes+size > maxRenditionBytes {
		r.dropPromptCache()
	}
	if r.renditions == nil {
		r.renditions = make(map[dag.Hash]*rendition)
	}
	r.renditions[step] = said
	r.renditionBytes += size
}

// walkCached is like Walk, for a prompt. It caches what it yields, for prompts at head and at the
// step after it.
func (r *Reader) walkCached(ctx context.Context, head dag.Hash) iter.Seq2[*cachedStep, error] {
	return func(yield func(*cachedStep, error) bool) {
		steps, times := r.takeChain(head)
		if steps == nil {
			s, err := r.at(ctx, head)
			if err != nil {
				yield(nil, err)
				return
			}
			if s.State == nil {
				return
			}
			steps, times = r.takeChain(s.parent())
			steps = append(steps, cachedStep{Step: s})
		}
		from := len(steps)
		var older []cachedStep // newest first
		defer func() {
			steps = steps[from:]
			if len(older) > 0 {
				slices.Reverse(older)
				steps = append(older, steps...)
			}
			r.keepChain(head, steps, times)
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
			one := cachedStep{Step: s}
			more := yield(&one, nil)
			older = append(older, one)
			if !more {
				return
			}
		}
	}
}

// takeChain removes the cached steps up to head and returns them, and how often the cache was
// dropped.
func (r *Reader) takeChain(head dag.Hash) ([]cachedStep, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.chains[head]
	delete(r.chains, head)
	r.promptCache.chainSteps -= len(steps)
	return steps, r.resets
}

// keepChain caches the steps up to head, unless the cache was dropped since they were taken.
func (r *Reader) keepChain(head dag.Hash, steps []cachedStep, times int) {
	steps = steps[max(0, len(steps)-maxChainSteps):]
	r.mu.Lock()
	defer r.mu.Unlock()
	if times != r.resets {
		return
	}
	if r.promptCache.chainSteps+len(steps) > maxCachedSteps {
		r.dropPromptCache()
	}
	if r.chains == nil {
		r.chains = make(map[dag.Hash][]cachedStep)
	}
	r.promptCache.chainSteps += len(steps) - len(r.chains[head])
	r.chains[head] = steps
}
