package verify

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A planned is the plan of a step: its actions, and what each of them goes by.
type planned struct {
	plan  *flow.Plan
	role  string                      // that planned
	spawn map[string]*flow.Definition // by action
	fork  map[string]*flow.Definition
}

// plan reads the plan of the step at h, once; nil when it made none. Only what is not
// concurrent may call it; others look into c.plans.
func (c *check) plan(h dag.Hash) *planned {
	if p, ok := c.plans[h]; ok {
		return p
	}
	c.plans[h] = nil
	o, ok := c.sound(h)
	if !ok || o.state == nil {
		return nil
	}
	def := c.defs[o.state.Start]
	if def == nil || !def.Roles[o.state.Role].Plan || statusOf(o.state) != flow.Planned {
		return nil
	}
	var meta map[string]any
	if json.Unmarshal(o.state.Meta, &meta) != nil {
		return nil
	}
	plan, err := def.ReadPlan(meta, 0)
	if err != nil {
		c.wrong(h, "state of %s: its plan: %v", o.state.Role, err)
		return nil
	}
	start, ok := c.sound(o.state.Start)
	if !ok {
		return nil
	}
	bundle, ok := c.sound(start.start.Hash)
	if !ok || bundle.flow == nil {
		return nil
	}
	worker, err := bundle.definition(flow.WorkerFlow)
	if err != nil {
		c.wrong(h, "state of %s: flow %q of its bundle %v", o.state.Role, flow.WorkerFlow, err)
		return nil
	}
	p := &planned{plan: plan, role: o.state.Role, spawn: map[string]*flow.Definition{}, fork: map[string]*flow.Definition{}}
	for _, a := range plan.Actions {
		if a.Mode == flow.Forked {
			p.fork[a.ID] = def.Acting(worker, plan, a.ID)
		} else {
			p.spawn[a.ID] = worker.Spawned(plan, a.ID)
		}
	}
	c.plans[h] = p
	return p
}

// briefs finds, for each start that an action was spawned with, what it goes by.
func (c *check) briefs(ctx context.Context, starts []*object) error {
	for _, o := range starts {
		if o.start.Name != flow.WorkerFlow || o.start.ParentState.IsZero() {
			continue
		}
		p := c.plan(o.start.ParentState)
		if p == nil {
			continue // a flow may call the worker's too
		}
		brief, ok, err := c.text(ctx, o.start.Prompt)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		found := false
		for id, def := range p.spawn {
			if p.plan.Brief(id) == brief {
				c.defs[o.hash], found = def, true
			}
		}
		if !found {
			c.wrong(o.hash, "start: its prompt is that of no action that the plan %s spawns", o.start.ParentState)
		}
	}
	return nil
}

// goes returns what a step at a place of the thread with that start goes by.
func (c *check) goes(start dag.Hash, at *place) *flow.Definition {
	if at != nil && !at.plan.IsZero() {
		return c.plans[at.plan].fork[at.path]
	}
	return c.defs[start]
}

// goesAt returns what the step h goes by, in the first of its places.
func (c *check) goesAt(h, start dag.Hash) *flow.Definition {
	if o, ok := c.sound(h); ok && len(o.places) > 0 {
		return c.goes(start, o.places[0])
	}
	return c.defs[start]
}

// spawned holds an action that has a thread of its own against the plan.
func (j *joint) spawnedBy(p thread.PathHead) {
	head, ok := j.sound(p.Head)
	if !ok {
		return
	}
	start := head
	if head.state != nil {
		if start, ok = j.sound(head.state.Start); !ok {
			return
		}
	}
	switch {
	case start.start == nil || start.start.ParentState != j.Fork || start.start.Name != flow.WorkerFlow:
		j.say("action %s at %s was not spawned by its plan", p.ID, p.Head)
		return
	case j.defs[start.hash] == nil || j.defs[start.hash].Acts() != p.ID:
		j.say("action %s at %s is another action's thread", p.ID, p.Head)
		return
	case head.state == nil || head.state.Role != thread.RoleEnd:
		j.say("action %s at %s has no end", p.ID, p.Head)
		return
	}
	if end, ok := endOf(head.state); ok && thread.EndStatus(end.Code) != p.Status {
		j.say("action %s is %s, its thread ended with %d", p.ID, p.Status, end.Code)
	}
}

// acted holds the row of an action against its plan, and returns where in its thread it
// is: in the path of the action, when it was forked.
func (k *kin) acted(t store.Thread) (own string, ok bool) {
	p := k.plan(t.Path.Fork)
	if p == nil {
		k.say(t, "its row says that it is an action of a plan at %s, which is none", t.Path.Fork)
		return "", false
	}
	a, known := p.plan.Action(t.Path.ID)
	switch {
	case !known:
		k.say(t, "the plan at %s has no action %q", t.Path.Fork, t.Path.ID)
		return "", false
	case t.Kind == store.KindWorker && a.Mode == flow.Forked, t.Kind == store.KindPath && a.Mode != flow.Forked:
		k.say(t, "it is a %s, and the mode of action %s is %s", t.Kind, a.ID, a.Mode)
		return "", false
	case t.Kind == store.KindWorker:
		return "", true
	}
	return t.Path.ID, true
}
