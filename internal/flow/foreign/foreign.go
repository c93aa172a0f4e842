// Package foreign reads the agents of other programs as roles of flows.
//
// In: the path and the bytes of a file in which Claude Code, Codex or Copilot keeps an agent, a prompt or a profile.
// Out: a [flow.Role], and [flow.Problem]s: what is wrong, and as warnings what of the file has no meaning here. Laws:
//
//  1. The folder says whose file it is; nothing is guessed from its text.
//  2. Nothing is dropped in silence: what is not mapped is named, with its line.
//  3. A hostile file is a problem with file, line and reason, never a panic.
//
// It opens no file. A role that it makes has at most access write, and only people give that: see
// [flow.Definition.DefinesAgents].
package foreign

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// Codes of problems.
const (
	CodeBad       = "BAD_FROM"
	CodeNotMapped = "NOT_MAPPED"
)

// Bounds on files.
const (
	maxFile    = 256 << 10 // bytes
	maxNesting = 8         // of values in front matter
)

// Patterns of the files, below the directory of a project.
var Patterns = []string{".claude/agents/*.md", ".codex/prompts/*.md", ".github/agents/*.md", codexConfig}

const codexConfig = ".codex/config.toml"

// A reader reads one file.
type reader struct {
	file     string
	first    int // the line before the front matter
	role     flow.Role
	model    string
	effort   string
	mcp      []string
	writes   bool
	problems []flow.Problem
}

// Role reads a file as a role. name is its path below the project, with slashes, as in [Patterns]; that of a profile of
// Codex ends in "#" and the name of the profile. The problems name file.
func Role(name, file string, data []byte) (flow.Role, []flow.Problem) {
	name, profile, _ := strings.Cut(path.Clean(name), "#")
	r := &reader{file: file, role: flow.Role{Access: flow.Read, Retry: flow.Retry{Max: flow.DefaultRetries}}}
	if len(data) > maxFile {
		r.bad(1, "the file has %d bytes, the most is %d", len(data), maxFile)
	} else if !utf8.Valid(data) {
		r.bad(1, "the file is not UTF-8")
	}
	if r.problems != nil {
		return r.role, r.problems
	}
	switch {
	case name == codexConfig:
		r.profile(data, profile)
	case in(name, ".claude/agents"):
		r.markdown(data, claudeKeys)
		r.agent(flow.Agent{Kind: "claude"})
	case in(name, ".codex/prompts"):
		r.markdown(data, promptKeys)
		r.arguments()
	case in(name, ".github/agents"):
		r.markdown(data, copilotKeys)
		r.agent(flow.Agent{Kind: "acp", Agent: "copilot"})
	default:
		r.bad(1, "%s is not where Claude Code, Codex or Copilot keeps agents: %s", name, strings.Join(Patterns, ", "))
	}
	return r.role, r.problems
}

// in reports whether a path is that of a Markdown file in a directory or below it.
func in(name, dir string) bool { return strings.HasPrefix(name, dir+"/") && path.Ext(name) == ".md" }

// Name returns the name of a role for a file.
func Name(name string) string {
	name, profile, ok := strings.Cut(name, "#")
	if !ok {
		profile = strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".md"), ".agent")
	}
	clean := strings.Map(func(c rune) rune {
		if flow.IsRoleName("a" + string(c)) {
			return c
		}
		return '-'
	}, profile)
	return strings.Trim(clean, "._-")
}

func (r *reader) bad(line int, format string, args ...any) {
	r.problems = append(r.problems, flow.Problem{File: r.file, Line: line, Col: 1, Code: CodeBad,
		Message: fmt.Sprintf(format, args...)})
}

func (r *reader) notMapped(line int, format string, args ...any) {
	r.problems = append(r.problems, flow.Problem{File: r.file, Line: line, Col: 1, Code: CodeNotMapped, Warning: true,
		Message: fmt.Sprintf(format, args...)})
}

// A key reads the value of a key of front matter.
type key func(r *reader, line int, value any)

var (
	claudeKeys = map[string]key{"name": ignore, "color": ignore, "description": describe, "model": model,
		"effort": effort, "tools": claudeTools}
	promptKeys  = map[string]key{"name": ignore, "description": describe, "argument-hint": ignore}
	copilotKeys = map[string]key{"name": ignore, "description": describe, "model": model, "tools": copilotTools}
)

// ignore is for keys that say nothing of what an agent does.
func ignore(*reader, int, any) {}

func describe(r *reader, line int, value any) {
	r.role.Description = r.text("description", line, value)
}

func effort(r *reader, line int, value any) { r.effort = r.text("effort", line, value) }

func model(r *reader, line int, value any) {
	if list, ok := value.([]any); ok && len(list) > 0 { // the first that there is
		r.notMapped(line, "model: only the first of %d", len(list))
		value = list[0]
	}
	if r.model = r.text("model", line, value); r.model == "inherit" {
		r.model = ""
	}
}

