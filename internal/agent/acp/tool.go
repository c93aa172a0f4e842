package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// A call is what an agent reports about a tool call. Missing fields leave earlier values
// unchanged.
type call struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Name      string          `json:"name"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Content   json.RawMessage `json:"content"`
	Meta      json.RawMessage `json:"_meta"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
}

// A tool is a tool call of the agent.
type tool struct {
	call
	begun, ended bool // events were emitted
	declined     bool // by a person
	since        int  // how many pieces of text came before it
}

// take applies an update.
func (u *tool) take(c call) {
	u.Title, u.Name, u.Status = cmp.Or(c.Title, u.Title), cmp.Or(c.Name, u.Name), cmp.Or(c.Status, u.Status)
	if c.Kind != "" && (c.Kind != "other" || u.Kind == "") {
		u.Kind = c.Kind
	}
	for _, at := range []struct{ from, to *json.RawMessage }{{&c.Input, &u.Input}, {&c.Output, &u.Output},
		{&c.Content, &u.Content}, {&c.Meta, &u.Meta}} {
		if len(*at.from) > 0 && !bytes.Equal(*at.from, []byte("null")) {
			*at.to = bytes.Clone(*at.from)
		}
	}
	if len(c.Locations) > 0 {
		u.Locations = c.Locations
	}
	var meta struct {
		Tool bool `json:"is_mcp_tool_call"`
	}
	if json.Unmarshal(c.Meta, &meta) == nil && meta.Tool {
		u.Kind = "other" // one agent calls it execute, though it is not a command
	}
}

// An input has the arguments of tools that matter here.
type input struct {
	Command  json.RawMessage `json:"command"`
	Cmd      json.RawMessage `json:"cmd"`
	Diff     string          `json:"diff"`
	Path     string          `json:"path"`
	FilePath string          `json:"file_path"`
	FileName string          `json:"fileName"`
}

func (u *tool) input() (in input) {
	json.Unmarshal(u.Input, &in) // missing fields stay empty
	return in
}

// command returns the command line of a tool, "" if it is not a command.
func (u *tool) command() string {
	if u.Kind != "execute" {
		return ""
	}
	return cmp.Or(u.line(), u.title())
}

// line returns the command line in a tool's input, "" for none.
func (u *tool) line() string {
	in := u.input()
	for _, raw := range []json.RawMessage{in.Command, in.Cmd} {
		var line string
		var argv []string
		switch {
		case json.Unmarshal(raw, &line) == nil && line != "":
			return line
		case json.Unmarshal(raw, &argv) == nil && len(argv) > 0:
			return strings.Join(argv, " ")
		}
	}
	return ""
}

// known reports whether enough is known to report its beginning: some agents send the directory
// of a command first.
func (u *tool) known() bool {
	if u.Kind == "execute" {
		return u.line() != ""
	}
	return u.Status == "in_progress" || len(u.Input) > 2
}

// title returns the name of a tool, for people.
func (u *tool) title() string { return text.Clip(cmp.Or(u.Title, u.Name, u.Kind, "a tool"), 500) }

// edits reports whether a tool changes files.
func (u *tool) edits() bool { return u.Kind == "edit" || u.Kind == "delete" || u.Kind == "move" }

// A part is an item of a tool's content.
type part struct {
	Type    string          `json:"type"`
	Content json.RawMessage `json:"content"`
	Path    string          `json:"path"`
	OldText *string         `json:"oldText"`
	NewText string          `json:"newText"`
}

func (u *tool) parts() (list []part) {
	json.Unmarshal(u.Content, &list) // content of another form has no parts
	return list
}

