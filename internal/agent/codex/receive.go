package codex

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
)

// receive handles one message. Messages it does not know are in the raw log only.
func (t *turn) receive(ctx context.Context, m message) error {
	if m.IsRequest() {
		t.handleRequest(ctx, m)
		return nil
	}
	switch m.Method {
	case "turn/started", "turn/completed":
		return t.onTurn(m)
	case "item/started", "item/completed":
		return t.onItem(m)
	case "item/agentMessage/delta":
		if t.req.Shaped {
			return nil // pieces of JSON tell a person nothing
		}
		p := decode[textDelta](m)
		return t.send(agent.Event{Kind: agent.EventMessage, ID: p.ItemID, Phase: "updated", Text: p.Delta})
	case "item/commandExecution/outputDelta":
		p := decode[textDelta](m)
		return t.send(agent.Event{Kind: agent.EventCommand, ID: p.ItemID, Phase: "updated", Output: p.Delta})
	case "turn/diff/updated":
		t.output.diff = decode[struct {
			Diff string `json:"diff"`
		}](m).Diff
	case "turn/plan/updated":
		return t.onPlan(m)
	case "thread/tokenUsage/updated":
		return t.onUsage(m)
	case "error":
		return t.onError(m)
	case "serverRequest/resolved":
		p := decode[struct {
			RequestID json.RawMessage `json:"requestId"`
		}](m)
		t.cancelAsks(string(p.RequestID))
	case "warning", "configWarning":
		p := decode[struct {
			Message string `json:"message"`
			Summary string `json:"summary"`
		}](m)
		return t.send(agent.Event{Kind: agent.EventProgress, Text: "Codex warns: " + p.Message + p.Summary})
	case "mcpServer/startupStatus/updated":
		p := decode[struct {
			Name, Status, Error string
		}](m)
		if p.Status == "failed" {
			return t.send(agent.Event{Kind: agent.EventError, Text: "MCP server " + p.Name + " did not start: " +
				p.Error})
		}
	}
	return nil
}

type textDelta struct {
	ItemID string `json:"itemId"`
	Delta  string `json:"delta"`
}

func (t *turn) onTurn(m message) error {
	end := decode[struct {
		Turn turnEnd `json:"turn"`
	}](m).Turn
	if m.Method == "turn/started" {
		if t.id == "" {
			t.id = end.ID
		}
		return nil
	}
	if t.id == "" || end.ID == t.id { // otherwise it is of an earlier turn
		t.end.turn = &end
	}
	return nil
}

func (t *turn) onItem(m message) error {
	p := decode[struct {
		Item   item   `json:"item"`
		TurnID string `json:"turnId"`
	}](m)
	it, phase := p.Item, "completed"
	if m.Method == "item/started" {
		phase = "started"
	}
	switch {
	case phase == "started" && it.runs():
		t.items.running[it.ID] = it
	case phase == "completed":
		delete(t.items.running, it.ID)
	}
	t.watchdog.SetTools(len(t.items.running))
	switch it.Type {
	case "fileChange":
		t.items.patches[it.ID] = it
	case "userMessage":
		t.delivered(it)
	}
	if it.Type == "agentMessage" && phase == "completed" {
		last := it.Phase == "final_answer"
		if last || !t.output.final {
			t.output.answer, t.output.final = it.Text, last
		}
	}
	if ev, ok := it.event(phase); ok {
		if t.req.Shaped && ev.Kind == agent.EventMessage {
			ev.Text = body(ev.Text)
		}
		if ev.Kind == agent.EventTool {
			ev.Line = m.Line
		}
		return t.send(ev)
	}
	return nil
}

// body returns the text of a shaped answer, or text itself if it is not shaped.
func body(text string) string {
	var fields map[string]json.RawMessage
	var s string
	if json.Unmarshal([]byte(text), &fields) != nil || json.Unmarshal(fields[agent.Body], &s) != nil {
		return text
	}
	return s
}

func (t *turn) onPlan(m message) error {
	p := decode[struct {
		Explanation string          `json:"explanation"`
		Plan        json.RawMessage `json:"plan"`
	}](m)
	var steps []struct {
		Step   string `json:"step"`
		Status string `json:"status"`
	}
	json.Unmarshal(p.Plan, &steps)
	var lines []string
	for _, s := range steps {
		lines = append(lines, s.Status+": "+s.Step)
	}
	return t.send(agent.Event{Kind: agent.EventPlan, Phase: "updated", Text: strings.Join(lines, "\n"), Detail: p.Plan})
}