func claudeTools(r *reader, line int, value any) {
	for _, tool := range r.tools(line, value) {
		name, _, _ := strings.Cut(tool, "(")
		switch rest, ok := strings.CutPrefix(name, "mcp__"); {
		case ok:
			server, _, _ := strings.Cut(rest, "__")
			if server != "" && !slices.Contains(r.mcp, server) {
				r.mcp = append(r.mcp, server)
			}
		case slices.Contains([]string{"Edit", "Write", "MultiEdit", "NotebookEdit", "*"}, name):
			r.writes = true
		}
	}
}

// copilotWriters are the tools of Copilot that change files, under all their names.
var copilotWriters = []string{"*", "edit", "write", "multiedit", "notebookedit", "editfiles", "edit/editfiles"}

func copilotTools(r *reader, line int, value any) {
	for _, tool := range r.tools(line, value) {
		switch name := strings.ToLower(tool); {
		case slices.Contains(copilotWriters, name):
			r.writes = true
		case strings.Contains(name, "/") && !strings.HasPrefix(name, "edit/"):
			r.notMapped(line, "tools: %s: Copilot's own settings say which MCP servers it has", tool)
		}
	}
}

// tools reads a list of tools, or a text with commas. Which of them write says the access of the role.
func (r *reader) tools(line int, value any) (tools []string) {
	switch v := value.(type) {
	case nil:
	case string:
		for tool := range strings.SplitSeq(v, ",") {
			if tool = strings.TrimSpace(tool); tool != "" {
				tools = append(tools, tool)
			}
		}
	case []any:
		for _, one := range v {
			tools = append(tools, r.text("tools", line, one))
		}
	default:
		r.bad(line, "tools is a list of names, not %T", value)
	}
	if len(tools) > 0 {
		r.notMapped(line, "tools: they only say whether the role may write; none is withheld from the agent")
	}
	return tools
}

func (r *reader) text(key string, line int, value any) string {
	switch v := value.(type) {
	case string:
		return strings.TrimSpace(v)
	case nil:
		return ""
	}
	r.bad(line, "%s must be a text", key)
	return ""
}

// agent sets what the file says of the agent. Without a model and the like, the flow chooses it.
func (r *reader) agent(a flow.Agent) {
	if r.writes {
		r.role.Access = flow.Write
	}
	if a.Model, a.Effort, a.MCP = r.model, r.effort, r.mcp; a.Model != "" || a.Effort != "" || a.MCP != nil {
		r.role.Agent = &flow.AgentRef{Inline: &a}
	}
}

// markdown reads front matter, if there is any, and the text after it, which is the role's procedure.
func (r *reader) markdown(data []byte, known map[string]key) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if after, ok := strings.CutPrefix(text, "---\n"); ok {
		front, body, ok := strings.Cut("\n"+after, "\n---\n")
		if !ok {
			front, ok = strings.CutSuffix("\n"+after, "\n---")
		}
		if !ok {
			r.bad(1, "the front matter has no end: a line of ---")
			return
		}
		r.first, text = 1, body
		r.front(strings.TrimPrefix(front, "\n"), known)
	}
	if r.role.Procedure = strings.TrimSpace(text); r.role.Procedure == "" && !flow.Failed(r.problems) {
		r.bad(1, "there is no text that says what the agent does")
	}
}

// front reads front matter.
func (r *reader) front(text string, known map[string]key) {
	n, err := yamldoc.Parse([]byte(quoted(text)))
	at := func(e error) {
		line := 1
		if y, ok := e.(*yamldoc.Error); ok {
			line, e = y.Line, fmt.Errorf("%s", y.Message)
		}
		r.bad(line+r.first, "the front matter cannot be read: %v", e)
	}
	switch {
	case err != nil:
		at(err)
		return
	case n == nil:
		return
	case n.Kind != yaml.MappingNode:
		r.bad(n.Line+r.first, "the front matter is not a list of keys and values")
		return
	}
	pairs, wrong := yamldoc.Pairs(n)
	for _, e := range wrong {
		at(e)
	}
	for _, p := range pairs {
		line := p.Key.Line + r.first
		read, ok := known[p.Key.Value]
		if !ok {
			r.notMapped(line, "%s has no meaning here", strconv.Quote(p.Key.Value))
			continue
		}
		value, err := yamldoc.Value(p.Value, maxNesting)
		if err != nil {
			at(err)
			continue
		}
		read(r, line, value)
	}
}

// quoted puts descriptions in quotes: their programs read "description: use it: often" as people mean it, which is no
// YAML.
func quoted(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		value, ok := strings.CutPrefix(line, "description:")
		value = strings.TrimSpace(value)
		folds := i+1 < len(lines) && (strings.HasPrefix(lines[i+1], " ") || strings.HasPrefix(lines[i+1], "\t"))
		if !ok || value == "" || folds || strings.ContainsRune(`"'|>&*![{`, rune(value[0])) {
			continue
		}
		lines[i] = "description: '" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return strings.Join(lines, "\n")
}

// arguments replaces the place of a prompt's arguments.
func (r *reader) arguments() {
	r.role.Procedure = strings.ReplaceAll(r.role.Procedure, "$ARGUMENTS", "(what you are asked to do now)")
	for n := '1'; n <= '9'; n++ {
		if strings.Contains(r.role.Procedure, "$"+string(n)) {
			r.notMapped(1, "$%c: a role has one text to work on", n)
		}
	}
}
