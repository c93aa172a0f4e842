package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/sys/text"
)

// Next decides what follows. last is the last routed step that is not a gate, and the steps after
// it: those of gates, and reserved ones, of which only [InputRole] and [UntilRole] count. Before the
// first such step, last has only steps of gates and inputs, or none. After the join of a plan, last is
// the step that planned, then the step of [JoinRole], then the steps after it. A step of a role that
// goes on until a command succeeds may follow the step in which that failed.
//
// In the thread of an action, d is the result of [Definition.SpawnedAction] or
// [Definition.ForkedAction].
//
// After the step of a gate, the gate's own row of the graph decides. Its templates see the data
// with which the gate was reached, and the gate's answer and status; what a person added before
// the gate's step was part of its question.
//
// Next changes nothing; the caller must not change d, last or their contents during the call.
func Next(d *Definition, at At, last []Step) Decision {
	s := d.sortSteps(last)
	step, passed, inputs := s.step, s.passed, s.inputs
	r := d.startRow(at)
	if step != nil {
		r = row{node: step.Role, at: at, vars: variables(at, *step), strict: true}
		r.status, _ = step.Meta["$status"].(string)
		switch {
		case d.brief != "" && d.Graph[step.Role] == nil: // the step that planned the action
			return d.toRole(at.Path, joinParagraphs(d.brief, inputs...), "")
		case d.Roles[step.Role].Plan && r.status != Suspend:
			if on := d.afterPlan(&r, step, s.join, inputs); on != nil {
				return on
			}
		case d.Roles[step.Role].Until != nil && r.status != Suspend:
			if on := d.untilMet(s); on != nil {
				return on
			}
		}
	}
	for _, p := range passed {
		if d.endsDespiteInput(r, p.inputs) {
			r = d.restart(at, p.inputs)
		}
		r = r.afterGate(p.gate)
	}
	switch {
	case r.status == "":
		return noRoute("the step of %s has no $status", r.node)
	case r.status == Suspend && len(passed) == 0 && len(inputs) > 0:
		return d.toRole(r.node, strings.Join(inputs, "\n\n"), "")
	case r.status == Suspend && len(passed) == 0:
		if d.Roles[r.node].Chat {
			return Blocked{Reason: "your turn", Kind: BlockedInput}
		}
		reason, _ := step.Meta["reason"].(string)
		return Gate{Node: r.node, Kind: GateInput, Question: suspendQuestion(r.node, reason, step.Body), Input: true}
	}
	if d.endsDespiteInput(r, inputs) {
		r, inputs = d.restart(at, inputs), nil
	}
	return followRoute(d, r, inputs)
}

// maxSaid limits how much of a role's output its question repeats, in bytes.
const maxSaid = 4 << 10

// suspendQuestion returns the question of a role that suspended itself: the reason, then the rest
// of its output, unless the output was a single JSON object.
func suspendQuestion(role, reason, body string) string {
	body = strings.TrimSpace(body)
	if body == "" || strings.HasPrefix(body, "{") && json.Valid([]byte(body)) {
		return firstNonBlank(reason, role+" waits for a person, and does not say for what.")
	}
	return joinParagraphs(reason, text.Clip(body, maxSaid))
}

// A row is a row of the graph: the target of a status of a node, and what its templates see.
type row struct {
	node   string
	status string
	at     At // past an end, its Prompt is what the person added
	vars   map[string]any
	strict bool // a missing variable is an error
}

// A gatePassage is the step of an answered gate, and what a person added before it.
type gatePassage struct {
	gate   *Step
	inputs []string
}

// sorted are the last steps of a thread.
type sorted struct {
	step      *Step         // the one that counts, nil at the start
	join      *Step         // of its plan
	ran       *Step         // in which the command ran that its role goes on until, nil: not yet
	ranBefore *Step         // the same, of the step before it
	passed    []gatePassage // the gates after that
	inputs    []string      // what a person added after all of them
}

// sortSteps sorts the last steps.
func (d *Definition) sortSteps(last []Step) (s sorted) {
	var ran *Step
	for i := range last {
		one := &last[i]
		_, gate := d.Gates[one.Role]
		_, until := UntilOf(one.Role)
		switch {
		case one.Role == JoinRole:
			s.join, s.passed, s.inputs = one, nil, nil
		case one.Role == InputRole:
			s.inputs = append(s.inputs, one.Body)
		case until:
			ran, s.ran = one, one
		case gate:
			s.passed, s.inputs = append(s.passed, gatePassage{one, s.inputs}), nil
		case !IsReserved(one.Role):
			s, ran = sorted{step: one, ranBefore: ran}, nil
		}
	}
	return s
}

// startRow returns the row for the start of a thread.
func (d *Definition) startRow(at At) row {
	return row{node: Start, status: "new", at: at, vars: map[string]any{"prompt": at.Prompt}}
}

// endsDespiteInput reports whether row r ends the main line although a person added input. Such
// a thread continues; see restart.
func (d *Definition) endsDespiteInput(r row, inputs []string) bool {
	return len(inputs) > 0 && r.at.Path == "" && r.node != Start && d.Graph[r.node][r.status].Role == EndNode
}

// restart returns the row with which a thread continues past its end: $START's "resume" or "new",
// with the added text instead of the thread's prompt.
func (d *Definition) restart(at At, inputs []string) row {
	at.Prompt = strings.Join(inputs, "\n\n")
	r := d.startRow(at)
	if _, ok := d.Graph[Start]["resume"]; ok {
		r.status = "resume"
	}
	return r
}

