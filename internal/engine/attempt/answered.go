package attempt

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// answerOf returns the answer that an approval gives to a question with this digest. It approves nothing else:
// an agent that can only carry out what it asked for is told no, along with what was approved.
func answerOf(g store.Gate, digest dag.Hash, editable bool) (agent.Answer, error) {
	action, approved, err := gate.Carries(g)
	switch {
	case err != nil:
		return agent.Answer{}, err
	case approved == digest:
		return agent.Answer{Approved: true, Text: g.Text}, nil
	case !editable:
		return agent.Answer{Text: "not this, but exactly: " + string(action)}, nil
	}
	var act gate.Action
	if err := json.Unmarshal(action, &act); err != nil {
		return agent.Answer{}, fmt.Errorf("gate %s: action: %w", g.ID, err)
	}
	return agent.Answer{Approved: true, Text: g.Text, Edited: (*agent.Action)(&act)}, nil
}

// Unanswered returns the reason to block a thread for an open question of an agent that no longer runs.
func Unanswered(g store.Gate) store.Reason {
	return store.Reason{Kind: store.ReasonGate, Gate: g.ID, Message: event.Brief(g.Node + " asks: " + about(g))}
}

// about returns the subject of a gate: the action, otherwise the question.
func about(g store.Gate) string {
	var a gate.Action
	if json.Unmarshal(g.Action, &a) != nil {
		return g.Question
	}
	switch {
	case a.Command != "":
		return "may it run " + a.Command
	case a.Tool != "":
		return "may it call " + a.Tool
	case a.Diff != "":
		return "may it change files"
	}
	return g.Question
}

// AnswersWhileDown returns what people answered to the questions of interrupted attempts at role, at this head,
// which their agent never received. For a plan's agents it returns only answers to the last attempt: they start
// over after any other one, with their files put back, and ask again. The earlier answers still apply.
func (e *Runner) AnswersWhileDown(ctx context.Context, c *Thread, role string) (string, error) {
	cut := map[string]bool{}
	for i, a := range c.Tries {
		if a.Status == store.AttemptInterrupted && (i == len(c.Tries)-1 || !c.InPlan(role)) {
			cut[a.ID] = true
		}
	}
	if len(cut) == 0 {
		return "", nil
	}
	gates, err := e.cfg.Gates.Gates(ctx, store.GateFilter{Thread: c.Row.ID})
	if err != nil {
		return "", err
	}
	note := ""
	for _, g := range gates {
		if g.From != c.Row.Head || g.Source != store.SourceAgent || !cut[g.Attempt] || g.UsedAt != 0 {
			continue
		}
		var action gate.Action
		if err := json.Unmarshal(g.Action, &action); err != nil {
			return "", fmt.Errorf("gate %s: action: %w", g.ID, err)
		}
		what := "what you asked for (" + action.Type + ")"
		switch {
		case action.Command != "":
			what = "the command you asked about, `" + action.Command + "`,"
		case action.Diff != "":
			what = "the change you asked about"
		case action.Tool != "":
			what = "the call of " + action.Tool
		}
		var answer string
		switch {
		case g.State == store.GateApproved && g.Edited != nil:
			answer = "approved in another form. Do exactly this, and go on: " + string(g.Edited)
		case g.State == store.GateApproved:
			answer = "approved. Do it now, exactly so, and go on."
		case g.State.Refused():
			answer = "denied. Go on without it."
		default:
			continue
		}
		note += "Your last turn was interrupted while you waited for an answer: " + what + " was " + answer
		if g.Text != "" {
			note += " The answer: " + g.Text
		}
		note += "\n"
	}
	return note, nil
}
