package flow

import (
	"fmt"
	"strings"
	"time"
)

// fork is the fork that a plan of role stands for.
func (p *Plan) fork(role string) Fork {
	f := Fork{Node: role, Plan: p, Branching: Branching{Strategy: Parallel, Join: JoinRole}}
	for _, a := range p.Actions {
		f.Paths = append(f.Paths, BranchPath{ID: a.ID, Child: a.ID})
		f.Rule.PathIDs = append(f.Rule.PathIDs, a.ID)
	}
	f.Rule.Strategy, f.Rule.Threshold, f.Rule.Main, f.Rule.Losers = p.Join.Strategy, p.Join.Threshold, p.Join.Main, p.Join.Losers
	f.Rule.Timeout = seconds(p.Join.Timeout)
	return f
}

// seconds is not for ever for what no duration holds, but very long.
func seconds(s float64) Duration {
	if s >= time.Duration(maxDuration).Seconds() {
		return maxDuration
	}
	return max(Duration(s*float64(time.Second)), 0)
}

// index is what a planner is told of the results: a line for each action, never what was said in
// full.
func (p *Plan) index(join *Step) string {
	var b strings.Builder
	status, _ := join.Meta["$status"].(string)
	fmt.Fprintf(&b, "The actions of your plan have ended: %s.\n", status)
	for _, a := range p.Actions {
		r := join.Paths[a.ID]
		fmt.Fprintf(&b, "\n- %s: %s", a.ID, r.Status)
		if r.Text != "" {
			b.WriteString(". " + r.Text)
		}
	}
	return b.String()
}

// Outcome is what the output of an action's agent says in short: its summary, and the evidence that
// it has handed in. It is the text of the action's [PathResult]. The agent's own evidence is cited
// there as others must: by the name of its instance.
func Outcome(instance string, meta map[string]any) string {
	text, _ := meta["summary"].(string)
	text = EachCitation(strings.TrimSpace(text), func(c, id string) string {
		if !strings.Contains(id, ".") {
			return "evidence:" + instance + "." + id
		}
		return c
	})
	var ids []string
	list, _ := meta["evidence"].([]any)
	for _, e := range list {
		entry, _ := e.(map[string]any)
		if own, ok := entry["id"].(string); ok && !strings.Contains(text, "evidence:"+instance+"."+own) {
			ids = append(ids, "evidence:"+instance+"."+own)
		}
	}
	if len(ids) > 0 {
		text = strings.TrimSpace(text + " (" + strings.Join(ids, ", ") + ")")
	}
	return text
}

// After a step of a plan role: its row of the table when there is one, else what comes next.
func (d *Definition) planned(r *row, step, join *Step, inputs []string) Decision {
	switch r.status {
	case Finished:
		finish, _ := step.Meta["finish"].(map[string]any)
		r.vars["summary"], r.vars["report"] = "", ""
		for _, k := range []string{"summary", "report"} {
			if text, ok := finish[k].(string); ok {
				r.vars[k] = text
			}
		}
		r.vars["paths"] = map[string]any{}
		return nil
	case Asked:
		if len(inputs) > 0 {
			return d.toRole(step.Role, joined("A person answers:", inputs...), "")
		}
		ask, _ := step.Meta["ask"].(map[string]any)
		question, _ := ask["question"].(string)
		return Gate{Node: step.Role, Kind: GateInput, Question: question, Input: true}
	case Planned:
	default:
		return stuck("the step of %s is no plan: its $status is %q", step.Role, r.status)
	}
	p, err := d.RecordedPlan(step.Meta)
	switch {
	case err != nil:
		return stuck("the plan of %s: %v", step.Role, err)
	case join == nil && len(inputs) > 0: // a person says more about a plan that was not begun
		return d.toRole(step.Role, joined("A person says of your plan:", inputs...), "")
	case join == nil:
		return p.fork(step.Role)
	}
	joinedStep := variables(r.at, *join)
	outcome, _ := join.Meta["$status"].(string)
	switch {
	case outcome == Joined && p.Then == thenEnd:
		r.status, r.vars = Finished, joinedStep
		r.vars["summary"], r.vars["report"] = p.SessionGoal, join.Body
		return nil
	case outcome == Joined || p.Replans():
		return d.toRole(step.Role, joined(p.index(join)+"\n\nPlan again, finish, or ask.", inputs...), "")
	}
	return stuck("the join of the plan of %s: %s", step.Role, outcome)
}

// Replans tells whether the role plans again when the join of its plan is not met.
func (p *Plan) Replans() bool { return p.OnFailed == failPlan }

// Continues tells whether the flow has a way on when the join of f comes to an outcome.
func (d *Definition) Continues(f Fork, outcome string) bool {
	if f.Plan != nil {
		return outcome == Joined || f.Plan.Replans()
	}
	_, ok := d.Graph[f.Join][outcome]
	return ok
}