// afterGate returns the row of a gate that was reached through r and answered with step.
func (r row) afterGate(step *Step) row {
	vars := maps.Clone(r.vars)
	status, _ := step.Meta["$status"].(string)
	vars["answer"], vars["status"] = step.Body, status
	return row{node: step.Role, status: status, at: r.at, vars: vars, strict: r.strict}
}

// followRoute decides by the route of r. inputs are texts that a person added since; they are
// appended to the prompt or question that the route leads to.
func followRoute(d *Definition, r row, inputs []string) Decision {
	route, ok := d.Graph[r.node][r.status]
	if !ok {
		return noRoute("graph.%s has no route for status %q", r.node, r.status)
	}
	where := fmt.Sprintf("graph.%s.%s", r.node, r.status)
	at, vars, strict := r.at, r.vars, r.strict
	prompt, err := d.render(route.Prompt, vars, strict)
	if err != nil {
		return noRoute("%s.prompt: %v", where, err)
	}
	if route.Role == EndNode {
		if at.Path != "" && d.brief == "" {
			return noRoute("%s leads out of path %s to the end", where, at.Path)
		}
		silent := strings.TrimSpace(prompt) == ""
		if silent {
			body, _ := vars["_body"].(string)
			prompt = firstLine(body)
		}
		return End{Code: route.Code, Summary: prompt, Default: silent}
	}
	if j, ok := d.Joins[route.Role]; ok {
		if !slices.Contains(j.PathIDs, at.Path) {
			return noRoute("%s leads to the join %s from outside its paths", where, route.Role)
		}
		return AtJoin{Join: route.Role}
	}
	if g, ok := d.Gates[route.Role]; ok {
		question, err := d.render(g.Question, vars, strict)
		if err != nil {
			return noRoute("the question of gate %s: %v", route.Role, err)
		}
		if strings.TrimSpace(prompt) != "" {
			question = joinParagraphs(question, prompt)
		}
		question = joinParagraphs(question, inputs...)
		if strings.TrimSpace(question) == "" {
			return noRoute("the question of gate %s is empty when rendered", route.Role)
		}
		return Gate{Node: route.Role, Kind: g.Kind, Question: question, Options: g.Options, Timeout: g.Timeout,
			OnTimeout: g.OnTimeout}
	}
	role := route.Role
	if fork, ok := d.Forks[role]; ok {
		i := slices.IndexFunc(fork.Paths, func(p BranchPath) bool { return p.ID == at.Path })
		if i < 0 {
			return Fork{Node: role, ForkSpec: fork, Rule: d.Joins[fork.Join]}
		}
		own, err := d.render(fork.Paths[i].Prompt, vars, strict)
		if err != nil {
			return noRoute("fork %s: the prompt of path %s: %v", role, at.Path, err)
		}
		role, prompt = fork.Paths[i].Child, firstNonBlank(own, prompt, at.Prompt)
	}
	if _, ok := d.Roles[role]; !ok {
		return noRoute("%s leads to the unknown role %q", where, role)
	}
	location, err := d.render(route.Location, vars, strict)
	if err != nil {
		return noRoute("%s.location: %v", where, err)
	}
	prompt = joinParagraphs(prompt, inputs...)
	if strings.TrimSpace(prompt) == "" {
		return noRoute("%s.prompt is empty when rendered", where)
	}
	// The template may contain agents' output, and must not lead out of the tree.
	location = strings.TrimSpace(location)
	if location != "" && !filepath.IsLocal(filepath.FromSlash(location)) {
		return noRoute("%s.location: %q leads out of the working tree", where, location)
	}
	return d.toRole(role, prompt, location)
}

// toRole runs a role, or calls the flow that does its work.
func (d *Definition) toRole(role, prompt, location string) Decision {
	if flow := d.Roles[role].Flow; flow != "" {
		return Call{Role: role, Flow: flow, Prompt: prompt, Location: location}
	}
	return Run{Role: role, Prompt: prompt, Location: location}
}

// firstNonBlank returns the first text that is not blank, or "".
func firstNonBlank(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}

// joinParagraphs appends each of more to text, after an empty line. A blank text is left out.
func joinParagraphs(text string, more ...string) string {
	if len(more) == 0 {
		return text
	}
	text = strings.TrimRight(text, "\n")
	if strings.TrimSpace(text) != "" {
		more = append([]string{text}, more...)
	}
	return strings.Join(more, "\n\n")
}

// noRoute returns the decision for a graph that has no route.
func noRoute(format string, args ...any) Blocked {
	return Blocked{Reason: fmt.Sprintf(format, args...), Kind: BlockedRoute}
}

// variables returns the variables of the templates of a step's routes. A role's own fields
// override the names that the flow adds, except _body, which schemas cannot use.
func variables(at At, step Step) map[string]any {
	status, _ := step.Meta["$status"].(string)
	vars := map[string]any{"prompt": at.Prompt, "status": status}
	for k, v := range step.Meta {
		vars[k] = v
	}
	vars["_body"] = step.Body
	if step.Paths != nil {
		paths := make(map[string]any, len(step.Paths))
		for id, p := range step.Paths {
			meta := p.Meta
			if meta == nil {
				meta = map[string]any{}
			}
			paths[id] = map[string]any{"status": p.Status, "meta": meta, "text": p.Text, "failure": nil}
			if p.Failure != "" {
				paths[id].(map[string]any)["failure"] = p.Failure
			}
		}
		vars["paths"] = paths
		if vars["decidedBy"] == nil {
			vars["decidedBy"] = "" // decided by all paths: templates can still use the name
		}
	}
	return vars
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// Leads reports whether the graph continues from a role with a status: by a row, or because a
// person is asked.
func (d *Definition) Leads(role, status string) bool {
	_, ok := d.Graph[role][status]
	return ok || status == Suspend
}
