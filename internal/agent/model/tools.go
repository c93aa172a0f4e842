package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// A tool is one that the model may call.
type tool struct {
	name, about string
	params      []param
}

type param struct {
	name, kind, about string
	required          bool
}

// schema returns the JSON Schema of a tool's arguments.
func (t tool) schema() map[string]any {
	properties, required := object{}, []string{}
	for _, p := range t.params {
		properties[p.name] = object{"type": p.kind, "description": p.about}
		if p.required {
			required = append(required, p.name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

var (
	readTool = tool{"read", "Read a text file, or list a directory.", []param{
		{"path", "string", "the file or directory", true},
		{"from", "integer", "the first line, from 1", false},
		{"lines", "integer", "how many lines", false},
	}}
	searchTool = tool{"search", "Find lines that match a regular expression (RE2) in the files of a directory. " +
		"Without a pattern: list the files.", []param{
		{"pattern", "string", "the regular expression", false},
		{"path", "string", "the file or directory to search, else all that Git does not ignore", false},
		{"name", "string", "only files whose name matches, such as *.go, or whose path does, such as src/**/*.{c,h}", false},
	}}
	editTool = tool{"edit", "Replace a text in a file by another, or write a whole file.", []param{
		{"path", "string", "the file", true},
		{"old", "string", "the text to replace, exactly as it is in the file, where it must be once; " +
			"empty to write the whole file", false},
		{"new", "string", "the text in its place", true},
	}}
	runTool = tool{"run", "Run a command line by sh and wait for it.", []param{
		{"command", "string", "the command line", true},
		{"timeout", "integer", "seconds after which it is stopped, else 120", false},
	}}
	outside = []param{
		{"outside", "boolean", "run it outside of the sandbox; a person is asked", false},
		{"reason", "string", "with outside: why, for the person", false},
	}
)

// allowedTools returns the tools that the role may use.
func (t *conversation) allowedTools() []tool {
	tools := []tool{readTool, searchTool}
	if t.req.Access != agent.Read {
		tools = append(tools, editTool)
	}
	switch run := runTool; {
	case t.sandbox.Enforced:
		run.params = append(append([]param{}, run.params...), outside...)
		tools = append(tools, run)
	case t.req.Access != agent.Read:
		tools = append(tools, run)
	}
	return tools
}

// args are the arguments of all tools.
type args struct {
	Path    string  `json:"path"`
	From    int     `json:"from"`
	Lines   int     `json:"lines"`
	Pattern string  `json:"pattern"`
	Name    string  `json:"name"`
	Old     string  `json:"old"`
	New     *string `json:"new"`
	Command string  `json:"command"`
	Timeout int     `json:"timeout"`
	Outside bool    `json:"outside"`
	Reason  string  `json:"reason"`
}

// arguments parses the arguments of a call. The error is for the model.
func (t tool) arguments(given string) (a args, err error) {
	given = cmp.Or(strings.TrimSpace(given), "{}")
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(given), &fields) != nil || fields == nil {
		return a, errors.New("the arguments are not a JSON object")
	}
	var names []string
	for _, p := range t.params {
		names = append(names, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // in any case, as for json.Unmarshal
		if !slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) }) {
			return a, fmt.Errorf("%s has no argument %q: there are %s", t.name, text.Clip(name, 100), strings.Join(names, ", "))
		}
	}
	if err := decode([]byte(given), &a); err != nil {
		return a, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	return a, nil
}

// use runs a tool and returns the result for the model.
func (t *conversation) use(c call) (text string, wrong bool, err error) {
	tools := t.allowedTools()
	at := slices.IndexFunc(tools, func(offered tool) bool { return offered.name == c.Name })
	if at < 0 {
		return t.invalidCall(c, "There is no tool "+c.Name+" here.")
	}
	a, err := tools[at].arguments(c.Args)
	if err != nil {
		return t.invalidCall(c, err.Error())
	}
	a.Path = t.files.path(a.Path)
	switch c.Name {
	case runTool.name:
		return t.runCommand(c, a)
	case editTool.name:
		return t.edit(c, a)
	}
	e := agent.Event{Kind: agent.EventTool, ID: c.ID, Phase: "started", Text: c.Name, Detail: json.RawMessage(c.Args),
		Line: t.log.line()}
	if err := t.event(e); err != nil {
		return "", false, err
	}
	e.Phase = "completed"
	if c.Name == readTool.name {
		text, err = t.files.read(a.Path, a.From, a.Lines)
	} else {
		text, err = t.files.search(t.ctx, a.Pattern, a.Path, a.Name)
	}
	if err != nil {
		text, wrong, e.Phase = err.Error(), true, "failed"
	}
	return text, wrong, t.ended(c, text, e)
}

// invalidCall answers an invalid call.
func (t *conversation) invalidCall(c call, why string) (string, bool, error) {
	return why, true, t.ended(c, why, agent.Event{Kind: agent.EventTool, Phase: "failed", Text: text.Clip(c.Name, 200)})
}

// ended logs the result of a call, and emits its event.
func (t *conversation) ended(c call, text string, e agent.Event) error {
	t.log.note(object{"type": "tool_result", "id": c.ID, "name": c.Name, "output": text})
	e.ID, e.Line = c.ID, t.log.line()
	if e.Output == "" {
		e.Output = text
	}
	if !json.Valid(e.Detail) {
		e.Detail = nil
	}
	return t.event(e)
}
