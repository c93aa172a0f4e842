package claude

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// A message is one line of Claude Code's output.
type message struct {
	Type    string     `json:"type"`
	Subtype string     `json:"subtype"`
	UUID    string     `json:"uuid"`
	Model   string     `json:"model"` // of system/init
	Parent  string     `json:"parent_tool_use_id"`
	Message apiMessage `json:"message"`
	Done    effect     `json:"tool_use_result"`
	Meta    []toolMeta `json:"tool_result_meta"`

	// Set for a control_request.
	RequestID string  `json:"request_id"`
	Request   control `json:"request"`

	// Set for a command_lifecycle: the delivery state of a line.
	Command string `json:"command_uuid"`
	State   string `json:"state"`

	// Set for system/api_retry.
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`

	result
}

type apiMessage struct {
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
}

// A block is a part of a message's content.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`

	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// toolMeta says whether the tool of a result ran.
type toolMeta struct {
	ID          string `json:"id"`
	NotExecuted string `json:"non_execution_kind"`
}

// An effect is what a tool did.
type effect struct {
	Interrupted bool   `json:"interrupted"`
	FilePath    string `json:"filePath"`
	Type        string `json:"type"` // of a write: create or update
	Patch       []struct {
		OldStart, OldLines, NewStart, NewLines int
		Lines                                  []string
	} `json:"structuredPatch"`
	Content string `json:"content"`
}

// UnmarshalJSON accepts anything: a failed tool has a text instead of an effect.
func (e *effect) UnmarshalJSON(data []byte) error {
	type plain effect
	var p plain
	if json.Unmarshal(data, &p) == nil {
		*e = effect(p)
	}
	return nil
}

// A result is the end of a turn.
type result struct {
	IsError   bool            `json:"is_error"`
	Result    string          `json:"result"`
	APIStatus *int            `json:"api_error_status"`
	Terminal  string          `json:"terminal_reason"`
	Stop      json.RawMessage `json:"stop_reason"` // of the model's last message; nil: not reported
	Errors    []string        `json:"errors"`
	Shaped    json.RawMessage `json:"structured_output"`
	Usage     struct {
		Input   int64 `json:"input_tokens"`
		Created int64 `json:"cache_creation_input_tokens"`
		Cached  int64 `json:"cache_read_input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Thinking int64 `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// A tool is a running tool.
type tool struct {
	input json.RawMessage
	kind  string // of its events
	text  string
}

// handle acts on a message. Messages of sub-agents are ignored.
func (t *conversation) handle(m message) {
	switch {
	case m.Parent != "":
	case m.Type == "system" && m.Subtype == "init":
		t.model = m.Model
	case m.Type == "system" && m.Subtype == "api_retry":
		t.event(agent.Event{Kind: agent.EventError, WillRetry: true,
			Text: fmt.Sprintf("the model's server answered %q: try %d", m.Error, m.Attempt)})
	case m.Type == "assistant" && m.Message.Model == "<synthetic>": // a failure, which the result reports
	case m.Type == "assistant":
		t.delivered()
		t.turn = m.UUID
		t.assistant(m.Message)
	case m.Type == "user":
		t.toolResults(m)
		t.use()
	case m.Type == "command_lifecycle":
		t.commandState(m)
	case m.Type == "control_request":
		t.control(m)
	case m.Type == "result":
		if given := m.Shaped; t.setup.form != nil && len(given) > 0 {
			t.event(agent.Event{Kind: agent.EventMessage, Phase: "completed", Text: t.setup.body(given)})
		}
		if word := m.broken(); word != "" && !m.IsError {
			m.IsError, m.Result = true, "the turn ended with "+text.Clip(word, 100)
		}
		t.end(m.result)
	}
}

// broken returns the word with which a turn ended if that is not known to mean that the answer is whole, otherwise
// "". Claude Code reports as a success whatever its server said.
func (m message) broken() string {
	if m.Subtype != "success" {
		return cmp.Or(m.Subtype, "no word")
	}
	switch string(m.Stop) {
	case "", `"end_turn"`, `"stop_sequence"`, `"tool_use"`:
		return ""
	}
	return "the stop reason " + string(m.Stop)
}

// assistant emits events for the model's text and the tools that it uses.
func (t *conversation) assistant(said apiMessage) {
	t.model = cmp.Or(said.Model, t.model)
	for _, b := range blocks(said.Content) {
		switch b.Type {
		case "text":
			t.answer = b.Text
			t.event(agent.Event{Kind: agent.EventMessage, Phase: "completed", Text: b.Text})
		case "thinking":
			t.event(agent.Event{Kind: agent.EventThought, Phase: "completed", Text: b.Thinking})
		case "tool_use":
			if t.setup.form != nil && b.Name == structured {
				t.shapedCall = b.ID
				continue
			}
			t.toolStarted(b)
		}
	}
}

// toolStarted emits an event for the start of a tool.
func (t *conversation) toolStarted(b block) {
	var in struct {
		Command  string `json:"command"`
		FilePath string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	json.Unmarshal(b.Input, &in) // missing fields stay empty
	u := tool{input: b.Input, kind: agent.EventTool, text: b.Name}
	e := agent.Event{ID: b.ID, Phase: "started"}
	switch b.Name {
	case "Bash":
		u.kind, u.text = agent.EventCommand, in.Command
	case "Edit", "Write", "NotebookEdit":
		u.kind, u.text = agent.EventFile, ""
		if in.FilePath == "" {
			in.FilePath = in.Notebook
		}
		e.Files = []agent.File{{Path: in.FilePath, Change: "update"}}
	default:
		e.Detail = b.Input
	}
	e.Kind, e.Text = u.kind, u.text
	t.tools[b.ID] = u
	t.event(e)
}

// toolResults emits events for results of tools.
func (t *conversation) toolResults(m message) {
	for _, b := range blocks(m.Message.Content) {
		if t.shapedCall != "" && b.ToolUseID == t.shapedCall {
			t.turn = m.UUID // so that a branch includes it
		}
		u, running := t.tools[b.ToolUseID]
		if b.Type != "tool_result" || !running {
			continue
		}
		delete(t.tools, b.ToolUseID)
		asked := t.editedInput(b.ToolUseID, &u)
		e := agent.Event{Kind: u.kind, ID: b.ToolUseID, Phase: "completed", Text: u.text, Output: textOf(b.Content),
			Asked: asked}
		ran := true
		for _, meta := range m.Meta {
			if meta.ID == b.ToolUseID && meta.NotExecuted != "" {
				e.Phase, ran = "declined", false
			}
		}
		switch {
		case !ran:
		case m.Done.Interrupted:
			e.Phase = "failed"
		case u.kind == agent.EventCommand:
			e.Exit, e.Phase = exitOf(b.IsError, e.Output)
		case b.IsError:
			e.Phase = "failed"
		}
		if u.kind == agent.EventFile {
			e.Files = []agent.File{m.Done.file()}
			if e.Files[0].Path == "" {
				var in struct {
					FilePath string `json:"file_path"`
				}
				json.Unmarshal(u.input, &in)
				e.Files[0].Path = in.FilePath
			}
		}
		t.event(e)
	}
}

// editedInput sets u to what the tool did if a person edited its input, and returns what the model
// had asked for, otherwise "".
func (t *conversation) editedInput(id string, u *tool) (asked string) {
	t.mu.Lock()
	input := t.edited[id]
	delete(t.edited, id)
	t.mu.Unlock()
	if input == nil {
		return ""
	}
	asked = string(u.input)
	if u.input = input; u.kind == agent.EventCommand {
		var in struct {
			Command string `json:"command"`
		}
		json.Unmarshal(input, &in) // missing fields stay empty
		asked, u.text = u.text, in.Command
	}
	return asked
}

var exitLine = regexp.MustCompile(`^(?:Error: )?Exit code ([0-9]{1,3})\b`)

// exitOf returns the exit code of a command and its phase. A failed command has its code in the
// first line.
func exitOf(failed bool, output string) (*int, string) {
	if !failed {
		zero := 0
		return &zero, "completed"
	}
	if found := exitLine.FindStringSubmatch(output); found != nil {
		code, _ := strconv.Atoi(found[1]) // three digits are always valid
		return &code, "completed"
	}
	return nil, "failed"
}

// file returns the changed file with its diff.
func (e effect) file() agent.File {
	f := agent.File{Path: e.FilePath, Change: "update"}
	if e.Type == "create" {
		f.Change = "add"
		lines := strings.Split(strings.TrimSuffix(e.Content, "\n"), "\n")
		f.Diff = fmt.Sprintf("@@ -0,0 +1,%d @@\n+%s\n", len(lines), strings.Join(lines, "\n+"))
		return f
	}
	var b strings.Builder
	for _, h := range e.Patch {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines,
			strings.Join(h.Lines, "\n"))
	}
	f.Diff = b.String()
	return f
}

// blocks returns the blocks of a content.
func blocks(content json.RawMessage) []block {
	var list []block
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	return list
}

// textOf returns the text of a content.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []string
	for _, b := range blocks(content) {
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, "\n")
}
