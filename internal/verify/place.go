package verify

import (
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/thread"
)

// A place is where among the forks of its flow a step was done: in the path of a fork that
// was reached at the place outer. The outermost has no path.
//
// A step says the innermost path. The fork that it is of is the one at which the first step
// that says it follows.
type place struct {
	outer *place
	path  string
	plan  dag.Hash // of which the path is a forked action; zero: it is one of the flow
}

// in returns the place in a path of a fork that is reached at p.
func (c *check) in(p *place, path string, plan dag.Hash) *place {
	key := place{p, path, plan}
	if c.places[key] == nil {
		c.places[key] = &key
	}
	return c.places[key]
}

// locate finds the place of each state. It follows from what the state says, and from the
// place of one other: of a join from its fork's, of any other step from its parent's.
func (c *check) locate(states []*object) {
	for _, o := range states {
		var open []*object
		for o != nil && o.problem == nil && o.state != nil && !o.located {
			o.located = true
			open = append(open, o)
			o, _ = c.sound(decidedAt(o.state))
		}
		for _, o := range slices.Backward(open) {
			o.place = c.placeOf(o)
		}
	}
}

// decidedAt returns the node at which it was decided to take a step.
func decidedAt(s *thread.State) dag.Hash {
	if s.Paths != nil {
		return s.Fork
	}
	return before(s)
}

// placeOf returns the place of o, nil when it is not known: the chain is broken, or the step
// is of an older version and its flow forks.
func (c *check) placeOf(o *object) *place {
	s := o.state
	def := c.defs[s.Start]
	from := decidedAt(s)
	if def == nil || from.IsZero() {
		return nil
	}
	outermost := c.in(nil, "", dag.Hash{})
	if !s.Path.Said {
		if p, ok := c.sound(from); ok && p.state != nil && p.state.Path.Said {
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
		if at = p.place; at == nil && !p.state.Path.Said { // it goes on from where an older version was
			return c.placeAfterOlder(def, s.Path.ID, outermost)
		}
	}
	if at == nil || s.Path.ID == at.path {
		return at
	}
	last, ok := c.routed(from, s.Start)
	if !ok || c.planAt(last).unknown() {
		return nil
	}
	if p := c.planAt(last); p != nil && p.fork[s.Path.ID] != nil {
		return c.in(at, s.Path.ID, last.hash)
	}
	return c.in(at, s.Path.ID, dag.Hash{})
}

// placeAfterOlder returns the place of a step whose parent does not say its own.
func (c *check) placeAfterOlder(def *flow.Definition, path string, outermost *place) *place {
	if path == "" {
		return outermost
	}
	if _, _, ok := def.Branch(path); ok {
		return c.in(outermost, path, dag.Hash{})
	}
	return nil // an action: which plan it is of is not said
}

// enters reports whether a step is the first of its path, or belongs to another path than the
// node at which it was decided.
func (c *check) enters(o *object) (from *place, ok bool) {
	at := c.in(nil, "", dag.Hash{})
	if h := decidedAt(o.state); h != o.state.Start {
		p, sound := c.sound(h)
		if !sound || p.state == nil || p.place == nil {
			return nil, false
		}
		at = p.place
	}
	return at, at != o.place
}

// planAt returns the plan of a step, nil when it made none.
func (c *check) planAt(o *object) *planned {
	if o == nil {
		return nil
	}
	return c.plan(o.hash)
}

// routed returns the last routed step at or before h, nil when there is none. Not ok: the
// chain is broken.
func (c *check) routed(h, start dag.Hash) (last *object, ok bool) {
	for h != start {
		o, ok := c.sound(h)
		if !ok || o.state == nil {
			return nil, false
		}
		if thread.Routed(o.state.Role) {
			return o, true
		}
		h = before(o.state)
	}
	return nil, true
}

func statusOf(s *thread.State) string {
	var meta struct {
		Status any `json:"$status"`
	}
	if json.Unmarshal(s.Meta, &meta) != nil {
		return ""
	}
	status, _ := meta.Status.(string)
	return status
}
