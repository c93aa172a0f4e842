package flow

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Step is what routing sees of a step: who did it, its meta and its text. The step of a
// join has Paths too.
type Step struct {
	Role  string
	Meta  map[string]any
	Body  string
	Paths map[string]PathResult
}

// A PathResult is what a join's routes see of a path. A cancelled one has a status only.
type PathResult struct {
	Status string
	Meta   map[string]any
	Text   string
}

// At is where a thread stands beside its steps: its flow's name, its own prompt, and, inside a
// fork, the id of its path.
type At struct {
	Flow   string
	Prompt string
	Path   string
}

// A Decision is what comes next: [Run], [Call], [Fork], [AtJoin], [Blocked] or [End].
type Decision interface{ decision() }

// Run says that Role is next. Location is empty when the route names none; when a suspended
// role runs again it is empty too, and the role stays where it was.
type Run struct {
	Role     string
	Prompt   string
	Location string
}

// Call says that Role is next and that Flow does its work, in a child thread.
type Call struct {
	Role     string
	Flow     string
	Prompt   string
	Location string
}

// Fork says that the paths of the fork Node are next. While a thread's last step leads to a
// fork, Next says so, until the step of the join follows.
type Fork struct {
	Node string
	Branching
}

// AtJoin says that a path has come to its join.
type AtJoin struct{ Join string }

// Kinds of [Blocked].
const (
	BlockedInput = "input" // a role suspended itself and waits for a person
	BlockedRoute = "route" // the table has no way on; Reason says why
)

// Blocked says that nothing goes on without a person.
type Blocked struct {
	Reason string
	Kind   string
}

// End says that the thread is over.
type End struct {
	Code    int
	Summary string
}

func (Run) decision()     {}
func (Call) decision()    {}
func (Fork) decision()    {}
func (AtJoin) decision()  {}
func (Blocked) decision() {}
func (End) decision()     {}

// Next decides what follows. last is the last routed step and the reserved ones after it, of
// which only [InputRole] counts; without a routed step, last is empty or holds inputs only.
// The caller keeps d, last and what they hold unchanged meanwhile; Next changes nothing.
func Next(d *Definition, at At, last []Step) Decision {
	var step *Step
	var inputs []string
	for i := range last {
		switch s := &last[i]; {
		case s.Role == InputRole:
			inputs = append(inputs, s.Body)
		case !isReserved(s.Role):
			step, inputs = s, nil
		}
	}
	if step == nil {
		return start(d, at, "new", inputs)
	}
	status, _ := step.Meta["$status"].(string)
	switch {
	case status == "":
		return stuck("the step of %s has no $status", step.Role)
	case status == Suspend && len(inputs) > 0:
		return d.toRole(step.Role, strings.Join(inputs, "\n\n"), "")
	case status == Suspend:
		reason, _ := step.Meta["reason"].(string)
		return Blocked{Reason: reason, Kind: BlockedInput}
	}
	route, ok := d.Graph[step.Role][status]
	if !ok {
		return stuck("graph.%s has no route for status %q", step.Role, status)
	}
	if route.Role == EndNode && len(inputs) > 0 && at.Path == "" {
		return proceed(d, at, inputs)
	}
	where := fmt.Sprintf("graph.%s.%s", step.Role, status)
	return follow(d, at, where, route, variables(at, *step, status), inputs, true)
}

// proceed goes on past an end: the added text takes the place of the thread's prompt.
func proceed(d *Definition, at At, inputs []string) Decision {
	key := "resume"
	if _, ok := d.Graph[Start][key]; !ok {
		key = "new"
	}
	at.Prompt = strings.Join(inputs, "\n\n")
	return start(d, at, key, nil)
}

func start(d *Definition, at At, key string, inputs []string) Decision {
	route, ok := d.Graph[Start][key]
	if !ok {
		return stuck("graph.$START has no route %q", key)
	}
	return follow(d, at, "graph.$START."+key, route, map[string]any{"prompt": at.Prompt}, inputs, false)
}

func follow(d *Definition, at At, where string, route Route, vars map[string]any, inputs []string, strict bool) Decision {
	prompt, err := d.render(route.Prompt, vars, strict)
	if err != nil {
		return stuck("%s.prompt: %v", where, err)
	}
	if route.Role == EndNode {
		if at.Path != "" {
			return stuck("%s leads out of path %s to the end", where, at.Path)
		}
		if strings.TrimSpace(prompt) == "" {
			body, _ := vars["_body"].(string)
			prompt = firstLine(body)
		}
		return End{Code: route.Code, Summary: prompt}
	}
	if j, ok := d.Joins[route.Role]; ok {
		if !slices.Contains(j.PathIDs, at.Path) {
			return stuck("%s leads to the join %s from outside its paths", where, route.Role)
		}
		return AtJoin{Join: route.Role}
	}
	role := route.Role
	if fork, ok := d.Forks[role]; ok {
		i := slices.IndexFunc(fork.Paths, func(p BranchPath) bool { return p.ID == at.Path })
		if i < 0 {
			return Fork{Node: role, Branching: fork}
		}
		own, err := d.render(fork.Paths[i].Prompt, vars, strict)
		if err != nil {
			return stuck("fork %s: the prompt of path %s: %v", role, at.Path, err)
		}
		role, prompt = fork.Paths[i].Child, firstOf(own, prompt, at.Prompt)
	}
	if _, ok := d.Roles[role]; !ok {
		return stuck("%s leads to the unknown role %q", where, role)
	}
	location, err := d.render(route.Location, vars, strict)
	if err != nil {
		return stuck("%s.location: %v", where, err)
	}
	if len(inputs) > 0 {
		parts := inputs
		if p := strings.TrimRight(prompt, "\n"); strings.TrimSpace(p) != "" {
			parts = append([]string{p}, inputs...)
		}
		prompt = strings.Join(parts, "\n\n")
	}
	if strings.TrimSpace(prompt) == "" {
		return stuck("%s.prompt is empty when rendered", where)
	}
	// A template fills in what an agent said: it must not lead out of the tree.
	if location = strings.TrimSpace(location); location != "" && !filepath.IsLocal(filepath.FromSlash(location)) {
		return stuck("%s.location: %q leads out of the working tree", where, location)
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

// firstOf returns the first text that says something.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}

func stuck(format string, args ...any) Blocked {
	return Blocked{Reason: fmt.Sprintf(format, args...), Kind: BlockedRoute}
}

// variables are a template's: a role's own fields win over the names the flow adds, except
// _body, which no schema may use.
func variables(at At, step Step, status string) map[string]any {
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
			paths[id] = map[string]any{"status": p.Status, "meta": meta, "text": p.Text}
		}
		vars["paths"] = paths
		if vars["decidedBy"] == nil {
			vars["decidedBy"] = "" // no one path decided: a template can say so
		}
	}
	return vars
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

func isReserved(role string) bool {
	return len(role) > 4 && strings.HasPrefix(role, "__") && strings.HasSuffix(role, "__")
}
