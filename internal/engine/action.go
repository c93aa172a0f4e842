package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// phase tells that a thread that plans has come to a state.
func phase(row store.Thread, plans bool, now int64, state string) []store.Event {
	if !plans {
		return nil
	}
	return []store.Event{event.New(row, now, event.ControllerChanged{State: state, Head: row.Head})}
}

// action returns the action that a row carries out, "" when it is none.
func action(row store.Thread) string {
	if row.Path == nil || row.Path.Join != thread.RoleJoin {
		return ""
	}
	return row.Path.ID
}

// acting returns what a thread goes by whose flow is def: that flow, but for one that
// carries out an action.
func (e *Engine) acting(ctx context.Context, row store.Thread, def *flow.Definition) (*flow.Definition, error) {
	id := action(row)
	switch {
	case id != "" && row.Kind == store.KindWorker:
		return e.kept("spawn/"+row.Path.Fork.String()+"/"+id, func() (*flow.Definition, error) {
			plan, _, err := e.plan(ctx, row.Path.Fork)
			if err != nil {
				return nil, err
			}
			return def.Spawned(plan, id), nil
		})
	case id != "":
		return e.kept("fork/"+row.Path.Fork.String()+"/"+id, func() (*flow.Definition, error) {
			plan, _, err := e.plan(ctx, row.Path.Fork)
			if err != nil {
				return nil, err
			}
			worker, err := e.pinned(ctx, row.Bundle, flow.WorkerFlow)
			if err != nil {
				return nil, err
			}
			return def.Acting(worker, plan, id), nil
		})
	case row.Flow != flow.WorkerFlow:
		return def, nil
	}
	// A fork by hand of what an action did: the start tells which one.
	return e.kept("start/"+row.Start.String(), func() (*flow.Definition, error) {
		start, err := e.cfg.Reader.Start(ctx, row.Start)
		if err != nil {
			return nil, err
		}
		id := start.Action.ID
		if !start.Action.Said {
			if id, err = e.actionOfOrigin(ctx, row); err != nil {
				return nil, err
			}
		}
		if id == "" {
			return def, nil
		}
		plan, _, err := e.plan(ctx, start.ParentState)
		if err != nil {
			return nil, err
		}
		return def.Spawned(plan, id), nil
	})
}

// actionOfOrigin returns the action of the thread that row was forked from by hand, and "" when
// it is of none, or was removed. The starts of older versions do not say it.
func (e *Engine) actionOfOrigin(ctx context.Context, row store.Thread) (string, error) {
	for row.ForkedFrom != nil {
		from, err := e.cfg.Store.Thread(ctx, row.ForkedFrom.Thread)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		row = from
	}
	return action(row), nil
}

var errNoPlan = errors.New("no plan")

// planned is a plan that was read, and the definition of the flow that it is of.
type planned struct {
	*flow.Plan
	def *flow.Definition
}

// plan returns the plan of the step at a node, and the definition of the flow that it is
// of. The error matches errNoPlan when the step made none.
func (e *Engine) plan(ctx context.Context, at dag.Hash) (*flow.Plan, *flow.Definition, error) {
	e.mu.Lock()
	known := e.plans[at]
	e.mu.Unlock()
	if known != nil {
		return known.Plan, known.def, nil
	}
	p, def, err := e.readPlan(ctx, at)
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.plans[at] = &planned{p, def}
	}
	return p, def, err
}

func (e *Engine) readPlan(ctx context.Context, at dag.Hash) (*flow.Plan, *flow.Definition, error) {
	s, err := e.cfg.Reader.State(ctx, at)
	if err != nil {
		return nil, nil, errors.Join(errNoPlan, err)
	}
	start, err := e.cfg.Reader.Start(ctx, s.Start)
	if err != nil {
		return nil, nil, err
	}
	def, err := e.pinned(ctx, start.Hash, start.Name)
	if err != nil {
		return nil, nil, err
	}
	var meta map[string]any
	if err := json.Unmarshal(s.Meta, &meta); err != nil || !def.Roles[s.Role].Plan || meta["$status"] != flow.Planned {
		return nil, nil, fmt.Errorf("step %s of %s: %w", at.Short(), s.Role, errNoPlan)
	}
	p, err := def.RecordedPlan(meta)
	return p, def, err
}

// forked tells whether an action inherits the conversation.
func forked(p *flow.Plan, id string) bool {
	a, _ := p.Action(id)
	return a.Mode == flow.Forked
}

// implied returns the $status of what a plan role handed back, and the text of its step.
func implied(fields map[string]any, text string) (status, said string) {
	status = flow.PlanStatus(fields)
	part := func(of string, names ...string) string {
		m, _ := fields[of].(map[string]any)
		for _, name := range names {
			if s, _ := m[name].(string); strings.TrimSpace(s) != "" {
				return s
			}
		}
		return text
	}
	switch status {
	case flow.Finished:
		return status, part("finish", "report", "summary")
	case flow.Asked:
		return status, part("ask", "question")
	}
	return status, text
}

