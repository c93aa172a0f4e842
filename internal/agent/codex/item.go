package codex

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxItemOutput is how much of a command's output an event contains, in bytes: its end.
// The raw log has all of it.
const maxItemOutput = 8 << 10

// An item is one thing in a turn, as app-server describes it. Fields that do not
// belong to its type are empty.
type item struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Text    string `json:"text"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"` // of a message from people
	Phase   string   `json:"phase"`
	Summary []string `json:"summary"`

	Command  string  `json:"command"`
	Cwd      string  `json:"cwd"`
	Status   string  `json:"status"`
	ExitCode *int    `json:"exitCode"`
	Output   *string `json:"aggregatedOutput"`

	Changes []struct {
		Path string `json:"path"`
		Kind struct {
			Type string `json:"type"`
			Move string `json:"move_path"` // where an updated file is moved to
		} `json:"kind"`
		Diff string `json:"diff"`
	} `json:"changes"`

	Server    string          `json:"server"`
	Namespace string          `json:"namespace"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`
	Success   *bool           `json:"success"`
	Query     string          `json:"query"`
	Path      string          `json:"path"`
}

// event returns the event for an item, and whether there is one.
func (it item) event(phase string) (agent.Event, bool) {
	ev := agent.Event{ID: it.ID, Phase: phase}
	switch it.Status {
	case "failed", "declined":
		if phase == "completed" {
			ev.Phase = it.Status
		}
	}
	switch it.Type {
	case "agentMessage":
		ev.Kind, ev.Text = agent.EventMessage, it.Text
	case "reasoning":
		ev.Kind, ev.Text = agent.EventThought, strings.Join(it.Summary, "\n")
		if phase == "started" {
			return ev, false
		}
	case "plan":
		ev.Kind, ev.Text = agent.EventPlan, it.Text
	case "commandExecution":
		ev.Kind, ev.Text, ev.Exit = agent.EventCommand, it.Command, exitCode(it.ExitCode)
		if it.Output != nil {
			ev.Output = tail(*it.Output)
		}
	case "fileChange":
		ev.Kind = agent.EventFile
		var names []string
		for _, c := range it.Changes {
			ev.Files = append(ev.Files, agent.File{Path: c.Path, Change: c.Kind.Type, Diff: c.Diff})
			names = append(names, c.Path)
			if to := c.Kind.Move; to != "" {
				ev.Files = append(ev.Files, agent.File{Path: to, Change: "add"})
				names = append(names, to)
			}
		}
		ev.Text = strings.Join(names, ", ")
	case "mcpToolCall", "dynamicToolCall", "webSearch", "imageView", "imageGeneration", "collabAgentToolCall":
		ev.Kind, ev.Text, ev.Detail = agent.EventTool, it.tool(), it.Arguments
		if isSet(it.Result) {
			ev.Output = tail(string(it.Result))
		}
		if isSet(it.Error) {
			ev.Output = tail(string(it.Error))
		}
		if it.Success != nil && !*it.Success && phase == "completed" {
			ev.Phase = "failed"
		}
	default:
		return ev, false // our own message, hooks, reviews, unknown types
	}
	return ev, true
}

// exitCode returns the exit code of a command that ended by itself. Codex reports -1 for one
// that was cut off.
func exitCode(code *int) *int {
	if code != nil && *code < 0 {
		return nil
	}
	return code
}

// tool returns the name of what was called.
func (it item) tool() string {
	switch {
	case it.Server != "":
		return it.Server + "/" + it.Tool
	case it.Namespace != "":
		return it.Namespace + "/" + it.Tool
	case it.Tool != "":
		return it.Tool
	case it.Query != "":
		return "web search: " + it.Query
	case it.Path != "":
		return "look at " + it.Path
	}
	return it.Type
}

// isSet reports whether raw is a JSON value other than null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// tail returns the end of an output.
func tail(s string) string { return text.Tail(s, maxItemOutput) }

// runs reports whether an item that was started runs until it is completed: a
// command or a tool, not a text.
func (it item) runs() bool {
	return it.Type == "commandExecution" || it.Type == "mcpToolCall" || it.Type == "dynamicToolCall"
}
