// Package prompt assembles what agents are told, and stores it.
//
// An [Assembler] takes a [Draft] and the conversation at a head, and returns the text of the prompt, what it was
// made of, and what else it says the agent can read:
//
//	draft + chain → Assembled ─Keep→ Node: parts, each a text or a range of a content or of the prompt before
//
// Laws:
//
//   - What is included follows from the chain, the draft and its quota alone, never from what is cached.
//   - Text of agents is fenced, so that it cannot pass for text of others.
//   - A prompt is stored in space proportional to what it adds to the one before, and read byte for byte.
//
// The package commits nothing.
package prompt

import (
	"sync"

	"github.com/plait-run/plait/internal/record/thread"
)

// An Assembler assembles prompts, and caches what the next ones have in common with them. Methods may be
// called concurrently.
type Assembler struct {
	nodes *thread.Reader

	mu sync.Mutex
	cache
}

// NewAssembler returns an assembler of prompts from the steps that nodes reads.
func NewAssembler(nodes *thread.Reader) *Assembler { return &Assembler{nodes: nodes} }
