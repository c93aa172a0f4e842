package verify

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A stepPlan is the plan that a step made, and the definition that each action runs.
type stepPlan struct {
	plan  *flow.Plan // nil: unknown, because something is missing or wrong
	flow  string
	role  string // the role that planned
	spawn map[string]*flow.Definition
	fork  map[string]*flow.Definition // by action
}

// unknown reports whether a step may have made a plan that cannot be read.
func (p *stepPlan) unknown() bool { return p != nil && p.plan == nil }

// plan returns the plan of the step at h, nil if it made none. It fills c.plans, so it
// must not be called concurrently; concurrent code reads c.plans.
func (c *check) plan(h dag.Hash) *stepPlan {
	p, ok := c.plans[h]
	if !ok {
		p = c.readPlan(h)
		c.plans[h] = p
	}
	return p
}

func (c *check) readPlan(h dag.Hash) *stepPlan {
	p := new(stepPlan)
	o, ok := c.sound(h)
	if !ok {
		return p
	}
	if o.state == nil {
		return nil
	}
	def := c.defs[o.state.Start]
	start, ok := c.sound(o.state.Start)
	if !ok || def == nil {
		return p
	}
	p.flow, p.role = start.start.Name, o.state.Role
	var meta map[string]any
	err := json.Unmarshal(o.state.Meta, &meta)
	if err != nil || !def.Roles[p.role].Plan || meta["$status"] != flow.Planned {
		return nil
	}
	wrong := func(format string, args ...any) *stepPlan {
		c.wrong(h, "state of %s: its plan: %s", p.role, fmt.Sprintf(format, args...))
		return p
	}
	if err := def.Validate(p.role, meta); err != nil {
		return wrong("%v", err)
	}
	plan, err := def.ReadPlan(meta, 0)
	if err != nil {
		return wrong("%v", err)
	}
	bundle, ok := c.sound(start.start.Hash)
	if !ok || bundle.bundle == nil {
		return p
	}
	worker, err := bundle.bundle.definition(flow.WorkerFlow)
	if err != nil {
		return wrong("flow %q of its bundle %v", flow.WorkerFlow, err)
	}
	p.plan = plan
	p.spawn, p.fork = map[string]*flow.Definition{}, map[string]*flow.Definition{}
	for _, a := range plan.Actions {
		if a.Mode == flow.Forked {
			p.fork[a.ID] = def.ForkedAction(worker, plan, a.ID)
		} else {
			p.spawn[a.ID] = worker.SpawnedAction(plan, a.ID)
		}
	}
	return p
}

// checkActions compares the starts of spawned actions with their plans, and replaces the definitions that they
// run with those of the actions. An unknown action has no definition, so the routes of its thread are not
// checked.
func (c *check) checkActions(ctx context.Context, starts []*object) error {
	for _, o := range starts {
		id := o.start.Action.ID
		if id == "" && o.start.Action.Present {
			continue
		}
		p := c.plan(o.start.ParentState)
		if p == nil && !o.start.Action.Present {
			continue // a call, from an older version
		}
		delete(c.defs, o.hash)
		switch {
		case p.unknown() || !o.start.Action.Present:
			continue
		case p == nil || p.spawn[id] == nil:
			c.wrong(o.hash, "start: the step %s spawns no action %q", o.start.ParentState, id)
			continue
		case o.start.Name != flow.WorkerFlow:
			c.wrong(o.hash, "start: action %s is begun in flow %s", id, o.start.Name)
			continue
		}
		c.defs[o.hash] = p.spawn[id]
		brief, err := soundNodes{c}.Text(ctx, o.start.Prompt)
		if err := c.fatal(ctx, err); err != nil {
			return err
		}
		if err == nil && brief != p.plan.Brief(id) {
			c.wrong(o.hash, "start: its prompt is not that of action %s", id)
		}
	}
	return nil
}

// definitionAt returns the definition that a step runs at a position of a thread.
func (c *check) definitionAt(start dag.Hash, at *branchPosition) *flow.Definition {
	if at != nil && !at.plan.IsZero() {
		return c.plans[at.plan].fork[at.path]
	}
	return c.defs[start]
}

// checkSpawned compares the thread of a spawned action with the plan and with its end.
func (j *joinCheck) checkSpawned(p thread.PathHead) {
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
	case j.defs[start.hash] != nil && j.defs[start.hash].ActionID() != p.ID:
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

// checkAction compares the row of an action with its plan. It returns the path that the
// steps of its thread are in: a forked action is a path, a spawned one is in none.
func (k *threadIndex) checkAction(t store.Thread) (own string, ok bool) {
	p := k.plan(t.Path.Fork)
	if p.unknown() {
		return "", false
	}
	if p == nil {
		k.wrongRow(t, "its row says that it is an action of a plan at %s, which is not a plan", t.Path.Fork)
		return "", false
	}
	a, known := p.plan.Action(t.Path.ID)
	key := thread.PathKey(store.Thread{Bundle: t.Bundle, Flow: p.flow}, p.role, t.Path.ID)
	switch {
	case !known:
		k.wrongRow(t, "the plan at %s has no action %q", t.Path.Fork, t.Path.ID)
		return "", false
	case t.Kind == store.KindWorker && a.Mode == flow.Forked, t.Kind == store.KindPath && a.Mode != flow.Forked:
		k.wrongRow(t, "it is a %s, and the mode of action %s is %s", t.Kind, a.ID, a.Mode)
		return "", false
	case t.Kind == store.KindWorker && k.defs[t.Start].ActionID() != a.ID:
		k.wrongRow(t, "its row says that it does action %s, its start was made for %q", a.ID, k.defs[t.Start].ActionID())
		return "", false
	case t.Kind != store.KindRoot && t.Path.Key != key:
		k.wrongRow(t, "its row has the path key %q, want %q", t.Path.Key, key)
	}
	if t.Kind == store.KindWorker {
		return "", true
	}
	return t.Path.ID, true
}