// files returns the files that a tool changes, with their diffs if known.
func (u *tool) files() []agent.File {
	var files []agent.File
	for _, p := range u.parts() {
		if p.Type != "diff" {
			continue
		}
		f := agent.File{Path: p.Path, Change: "update"}
		old := ""
		if p.OldText == nil || *p.OldText == "" {
			f.Change = "add"
		} else {
			old = *p.OldText
		}
		f.Diff = string(diff.Diff(p.Path, []byte(old), p.Path, []byte(p.NewText)))
		files = append(files, f)
	}
	change := map[string]string{"delete": "delete"}[u.Kind]
	if in := u.input(); len(files) == 0 {
		for _, l := range u.Locations {
			files = append(files, agent.File{Path: l.Path, Change: cmp.Or(change, "update"), Diff: in.Diff})
		}
		if path := cmp.Or(in.FilePath, in.FileName, in.Path); len(files) == 0 && path != "" {
			files = append(files, agent.File{Path: path, Change: cmp.Or(change, "update"), Diff: in.Diff})
		}
	}
	return files
}

// event returns an event of a tool.
func (u *tool) event(phase string) agent.Event {
	e := agent.Event{ID: u.ID, Phase: phase}
	switch {
	case u.Kind == "execute":
		e.Kind, e.Text = agent.EventCommand, u.command()
	case u.edits():
		e.Kind, e.Files = agent.EventFile, u.files()
		var names []string
		for _, f := range e.Files {
			names = append(names, f.Path)
		}
		e.Text = strings.Join(names, ", ")
	default:
		e.Kind, e.Text, e.Detail = agent.EventTool, cmp.Or(u.Name, u.title()), u.Input
	}
	return e
}

// action returns exactly what a tool would do.
func (u *tool) action(dir string) agent.Action {
	a := agent.Action{Type: "tool_call", Tool: cmp.Or(u.Name, u.title()), Params: u.Input, Cwd: dir}
	switch {
	case u.Kind == "execute":
		a.Type, a.Tool, a.Command = "command", "", u.command()
	case u.edits():
		a.Type = "file_change"
		if a.Diff = u.input().Diff; a.Diff == "" {
			for _, f := range u.files() {
				a.Diff += f.Change + " " + f.Path + "\n" + f.Diff
			}
		}
	}
	if len(a.Params) == 0 {
		a.Params = u.Content // everything that is known
	}
	return a
}

// maxOutput limits a tool's output in an event, in bytes. The raw log has all of it.
const maxOutput = 8 << 10

// output returns the output of a tool.
func (u *tool) output() string {
	var b strings.Builder
	for _, p := range u.parts() {
		if p.Type == "content" {
			b.WriteString(textOf(p.Content))
		}
	}
	if b.Len() == 0 && len(u.Output) > 0 {
		var o struct {
			Content any `json:"content"`
			Output  any `json:"output"`
			Message any `json:"message"`
		}
		json.Unmarshal(u.Output, &o) // it may be a string
		for _, v := range []any{o.Content, o.Output, o.Message} {
			if s, ok := v.(string); ok && b.Len() == 0 {
				b.WriteString(s)
			}
		}
		if b.Len() == 0 {
			b.Write(u.Output)
		}
	}
	return text.Tail(b.String(), maxOutput)
}

// exit returns the exit code of a command, nil if not known: from a field of its output, otherwise
// by the agent's pattern.
func (u *tool) exit(form *regexp.Regexp, output string) *int {
	for _, raw := range []json.RawMessage{u.Output, u.Meta} {
		var o any
		if json.Unmarshal(raw, &o) == nil {
			if code := exitIn(o, 0); code != nil {
				return code
			}
		}
	}
	if form == nil {
		return nil
	}
	all := form.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return nil
	}
	code, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		return nil
	}
	return &code
}

// exitIn looks for an exit code in a value.
func exitIn(v any, depth int) *int {
	if depth > 4 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"exitCode", "exit_code", "exit"} {
			if n, ok := v[key].(float64); ok && n >= 0 && n < 256 && n == float64(int(n)) {
				code := int(n)
				return &code
			}
		}
		for _, key := range []string{"metadata", "contents", "result", "terminal_exit"} {
			if code := exitIn(v[key], depth+1); code != nil {
				return code
			}
		}
	case []any:
		for _, e := range v {
			if code := exitIn(e, depth+1); code != nil {
				return code
			}
		}
	}
	return nil
}
