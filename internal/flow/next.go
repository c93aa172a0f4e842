package flow

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A Step is what routing sees of a step: who did it, its meta and its text.
type Step struct {
	Role string
	Meta map[string]any
	Body string
}

// At is where a thread stands beside its steps: its flow's name and its own prompt.
type At struct {
	Flow   string
	Prompt string
}

// A Decision is what comes next: [Run], [Blocked] or [End].
type Decision interface{ decision() }

// Run says that Role is next. Location is empty when the route names none; when a suspended
// role runs again it is empty too, and the role stays where it was.
type Run struct {
	Role     string
	Prompt   string
	Location string
}

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
		return start(d, "new", at.Prompt, inputs)
	}
	status, _ := step.Meta["$status"].(string)
	switch {
	case status == "":
		return stuck("the step of %s has no $status", step.Role)
	case status == Suspend && len(inputs) > 0:
		return Run{Role: step.Role, Prompt: strings.Join(inputs, "\n\n")}
	case status == Suspend:
		reason, _ := step.Meta["reason"].(string)
		return Blocked{Reason: reason, Kind: BlockedInput}
	}
	route, ok := d.Graph[step.Role][status]
	if !ok {
		return stuck("graph.%s has no route for status %q", step.Role, status)
	}
	if route.Role == EndNode && len(inputs) > 0 {
		return proceed(d, at, inputs)
	}
	where := fmt.Sprintf("graph.%s.%s", step.Role, status)
	return follow(d, where, route, variables(at, *step, status), inputs, true)
}

// proceed goes on past an end: the added text takes the place of the thread's prompt.
func proceed(d *Definition, at At, inputs []string) Decision {
	key := "resume"
	if _, ok := d.Graph[Start][key]; !ok {
		key = "new"
	}
	return start(d, key, strings.Join(inputs, "\n\n"), nil)
}

func start(d *Definition, key, prompt string, inputs []string) Decision {
	route, ok := d.Graph[Start][key]
	if !ok {
		return stuck("graph.$START has no route %q", key)
	}
	return follow(d, "graph.$START."+key, route, map[string]any{"prompt": prompt}, inputs, false)
}

func follow(d *Definition, where string, route Route, vars map[string]any, inputs []string, strict bool) Decision {
	prompt, err := d.render(route.Prompt, vars, strict)
	if err != nil {
		return stuck("%s.prompt: %v", where, err)
	}
	if route.Role == EndNode {
		if strings.TrimSpace(prompt) == "" {
			body, _ := vars["_body"].(string)
			prompt = firstLine(body)
		}
		return End{Code: route.Code, Summary: prompt}
	}
	if _, ok := d.Roles[route.Role]; !ok {
		return stuck("%s leads to the unknown role %q", where, route.Role)
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
	return Run{Role: route.Role, Prompt: prompt, Location: location}
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
	return vars
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

func isReserved(role string) bool {
	return len(role) > 4 && strings.HasPrefix(role, "__") && strings.HasSuffix(role, "__")
}
