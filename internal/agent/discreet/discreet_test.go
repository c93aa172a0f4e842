package discreet_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/discreet"
	"github.com/plait-run/plait/internal/sys/secret"
)

const held = "sk-VERYSECRET"

func listen(req agent.Request) (agent.Request, *discreet.Listener, *[]agent.Event) {
	secrets := &secret.Set{}
	secrets.Add(held)
	var events []agent.Event
	req, l := discreet.Of(secrets, req, func(ev agent.Event) error { events = append(events, ev); return nil })
	return req, l, &events
}

// TestEvents has an agent say a key in pieces, and in every field of an event.
func TestEvents(t *testing.T) {
	_, l, events := listen(agent.Request{})
	for _, ev := range []agent.Event{
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "it is sk-VERY"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "sk-VE"},
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "SECRET; less"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "RYSECRET, sk"},
		{Kind: agent.EventMessage, ID: "1", Phase: "completed", Text: "it is sk-VERYSECRET; less"},
		{Kind: agent.EventTool, ID: "2", Phase: "completed", Text: held, Output: held, Asked: held,
			Detail: json.RawMessage(`{"key":"` + held + `"}`), Files: []agent.File{{Path: "a/" + held, Diff: "+" + held}}},
		{Kind: agent.EventProgress, Text: "less"},
	} {
		if err := l.Emit(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	want := []agent.Event{
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "it is "},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated"},
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "***; les"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "***, "},
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "s"},
		{Kind: agent.EventMessage, ID: "1", Phase: "completed", Text: "it is ***; less"},
		{Kind: agent.EventTool, ID: "2", Phase: "completed", Text: "***", Output: "***", Asked: "***",
			Detail: json.RawMessage(`{"key":"***"}`), Files: []agent.File{{Path: "a/***", Diff: "+***"}}},
		{Kind: agent.EventProgress, Text: "less"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "sk"},
	}
	if diff := cmp.Diff(want, *events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestQuestion: people see a question without the key; the agent keeps its own.
func TestQuestion(t *testing.T) {
	var seen agent.Question
	req, _, _ := listen(agent.Request{Ask: func(_ context.Context, q agent.Question) (agent.Answer, error) {
		seen = q
		return agent.Answer{Approved: true}, nil
	}})
	asked := agent.Question{Text: "use " + held + "?", Action: agent.Action{Type: "command", Command: "curl -H " + held,
		Params: json.RawMessage(`{"h":"` + held + `"}`)}}
	if a, err := req.Ask(t.Context(), asked); err != nil || !a.Approved || a.Edited != nil {
		t.Errorf("answer %+v, %v", a, err)
	}
	want := agent.Question{Text: "use ***?", Action: agent.Action{Type: "command", Command: "curl -H ***",
		Params: json.RawMessage(`{"h":"***"}`)}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	if !strings.Contains(asked.Action.Command, held) {
		t.Error("the agent's own action was changed")
	}
}
