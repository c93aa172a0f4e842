package claude

import (
	"encoding/json"
	"errors"

	"github.com/plait-run/plait/internal/agent"
)

// maxOpen is how many requests of Claude Code may wait for an answer, or to read one.
const maxOpen = 64

// errTooMuch is why an attempt ends with more open requests.
var errTooMuch = errors.New("too many requests at once")

// A control is a request of Claude Code to the program that started it.
type control struct {
	Subtype  string          `json:"subtype"`
	ToolName string          `json:"tool_name"`
	Input    json.RawMessage `json:"input"`
	ToolUse  string          `json:"tool_use_id"`
	Reason   string          `json:"description"`

	// Set for an elicitation.
	Server  string          `json:"mcp_server_name"`
	Message string          `json:"message"`
	Mode    string          `json:"mode"`
	Schema  json.RawMessage `json:"requested_schema"`
}

// control answers requests of Claude Code: permission to use a tool, and forms of MCP servers,
// both by asking a person. Other requests are refused.
func (t *conversation) control(m message) {
	if t.open.Add(1) > maxOpen {
		t.open.Add(-1)
		t.stop(errTooMuch)
		return
	}
	t.background.Go(func() {
		defer t.open.Add(-1)
		response := map[string]any{"subtype": "success", "request_id": m.RequestID}
		switch m.Request.Subtype {
		case "can_use_tool":
			response["response"] = t.permit(m.Request)
		case "elicitation":
			response["response"] = t.fill(m.Request)
		default:
			response["subtype"], response["error"] = "error", "no user to ask"
		}
		t.send(encode(map[string]any{"type": "control_response", "response": response}))
	})
}

// permit answers a request for permission to use a tool.
func (t *conversation) permit(c control) map[string]any {
	input, allowed, said := t.ask(c)
	if t.ctx.Err() != nil { // too late to answer
		allowed, said = false, "The attempt ends."
	}
	if !allowed {
		return map[string]any{"behavior": "deny", "message": said}
	}
	return map[string]any{"behavior": "allow", "updatedInput": input}
}

// ask asks a person to allow a tool with exactly this input, or with an edited one. It returns
// the input that is allowed.
func (t *conversation) ask(c control) (input json.RawMessage, allowed bool, said string) {
	if t.req.Ask == nil {
		return nil, false, "Nobody can be asked. Do without it."
	}
	defer t.watchdog.Pause()()
	var in struct {
		Command string `json:"command"`
	}
	json.Unmarshal(c.Input, &in) // missing fields stay empty
	act := agent.Action{Type: "tool_call", Tool: c.ToolName, Params: c.Input, Cwd: t.setup.Dir}
	switch c.ToolName {
	case "Bash":
		act = agent.Action{Type: "command", Command: in.Command, Cwd: t.setup.Dir, Params: c.Input}
	case "Edit", "Write", "NotebookEdit":
		act.Type = "file_change"
	}
	answer, err := t.req.Ask(t.ctx, agent.Question{Text: c.Reason, Action: act, Editable: c.ToolUse != ""})
	switch {
	case t.ctx.Err() != nil: // whatever the answer is, nothing may start now
		return nil, false, "The attempt ends."
	case err != nil:
		t.stop(err)
		return nil, false, "The attempt ends."
	case answer.Approved && answer.Edited != nil:
		t.recordEdit(c.ToolUse, answer.Edited.Params)
		return answer.Edited.Params, true, ""
	case answer.Approved:
		return c.Input, true, ""
	case answer.Text != "":
		return nil, false, "A person said no: " + answer.Text
	}
	return nil, false, "A person said no. Do without it, or do it differently."
}

// recordEdit records that a tool gets another input than the model gave it, before Claude Code
// receives it.
func (t *conversation) recordEdit(id string, input json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.edited[id] = input
}