// vet holds a plan against what it may ask for: all of it, before anything starts. A
// *agent.Failure says what the planner has to do better.
func (e *Engine) vet(ctx context.Context, c *cursor, fields map[string]any) error {
	if fields["$status"] != flow.Planned {
		return nil
	}
	bad := func(format string, args ...any) error {
		return &agent.Failure{Kind: agent.InvalidOutput, Message: fmt.Sprintf(format, args...)}
	}
	p, err := c.def.ReadPlan(fields, c.limits.MaxActions)
	if err != nil {
		return bad("%v", err)
	}
	worker, err := e.pinned(ctx, c.row.Bundle, flow.WorkerFlow)
	if err != nil {
		return err
	}
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: c.row.Task})
	if err != nil {
		return err
	}
	taken := map[string]string{}
	for name := range c.def.Roles {
		taken[Instance(c.row, c.def, name)] = name
	}
	around := enclosing(rows, c.row)
	for i, a := range p.Actions {
		if role, clash := taken[a.ID]; clash {
			return bad("/actions/%d/id: an agent of role %s is called %q", i, role, a.ID)
		}
		if around[a.ID] {
			return bad("/actions/%d/id: %q is the path in which this is planned", i, a.ID)
		}
		if slices.ContainsFunc(rows, func(t store.Thread) bool {
			return action(t) == a.ID && t.Parent != nil && t.Parent.Thread == c.row.ID
		}) {
			return bad("/actions/%d/id: %q was an action of an earlier plan; an id is used once", i, a.ID)
		}
		role := worker.Spawned(p, a.ID).Roles[a.ID]
		if _, err := e.cfg.Worker(c.row, flow.WorkerFlow, role); err != nil {
			return bad("/actions/%d/agent: %v", i, err)
		}
		for j, in := range a.Inputs {
			if err := e.known(ctx, c, in); err != nil {
				return bad("/actions/%d/inputs/%d: %v", i, j, err)
			}
		}
	}
	return nil
}

// enclosing returns the ids of the paths that a thread lies in. A step says the innermost one,
// so none of them may be that of an action inside.
func enclosing(rows []store.Thread, row store.Thread) map[string]bool {
	ids := map[string]bool{}
	for {
		if id := thread.PathOf(row); id != "" {
			ids[id] = true
		}
		if row.Kind != store.KindPath {
			return ids
		}
		i := slices.IndexFunc(rows, func(t store.Thread) bool { return t.ID == row.Parent.Thread })
		if i < 0 {
			return ids
		}
		row = rows[i]
	}
}

// known returns why an input of an action is none.
func (e *Engine) known(ctx context.Context, c *cursor, input string) error {
	kind, id, _ := strings.Cut(input, ":")
	if kind != "artifact" {
		proved, err := e.proven(ctx, c.row.Task)
		if err == nil && !proved.has(id) {
			err = fmt.Errorf("there is no evidence %q; its whole id is <instance>.<id>", id)
		}
		return err
	}
	h, err := dag.ParseHash(id)
	if err != nil {
		return err
	}
	if _, err := e.cfg.Reader.Artifact(ctx, h); err != nil {
		return fmt.Errorf("there is no artifact %s in the record", id)
	}
	return nil
}

// beyond returns why the actions of a plan may not begin, or nil.
func (e *Engine) beyond(ctx context.Context, c *cursor, d flow.Fork) (*store.Reason, error) {
	if d.Plan == nil {
		return nil, nil
	}
	if why := c.account.exhausted(e.now()); why != nil {
		return why, nil
	}
	if why := c.account.tooDeep(); why != nil {
		return why, nil
	}
	most := c.limits.MaxTaskActions
	if most <= 0 {
		return nil, nil
	}
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: c.row.Task})
	if err != nil {
		return nil, err
	}
	n := len(d.Plan.Actions)
	for _, row := range rows {
		if action(row) != "" && row.Path.N == 1 {
			n++
		}
	}
	if n > most {
		return &store.Reason{Kind: store.ReasonLimit, Limit: "actions", Message: fmt.Sprintf("with this plan the task has %d actions, at most %d are allowed", n, most)}, nil
	}
	return nil, nil
}

// inPlan reports whether role plans, or carries out an action of a plan. Such an agent begins
// anew after it was cut off.
func (c *cursor) inPlan(role string) bool {
	return c.def.Roles[role].Plan || c.def.Acts() != ""
}

// plans tells whether a step was done by a role that plans.
func (c *cursor) plans(step flow.Step) bool {
	return slices.Contains(c.def.Plans(), step.Role)
}
