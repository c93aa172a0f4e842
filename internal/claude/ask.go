package claude

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/agent"
)

// A control is what Claude Code asks of the program that started it.
type control struct {
	Subtype  string          `json:"subtype"`
	ToolName string          `json:"tool_name"`
	Input    json.RawMessage `json:"input"`
	ToolUse  string          `json:"tool_use_id"`
	Reason   string          `json:"description"`

	// Of an elicitation.
	Server  string          `json:"mcp_server_name"`
	Message string          `json:"message"`
	Mode    string          `json:"mode"`
	Schema  json.RawMessage `json:"requested_schema"`
}

// control answers what Claude Code asks: whether a tool may be used, and forms of MCP servers, by a person. What is not
// known is refused.
func (t *talk) control(m message) {
	t.beside.Go(func() {
		response := map[string]any{"subtype": "success", "request_id": m.RequestID}
		switch m.Request.Subtype {
		case "can_use_tool":
			response["response"] = t.permit(m.Request)
		case "elicitation":
			response["response"] = t.fill(m.Request)
		default:
			response["subtype"], response["error"] = "error", "nobody can answer that here"
		}
		t.say(encode(map[string]any{"type": "control_response", "response": response}))
	})
}

// permit is the answer whether a tool may be used.
func (t *talk) permit(c control) map[string]any {
	input, allowed, said := t.ask(c)
	if t.ctx.Err() != nil { // answered too late
		allowed, said = false, "The attempt ends."
	}
	if !allowed {
		return map[string]any{"behavior": "deny", "message": said}
	}
	return map[string]any{"behavior": "allow", "updatedInput": input}
}

// ask puts to a person whether a tool may be used with exactly this input, or with what they make of it. It returns
// the input that is allowed.
func (t *talk) ask(c control) (input json.RawMessage, allowed bool, said string) {
	if t.req.Ask == nil {
		return nil, false, "Nobody can be asked. Do without it."
	}
	defer t.patient.Asking()()
	var in struct {
		Command string `json:"command"`
	}
	json.Unmarshal(c.Input, &in) // what it does not have is empty
	act := agent.Action{Type: "tool_call", Tool: c.ToolName, Params: c.Input, Cwd: t.site.dir}
	switch c.ToolName {
	case "Bash":
		act = agent.Action{Type: "command", Command: in.Command, Cwd: t.site.dir, Params: c.Input}
	case "Edit", "Write", "NotebookEdit":
		act.Type = "file_change"
	}
	answer, err := t.req.Ask(t.ctx, agent.Question{Text: c.Reason, Action: act, Editable: c.ToolUse != ""})
	switch {
	case t.ctx.Err() != nil: // whatever the person said, nothing may begin now
		return nil, false, "The attempt ends."
	case err != nil:
		t.stop(err)
		return nil, false, "The attempt ends."
	case answer.Approved && answer.Edited != nil:
		t.instead(c.ToolUse, answer.Edited.Params)
		return answer.Edited.Params, true, ""
	case answer.Approved:
		return c.Input, true, ""
	case answer.Text != "":
		return nil, false, "A person said no: " + answer.Text
	}
	return nil, false, "A person said no. Do without it, or do it differently."
}

// instead notes that a tool gets another input than the model gave it, before Claude Code is told.
func (t *talk) instead(id string, input json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.edited[id] = input
}
