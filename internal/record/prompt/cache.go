package prompt

import (
	"context"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// cache has what prompts are made of: nearly everything in a prompt was in the previous
// prompt of its thread. It is dropped as a whole when full.
type cache struct {
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
	thread.Step
	rendition *rendition
}

// drop drops the cache. It is called with a.mu held.
func (a *Assembler) drop() { a.cache = cache{resets: a.resets + 1} }

// cachedRendition returns the cached rendition of a step, or nil.
func (a *Assembler) cachedRendition(step dag.Hash) *rendition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renditions[step]
}

func (a *Assembler) cacheRendition(step dag.Hash, said *rendition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := said.fullSize + said.metaSize
	if said.brief != nil {
		size += said.brief.fullSize + said.alone.fullSize
	}
	if a.renditionBytes+size > maxRenditionBytes {
		a.drop()
	}
	if a.renditions == nil {
		a.renditions = make(map[dag.Hash]*rendition)
	}
	a.renditions[step] = said
	a.renditionBytes += size
}

// walkCached is like [thread.Reader.Walk], for a prompt. It caches what it yields, for prompts at head and at the
// step after it.
func (a *Assembler) walkCached(ctx context.Context, head dag.Hash) iter.Seq2[*cachedStep, error] {
	return func(yield func(*cachedStep, error) bool) {
		steps, times := a.takeChain(head)
		if steps == nil {
			s, err := a.nodes.At(ctx, head)
			if err != nil {
				yield(nil, err)
				return
			}
			if s.State == nil {
				return
			}
			steps, times = a.takeChain(s.Parent())
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
			a.keepChain(head, steps, times)
		}()
		for from > 0 {
			from--
			if !yield(&steps[from], nil) {
				return
			}
		}
		for s, err := range a.nodes.Walk(ctx, steps[0].Parent()) {
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
func (a *Assembler) takeChain(head dag.Hash) ([]cachedStep, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	steps := a.chains[head]
	delete(a.chains, head)
	a.chainSteps -= len(steps)
	return steps, a.resets
}

// keepChain caches the steps up to head, unless the cache was dropped since they were taken.
func (a *Assembler) keepChain(head dag.Hash, steps []cachedStep, times int) {
	steps = steps[max(0, len(steps)-maxChainSteps):]
	a.mu.Lock()
	defer a.mu.Unlock()
	if times != a.resets {
		return
	}
	if a.chainSteps+len(steps) > maxCachedSteps {
		a.drop()
	}
	if a.chains == nil {
		a.chains = make(map[dag.Hash][]cachedStep)
	}
	a.chainSteps += len(steps) - len(a.chains[head])
	a.chains[head] = steps
}
