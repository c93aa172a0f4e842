package flow

import (
	"fmt"
	"strings"
	"time"
)

// fork returns the plan of role as a fork: a path for each action.
func (p *Plan) fork(role string) Fork {
	f := Fork{Node: role, Plan: p, ForkSpec: ForkSpec{Strategy: Parallel, Join: JoinRole}}
	for _, a := range p.Actions {
		f.Paths = append(f.Paths, BranchPath{ID: a.ID, Child: a.ID})
		f.Rule.PathIDs = append(f.Rule.PathIDs, a.ID)
	}
	f.Rule.Strategy, f.Rule.Threshold, f.Rule.Main, f.Rule.Losers = p.Join.Strategy, p.Join.Threshold, p.Join.Main,
		p.Join.Losers
	f.Rule.Files = p.Join.Files
	f.Rule.Timeout = toDuration(p.Join.Timeout)
	return f
}

// toDuration converts s seconds, at most maxDuration: a huge value must not become 0, "no limit".
func toDuration(s float64) Duration {
	if s >= time.Duration(maxDuration).Seconds() {
		return maxDuration
	}
	return max(Duration(s*float64(time.Second)), 0)
}

// Outcome returns a short form of an action's output: its summary, and the evidence that it
// submitted. It is the text of the action's [PathResult]. Citations of the agent's own evidence
// are qualified with its instance, so that other agents can use them.
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

// afterPlan decides what follows the step of a plan role. It returns nil if the step's row of the
// graph decides; r then has the variables for it.
func (d *Definition) afterPlan(r *row, step, join *Step, inputs []string) Decision {
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
			return d.toRole(step.Role, joinParagraphs("A person answers:", inputs...), "")
		}
		ask, _ := step.Meta["ask"].(map[string]any)
		question, _ := ask["question"].(string)
		return Gate{Node: step.Role, Kind: GateInput, Question: question, Input: true}
	case Planned:
	default:
		return noRoute("the step of %s is no plan: its $status is %q", step.Role, r.status)
	}
	p, err := d.RecordedPlan(step.Meta)
	switch {
	case err != nil:
		return noRoute("the plan of %s: %v", step.Role, err)
	case join == nil && len(inputs) > 0: // a person comments on a plan that was not started
		return d.toRole(step.Role, joinParagraphs("A person says of your plan:", inputs...), "")
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
		ended := fmt.Sprintf("The actions of your plan have ended: %s. Plan again, finish, or ask.", outcome)
		return d.toRole(step.Role, joinParagraphs(ended, inputs...), "")
	}
	return noRoute("the join of the plan of %s: %s", step.Role, outcome)
}

// Replans reports whether the role plans again if the join of its plan is not met.
func (p *Plan) Replans() bool { return p.OnFailed == failPlan }

// Continues reports whether the flow continues after the join of f with an outcome.
func (d *Definition) Continues(f Fork, outcome string) bool {
	if f.Plan != nil {
		return outcome == Joined || f.Plan.Replans()
	}
	_, ok := d.Graph[f.Join][outcome]
	return ok
}
