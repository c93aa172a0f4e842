package verify

import (
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/thread"
)

// A place is where among the forks of its flow a step was done: in the path of a
// fork that was come to at the place outer. The outermost has no path.
//
// A chain does not say it. But it follows from the flow: paths begin after a step
// that leads to a fork, with a role that is theirs, and are left by joins. Where
// two paths of a fork begin with one role, a step has several places that it may
// have been done in.
type place struct {
	outer *place
	path  string
	plan  dag.Hash // of which the path is a forked action; zero: it is one of the flow
}

// maxPlaces bounds the places that a step may have been done in; where there are
// more, nothing is said of it.
const maxPlaces = 64

// in returns the place in a path of a fork that is come to at p.
func (c *check) in(p *place, path string, plan dag.Hash) *place {
	key := place{p, path, plan}
	if c.places[key] == nil {
		c.places[key] = &key
	}
	return c.places[key]
}

// locate finds the places of states. Each follows from that of one other: of a
// join from its fork's, of any other step from its parent's.
func (c *check) locate(states []*object) {
	outermost := []*place{c.in(nil, "", dag.Hash{})}
	for _, o := range states {
		var open []*object
		for o != nil && o.problem == nil && o.state != nil && !o.located {
			o.located = true
			open = append(open, o)
			o, _ = c.sound(comeFrom(o.state))
		}
		for _, o := range slices.Backward(open) {
			o.places = c.placesOf(o, outermost)
		}
	}
}

// comeFrom returns the node at which it was decided to take a step.
func comeFrom(s *thread.State) dag.Hash {
	if s.Paths != nil {
		return s.Fork
	}
	return before(s)
}

// placesOf returns the places that o may have been done in: none when the flow
// has none for it, nil when they cannot be known.
func (c *check) placesOf(o *object, outermost []*place) []*place {
	s := o.state
	def := c.defs[s.Start]
	from := comeFrom(s)
	if def == nil || from.IsZero() {
		return nil
	}
	at := outermost
	if from != s.Start {
		p, ok := c.sound(from)
		if !ok || p.state == nil || p.state.Start != s.Start || len(p.places) == 0 {
			return nil
		}
		at = p.places
	}
	if s.Paths != nil || len(def.Forks) == 0 && len(def.Plans()) == 0 {
		return at
	}
	last, inputs, ok := c.routed(from, s.Start)
	if !ok || last != nil && (c.plan(last.hash).unknown() || last.state.Role == thread.RoleJoin && c.plan(last.state.Fork).unknown()) {
		return nil
	}
	next, same := []*place{}, true
	for _, p := range at {
		if plan := c.planAt(last); plan != nil && p.plan != last.hash {
			if same = false; thread.Reserved(s.Role) {
				next = append(next, p)
			}
			for _, a := range plan.plan.Actions {
				if a.Mode == flow.Forked && (a.ID == s.Role || thread.Reserved(s.Role)) {
					next = append(next, c.in(p, a.ID, last.hash))
				}
			}
			if def.Roles[s.Role].Plan { // it planned anew, as a person asked it to
				next = append(next, p)
			}
			continue
		} else if plan != nil && p.path != s.Role && !thread.Reserved(s.Role) {
			same = false
			continue
		}
		fork, forks := def.Forks[c.leadsTo(def, p, last, inputs)]
		if !forks || slices.ContainsFunc(fork.Paths, func(b flow.BranchPath) bool { return b.ID == p.path }) {
			next = append(next, p)
			continue
		}
		same = false
		added := thread.Reserved(s.Role) // nobody's role: before the fork, or first in any path
		if added {
			next = append(next, p)
		}
		for _, b := range fork.Paths {
			if added || b.Child == s.Role {
				next = append(next, c.in(p, b.ID, dag.Hash{}))
			}
		}
	}
	switch {
	case same:
		return at
	case len(next) > maxPlaces:
		return nil
	}
	return next
}

// planAt returns the plan of a step, nil when it made none.
func (c *check) planAt(o *object) *planned {
	if o == nil {
		return nil
	}
	return c.plan(o.hash)
}

// routed returns the last routed step at or before h, nil when there is none, and
// whether people added something since. Not ok: the chain is broken.
func (c *check) routed(h, start dag.Hash) (last *object, inputs, ok bool) {
	for h != start {
		o, ok := c.sound(h)
		if !ok || o.state == nil {
			return nil, false, false
		}
		if !thread.Reserved(o.state.Role) {
			return o, inputs, true
		}
		inputs = inputs || o.state.Role == thread.RoleInput
		h = before(o.state)
	}
	return nil, inputs, true
}

// leadsTo returns the node that the flow leads to after last, "" when it leads
// nowhere. It is what [flow.Next] looks up first.
func (c *check) leadsTo(def *flow.Definition, p *place, last *object, inputs bool) string {
	begin := func(key string) string {
		if _, ok := def.Graph[flow.Start][key]; !ok {
			key = "new"
		}
		return def.Graph[flow.Start][key].Role
	}
	if last == nil {
		return begin("new")
	}
	node, status := last.state.Role, statusOf(last.state)
	if node == thread.RoleJoin {
		plan := c.plan(last.state.Fork)
		if plan == nil || status != flow.Joined || !plan.plan.Ends() {
			return "" // its planner is next
		}
		node, status = plan.role, flow.Finished
	}
	to := def.Graph[node][status].Role
	if to == flow.EndNode && inputs && p.path == "" {
		return begin("resume")
	}
	return to
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
