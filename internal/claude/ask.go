package claude

import (
	"encoding/json"
	"time"

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
		t.asking.Go(func() {
			t.say(encode(map[string]any{"type": "control_response", "response": map[string]any{
				"subtype": "error", "request_id": m.RequestID, "error": "nobody can answer that here"}}))
		})
		return
	}
	t.asking.Go(func() {
		allowed, said := t.ask(m.Request)
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
	t.pause(1)
	defer t.pause(-1)
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

// pause counts the questions that are open: time in which there is one does not count.
func (t *talk) pause(by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked == 0 {
		t.from = time.Now()
	}
	if t.asked += by; t.asked == 0 {
		t.paused += time.Since(t.from)
		t.since = time.Now()
	}
}
