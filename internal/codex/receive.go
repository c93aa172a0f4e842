package codex

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

// receive takes in one message. What it does not know is in the raw log.
func (t *turn) receive(ctx context.Context, m message) error {
	if m.asks() {
		t.question(ctx, m)
		return nil
	}
	switch m.Method {
	case "turn/started", "turn/completed":
		return t.turnNews(m)
	case "item/started", "item/completed":
		return t.itemNews(m)
	case "item/agentMessage/delta":
		if t.req.Shaped {
			return nil // pieces of JSON are nothing to watch
		}
		p := decode[deltaNews](m)
		return t.say(agent.Event{Kind: agent.EventMessage, ID: p.ItemID, Phase: "updated", Text: p.Delta})
	case "item/commandExecution/outputDelta":
		p := decode[deltaNews](m)
		return t.say(agent.Event{Kind: agent.EventCommand, ID: p.ItemID, Phase: "updated", Output: p.Delta})
	case "turn/diff/updated":
		t.diff = decode[struct {
			Diff string `json:"diff"`
		}](m).Diff
	case "turn/plan/updated":
		return t.planNews(m)
	case "thread/tokenUsage/updated":
		return t.usageNews(m)
	case "error":
		return t.errorNews(m)
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
		return t.say(agent.Event{Kind: agent.EventProgress, Text: "Codex warns: " + p.Message + p.Summary})
	case "mcpServer/startupStatus/updated":
		p := decode[struct {
			Name, Status, Error string
		}](m)
		if p.Status == "failed" {
			return t.say(agent.Event{Kind: agent.EventError, Text: "MCP server " + p.Name + " did not start: " + p.Error})
		}
	}
	return nil
}

type deltaNews struct {
	ItemID string `json:"itemId"`
	Delta  string `json:"delta"`
}

func (t *turn) turnNews(m message) error {
	end := decode[struct {
		Turn turnEnd `json:"turn"`
	}](m).Turn
	if m.Method == "turn/started" {
		if t.id == "" {
			t.id = end.ID
		}
		return nil
	}
	if t.id == "" || end.ID == t.id { // not an earlier turn's, told late
		t.outcome = &end
	}
	return nil
}

func (t *turn) itemNews(m message) error {
	p := decode[struct {
		Item   item   `json:"item"`
		TurnID string `json:"turnId"`
	}](m)
	it, phase := p.Item, "completed"
	if m.Method == "item/started" {
		phase = "started"
	}
	switch {
	case phase == "started" && it.open():
		t.openOnes[it.ID] = it
	case phase == "completed":
		delete(t.openOnes, it.ID)
	}
	if it.Type == "fileChange" {
		t.patches[it.ID] = it
	}
	if it.Type == "agentMessage" && phase == "completed" {
		last := it.Phase == "final_answer"
		if last || !t.final {
			t.answer, t.final = it.Text, last
		}
	}
	if ev, ok := it.event(phase); ok {
		if t.req.Shaped && ev.Kind == agent.EventMessage {
			ev.Text = body(ev.Text)
		}
		return t.say(ev)
	}
	return nil
}

// body is the text of a shaped answer, or the text as it is.
func body(text string) string {
	var fields map[string]json.RawMessage
	var s string
	if json.Unmarshal([]byte(text), &fields) != nil || json.Unmarshal(fields[agent.Body], &s) != nil {
		return text
	}
	return s
}

func (t *turn) planNews(m message) error {
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
	return t.say(agent.Event{Kind: agent.EventPlan, Phase: "updated", Text: strings.Join(lines, "\n"), Detail: p.Plan})
}

// usageNews counts what this attempt used. Codex counts per session, and a fork
// begins with what its parent had used.
func (t *turn) usageNews(m message) error {
	p := decode[struct {
		TurnID string `json:"turnId"`
		Usage  struct {
			Total usageCount `json:"total"`
			Last  usageCount `json:"last"`
		} `json:"tokenUsage"`
	}](m)
	if t.id == "" || p.TurnID != t.id {
		return nil // what the session had used before, told when it is resumed
	}
	if t.base == nil {
		before := p.Usage.Total.minus(p.Usage.Last)
		t.base = &usageCount{before.InputTokens, before.CachedInputTokens, before.OutputTokens, before.ReasoningTokens}
	}
	t.usage = p.Usage.Total.minus(*t.base)
	u := t.usage
	return t.say(agent.Event{Kind: agent.EventUsage, Usage: &u})
}

func (t *turn) errorNews(m message) error {
	p := decode[struct {
		Error     turnError `json:"error"`
		WillRetry bool      `json:"willRetry"`
		TurnID    string    `json:"turnId"`
	}](m)
	if p.TurnID != "" && t.id != "" && p.TurnID != t.id {
		return nil
	}
	if !p.WillRetry {
		t.lastErr = &p.Error
	}
	return t.say(agent.Event{Kind: agent.EventError, Text: p.Error.text(), WillRetry: p.WillRetry})
}

// text is what a person reads of an error.
func (e turnError) text() string {
	if e.Details != "" && e.Details != e.Message {
		return e.Message + " (" + e.Details + ")"
	}
	return e.Message
}

// result turns how the turn ended into the attempt's outcome. why is why we
// ended it, or nil.
func (t *turn) result(why error) (agent.Result, error) {
	if t.unsaid != nil {
		return agent.Result{}, errors.Unwrap(t.unsaid)
	}
	model, sandbox := t.enforced()
	if why != nil {
		return agent.Result{}, t.failed(why)
	}
	end := t.outcome
	switch {
	case end.Status == "failed" || end.Status != "completed" && t.lastErr != nil:
		e := end.Error
		if e == nil {
			e = t.lastErr
		}
		if e == nil {
			e = &turnError{Message: "Codex does not say why"}
		}
		f, _ := classify(e.Info, e.text())
		return agent.Result{}, t.failed(f)
	case end.Status != "completed":
		return agent.Result{}, t.failed(&agent.Failure{Kind: agent.Infra, Message: "the turn was " + end.Status})
	}
	if err := t.keepDiff(); err != nil {
		return agent.Result{}, err
	}
	output := []byte(t.answer)
	if t.req.Shaped {
		out, err := unshape(t.req.Schema, output)
		if err == nil {
			output = out
		}
	}
	res := agent.Result{
		Output: output, Session: t.sessionID(), Turn: t.id, Model: model, Usage: t.usage, Sandbox: sandbox,
	}
	if len(res.Output) > agent.MaxOutput {
		res.Output, res.Truncated = res.Output[:agent.MaxOutput], true
	}
	return res, nil
}

// failed adds what is known of the attempt to its failure.
func (t *turn) failed(why error) error {
	var f *agent.Failure
	if !asErr(why, &f) {
		return why
	}
	out := *f
	out.Usage = t.usage
	if f.Kind != agent.Limit || !f.Final {
		out.Session = t.sessionID()
	}
	return &out
}

// enforced returns the model and the sandbox that the turn really had, as the
// session's own record tells.
func (t *turn) enforced() (model, sandbox string) {
	model, sandbox = t.model, t.sandbox
	if t.rollout == "" {
		return model, sandbox
	}
	tail, err := readRollout(t.rollout, t.offset, nil)
	if err != nil {
		return model, sandbox // a record of Codex's own: ours says the same with less detail
	}
	if tail.Model != "" {
		model = tail.Model
	}
	if tail.Sandbox != "" {
		sandbox = tail.Sandbox
	}
	return model, sandbox
}
