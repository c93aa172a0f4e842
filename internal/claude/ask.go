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
	Reason   string          `json:"description"`
}

// control answers what Claude Code asks: whether a tool may be used, by a person. What is not known is refused.
func (t *talk) control(m message) {
	if m.Request.Subtype != "can_use_tool" {
		t.beside.Go(func() {
			t.say(encode(map[string]any{"type": "control_response", "response": map[string]any{
				"subtype": "error", "request_id": m.RequestID, "error": "nobody can answer that here"}}))
		})
		return
	}
	t.beside.Go(func() {
		allowed, said := t.ask(m.Request)
		if t.ctx.Err() != nil { // answered too late
			allowed, said = false, "The attempt ends."
		}
		answer := map[string]any{"behavior": "allow", "updatedInput": m.Request.Input}
		if !allowed {
			answer = map[string]any{"behavior": "deny", "message": said}
		}
		t.say(encode(map[string]any{"type": "control_response", "response": map[string]any{
			"subtype": "success", "request_id": m.RequestID, "response": answer}}))
	})
}

// ask puts to a person whether a tool may be used with exactly this input.
func (t *talk) ask(c control) (allowed bool, said string) {
	if t.req.Ask == nil {
		return false, "Nobody can be asked. Do without it."
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
	answer, err := t.req.Ask(t.ctx, agent.Question{Text: c.Reason, Action: act})
	switch {
	case t.ctx.Err() != nil: // whatever the person said, nothing may begin now
		return false, "The attempt ends."
	case err != nil:
		t.stop(err)
		return false, "The attempt ends."
	case answer.Approved:
		return true, ""
	case answer.Text != "":
		return false, "A person said no: " + answer.Text
	}
	return false, "A person said no. Do without it, or do it differently."
}