// onUsage counts what this attempt used. Codex counts per session, and a fork begins with
// what its parent had used, so the count before the turn is subtracted.
func (t *turn) onUsage(m message) error {
	p := decode[struct {
		TurnID string `json:"turnId"`
		Usage  struct {
			Total usageCount `json:"total"`
			Last  usageCount `json:"last"`
		} `json:"tokenUsage"`
	}](m)
	if t.id == "" || p.TurnID != t.id {
		return nil // what the session had used before, sent when it is resumed
	}
	if t.used.before == nil {
		before := p.Usage.Total.minus(p.Usage.Last)
		t.used.before = &usageCount{before.InputTokens, before.CachedInputTokens, before.OutputTokens,
			before.ReasoningTokens}
	}
	t.used.usage = p.Usage.Total.minus(*t.used.before)
	u := t.used.usage
	return t.send(agent.Event{Kind: agent.EventUsage, Usage: &u})
}

func (t *turn) onError(m message) error {
	p := decode[struct {
		Error     turnError `json:"error"`
		WillRetry bool      `json:"willRetry"`
		TurnID    string    `json:"turnId"`
	}](m)
	if p.TurnID != "" && t.id != "" && p.TurnID != t.id {
		return nil
	}
	if !p.WillRetry {
		t.end.lastErr = &p.Error
	}
	return t.send(agent.Event{Kind: agent.EventError, Text: p.Error.text(), WillRetry: p.WillRetry})
}

// text returns the error, for people.
func (e turnError) text() string {
	if e.Details != "" && e.Details != e.Message {
		return e.Message + " (" + e.Details + ")"
	}
	return e.Message
}

// result returns the attempt's outcome from how the turn ended. why is the reason why
// Plait ended it, or nil.
func (t *turn) result(why error) (agent.Result, error) {
	if t.emitErr != nil {
		return agent.Result{}, errors.Unwrap(t.emitErr)
	}
	model, sandbox := t.effectiveSettings()
	if why != nil {
		return agent.Result{}, t.withUsage(why, model)
	}
	end := t.end.turn
	switch {
	case end.Status == "failed" || end.Status != "completed" && t.end.lastErr != nil:
		e := end.Error
		if e == nil {
			e = t.end.lastErr
		}
		if e == nil {
			e = &turnError{Message: "Codex does not say why"}
		}
		f, _ := classify(e.Info, e.text())
		return agent.Result{}, t.withUsage(f, model)
	case end.Status != "completed":
		return agent.Result{}, t.withUsage(&agent.Failure{Kind: agent.Infra, Message: "the turn was " + end.Status}, model)
	}
	if err := t.writeDiff(); err != nil {
		return agent.Result{}, err
	}
	output := []byte(t.output.answer)
	if t.req.Shaped {
		out, err := shape.Unshape(t.req.Schema, output)
		if err == nil {
			output = out
		}
	}
	res := agent.Result{
		Output: output, Session: t.sessionID(), Turn: t.id, Model: model, Usage: t.used.usage,
		Version: t.setup.program.Version, Sandbox: sandbox + t.setup.gateway.Bypassed(),
	}
	return res.Clipped(), nil
}

// withUsage adds the session, the model and the usage to a failure of the attempt.
func (t *turn) withUsage(why error, model string) error {
	var f *agent.Failure
	if !asErr(why, &f) {
		return why
	}
	out := *f
	out.Usage, out.Model = t.used.usage, model
	if f.Kind != agent.Limit || !f.Final {
		out.Session = t.sessionID()
	}
	return &out
}

// effectiveSettings returns the model and the sandbox that the turn really had, according to the
// session's rollout.
func (t *turn) effectiveSettings() (model, sandbox string) {
	model, sandbox = t.record.model, t.record.sandbox
	if t.record.rollout == "" {
		return model, sandbox
	}
	tail, err := readRollout(t.record.rollout, t.record.offset, nil)
	if err != nil {
		return model, sandbox // ours says the same as Codex's own record, with less detail
	}
	if tail.Model != "" {
		model = tail.Model
	}
	if tail.Sandbox != "" {
		sandbox = t.setup.enforced(t.req, tail.Profile, tail.Sandbox)
	}
	return model, sandbox
}
