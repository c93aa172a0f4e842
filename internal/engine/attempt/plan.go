package attempt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// planText returns the text of the step for a plan: text, unless the plan has a text of its own.
func planText(fields map[string]any, text string) string {
	part := func(of string, names ...string) string {
		m, _ := fields[of].(map[string]any)
		for _, name := range names {
			if s, _ := m[name].(string); strings.TrimSpace(s) != "" {
				return s
			}
		}
		return text
	}
	switch flow.PlanStatus(fields) {
	case flow.Finished:
		return part("finish", "report", "summary")
	case flow.Asked:
		return part("ask", "question")
	}
	return text
}

// validatePlan lists all that is wrong with a plan before any of it starts: violations of its schema, ids,
// agents, inputs and limits. The planner reads the list.
func (e *Runner) validatePlan(ctx context.Context, c *Thread, fields map[string]any, schema error) ([]string, error) {
	var wrong []string
	if schema != nil {
		wrong = strings.Split(schema.Error(), "\n")
	}
	if fields["$status"] != flow.Planned {
		return wrong, nil
	}
	p, more := c.Def.CheckPlan(fields, c.Limits.MaxActions)
	if p != nil {
		others, err := e.planFaults(ctx, c, p)
		if err != nil {
			return nil, err
		}
		more = append(more, others...)
	}
	place := func(line string) string {
		at, _, _ := strings.Cut(line, ": ")
		return at
	}
	for _, line := range more {
		told := slices.ContainsFunc(wrong, func(s string) bool { return place(s) == place(line) })
		if schema == nil || strings.HasPrefix(line, "/") && !told {
			wrong = append(wrong, line)
		}
	}
	if len(wrong) == 0 {
		return nil, nil
	}
	over, err := e.TaskActions(ctx, c.Row.Task, p, c.Limits.MaxTaskActions)
	if err == nil && over != "" {
		wrong = append(wrong, "/actions: "+over)
	}
	return wrong, err
}

// planFaults lists what is wrong with the ids, agents and inputs of a plan.
func (e *Runner) planFaults(ctx context.Context, c *Thread, p *flow.Plan) (wrong []string, err error) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	worker, err := e.cfg.Record.Flow(ctx, c.Row.Bundle, flow.WorkerFlow)
	if err != nil {
		return nil, err
	}
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: c.Row.Task})
	if err != nil {
		return nil, err
	}
	taken := map[string]string{}
	for name := range c.Def.Roles {
		taken[record.Instance(c.Row, c.Def, name)] = name
	}
	around := enclosing(rows, c.Row)
	for i, a := range p.Actions {
		by, clash := taken[a.ID]
		earlier := slices.ContainsFunc(rows, func(t store.Thread) bool {
			return record.Action(t) == a.ID && a.ID != "" && t.Parent != nil && t.Parent.Thread == c.Row.ID
		})
		switch {
		case clash:
			say("/actions/%d/id: an agent of role %s is called %q", i, by, a.ID)
		case around[a.ID]:
			say("/actions/%d/id: %q is the path in which this is planned", i, a.ID)
		case earlier:
			say("/actions/%d/id: %q was an action of an earlier plan; an id is used once", i, a.ID)
		}
		alone := &flow.Plan{Actions: []flow.Action{a}} // ids need not be unique yet
		role := worker.SpawnedAction(alone, a.ID).Roles[a.ID]
		if _, err := e.cfg.Agents.Worker(c.Row, flow.WorkerFlow, role); err != nil {
			say("/actions/%d/agent: %v", i, err)
		}
		for j, in := range a.Inputs {
			if err := e.checkInput(ctx, c, in); err != nil {
				say("/actions/%d/inputs/%d: %v", i, j, err)
			}
		}
	}
	return wrong, nil
}

// TaskActions returns why a plan has more actions than a task may have, or "". If most is 0, there is no limit.
func (e *Runner) TaskActions(ctx context.Context, task string, p *flow.Plan, most int) (string, error) {
	if most <= 0 || p == nil {
		return "", nil
	}
	n, err := e.actionsOf(ctx, task)
	if n += len(p.Actions); err != nil || n <= most {
		return "", err
	}
	return fmt.Sprintf("with this plan the task has %d actions, at most %d are allowed", n, most), nil
}

// actionsOf counts the actions that a task has had so far.
func (e *Runner) actionsOf(ctx context.Context, task string) (n int, err error) {
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: task})
	for _, row := range rows {
		if record.Action(row) != "" && row.Path.N == 1 {
			n++
		}
	}
	return n, err
}

// enclosing returns the ids of the paths around a thread. A step records only the innermost path, so an action
// inside must not reuse any of these ids.
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

// checkInput returns an error if the record does not have an input of an action.
func (e *Runner) checkInput(ctx context.Context, c *Thread, input string) error {
	kind, id, _ := strings.Cut(input, ":")
	if kind != "artifact" {
		proved, err := e.evidence.Index(ctx, c.Row.Task)
		if err == nil && !proved.Has(id) {
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
