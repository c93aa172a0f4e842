package attempt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// Forked reports whether an action inherits the conversation.
func Forked(p *flow.Plan, id string) bool {
	a, _ := p.Action(id)
	return a.Mode == flow.Forked
}

// planStatus returns the $status of what a plan role handed back, and the text of its step.
func planStatus(fields map[string]any, text string) (status, said string) {
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

// validatePlan checks all of a plan before any of it starts: ids, agents, inputs and limits. A
// *agent.Failure says what the planner has to do better.
func (e *Runner) validatePlan(ctx context.Context, c *Thread, fields map[string]any) error {
	if fields["$status"] != flow.Planned {
		return nil
	}
	bad := func(format string, args ...any) error {
		return &agent.Failure{Kind: agent.InvalidOutput, Message: fmt.Sprintf(format, args...)}
	}
	p, err := c.Def.ReadPlan(fields, c.Limits.MaxActions)
	if err != nil {
		return bad("%v", err)
	}
	worker, err := e.cfg.Record.Flow(ctx, c.Row.Bundle, flow.WorkerFlow)
	if err != nil {
		return err
	}
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: c.Row.Task})
	if err != nil {
		return err
	}
	taken := map[string]string{}
	for name := range c.Def.Roles {
		taken[record.Instance(c.Row, c.Def, name)] = name
	}
	around := enclosing(rows, c.Row)
	for i, a := range p.Actions {
		if role, clash := taken[a.ID]; clash {
			return bad("/actions/%d/id: an agent of role %s is called %q", i, role, a.ID)
		}
		if around[a.ID] {
			return bad("/actions/%d/id: %q is the path in which this is planned", i, a.ID)
		}
		if slices.ContainsFunc(rows, func(t store.Thread) bool {
			return record.Action(t) == a.ID && t.Parent != nil && t.Parent.Thread == c.Row.ID
		}) {
			return bad("/actions/%d/id: %q was an action of an earlier plan; an id is used once", i, a.ID)
		}
		role := worker.Spawned(p, a.ID).Roles[a.ID]
		if _, err := e.cfg.Agents.Worker(c.Row, flow.WorkerFlow, role); err != nil {
			return bad("/actions/%d/agent: %v", i, err)
		}
		for j, in := range a.Inputs {
			if err := e.checkInput(ctx, c, in); err != nil {
				return bad("/actions/%d/inputs/%d: %v", i, j, err)
			}
		}
	}
	return nil
}

// enclosing returns the ids of the paths that a thread lies in. A step says the innermost one,
// so an action inside may have none of these ids.
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

// checkInput returns why an input of an action is none.
func (e *Runner) checkInput(ctx context.Context, c *Thread, input string) error {
	kind, id, _ := strings.Cut(input, ":")
	if kind != "artifact" {
		proved, err := e.evidenceOf(ctx, c.Row.Task)
		if err == nil && !proved.has(id) {
			err = fmt.Errorf("there is no evidence %q; its whole id is <instance>.<id>", id)
		}
		return err
	}
	h, err := dag.ParseHash(id)
	if err != nil {
		return err
	}
	if _, err := e.cfg.Record.Nodes().Artifact(ctx, h); err != nil {
		return fmt.Errorf("there is no artifact %s in the record", id)
	}
	return nil
}
