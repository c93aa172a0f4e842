package verify

import (
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// A branchPosition says where among the forks of its flow a step was done: in a path of
// a fork that was reached at the position outer. The outermost position has no path.
//
// A state records the id of its innermost path only. Which fork that path belongs to
// follows from the chain: the first step in a path follows its fork. Positions are
// interned, so they can be compared by pointer.
type branchPosition struct {
	outer *branchPosition
	path  string
	plan  dag.Hash // the plan whose forked action the path is; zero: the path is in the flow
}

// position returns the position in a path of a fork that was reached at outer.
func (c *check) position(outer *branchPosition, path string, plan dag.Hash) *branchPosition {
	key := branchPosition{outer, path, plan}
	if c.positions[key] == nil {
		c.positions[key] = &key
	}
	return c.positions[key]
}

// locateAll finds the position of each state. A position follows from the state and from
// one other position: for a join, that of its fork; for any other step, that of its
// parent. So the walk back stops at the first located state, and the states on the way
// are located from there, oldest first.
func (c *check) locateAll(states []*object) {
	for _, o := range states {
		var open []*object
		for o != nil && o.problem == nil && o.state != nil && !o.chain.located {
			o.chain.located = true
			open = append(open, o)
			o, _ = c.sound(decisionNode(o.state))
		}
		for _, o := range slices.Backward(open) {
			o.chain.position = c.positionOf(o)
		}
	}
}

// decisionNode returns the node at which the flow decided to take a step.
func decisionNode(s *thread.State) dag.Hash {
	if s.Paths != nil {
		return s.Fork
	}
	return s.Previous()
}

// positionOf returns the position of o, or nil if it is unknown: the chain is broken, or
// the step is of an older version, which names no path, and its flow forks.
func (c *check) positionOf(o *object) *branchPosition {
	s := o.state
	def := c.defs[s.Start]
	from := decisionNode(s)
	if def == nil || from.IsZero() {
		return nil
	}
	outermost := c.position(nil, "", dag.Hash{})
	if !s.Path.Present {
		if p, ok := c.sound(from); ok && p.state != nil && p.state.Path.Present {
			c.wrong(o.hash, "state of %s: does not say its path, although the step before it does", s.Role)
		}
		if len(def.Forks) == 0 && len(def.Plans()) == 0 {
			return outermost
		}
		c.unchecked++
		return nil
	}
	at := outermost
	if from != s.Start {
		p, ok := c.sound(from)
		if !ok || p.state == nil || p.state.Start != s.Start {
			return nil
		}
		if at = p.chain.position; at == nil && !p.state.Path.Present { // the parent is of an older version
			return c.positionAfterOlder(def, s.Path.ID, outermost)
		}
	}
	if at == nil || s.Path.ID == at.path {
		return at
	}
	last, err := c.lastRouted(from)
	if err != nil {
		return nil
	}
	if last.State == nil {
		return c.position(at, s.Path.ID, dag.Hash{})
	}
	switch p := c.plan(last.Hash); {
	case p.unknown():
		return nil
	case p != nil && p.fork[s.Path.ID] != nil:
		return c.position(at, s.Path.ID, last.Hash)
	}
	return c.position(at, s.Path.ID, dag.Hash{})
}

// positionAfterOlder returns the position of a step whose parent is of an older version and
// names no path.
func (c *check) positionAfterOlder(def *flow.Definition, path string, outermost *branchPosition) *branchPosition {
	if path == "" {
		return outermost
	}
	if _, _, ok := def.Branch(path); ok {
		return c.position(outermost, path, dag.Hash{})
	}
	return nil // an action of an unknown plan
}

// enters reports whether o is in another position than the node at which it was decided,
// as the first step of a path is, and returns the position of that node.
func (c *check) enters(o *object) (from *branchPosition, ok bool) {
	at := c.position(nil, "", dag.Hash{})
	if h := decisionNode(o.state); h != o.state.Start {
		p, sound := c.sound(h)
		if !sound || p.state == nil || p.chain.position == nil {
			return nil, false
		}
		at = p.chain.position
	}
	return at, at != o.chain.position
}
