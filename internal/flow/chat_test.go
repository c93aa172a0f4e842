package flow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// A person's input is passed on verbatim; until then the conversation waits.
func TestNextOfChat(t *testing.T) {
	d, _ := parse.BuiltIn(flow.ChatFlow)
	answer := flow.Step{Role: "assistant",
		Meta: map[string]any{"$status": "$SUSPEND", "reason": "waits for what the person says next"},
		Body: "I am here."}
	said := func(text string) flow.Step { return flow.Step{Role: flow.InputRole, Body: text} }
	for name, tt := range map[string]struct {
		last []flow.Step
		want flow.Decision
	}{
		"it begins with what was asked": {nil, flow.Run{Role: "assistant", Prompt: "What {{ is }} here?"}},
		"it waits": {[]flow.Step{answer},
			flow.Blocked{Kind: flow.BlockedInput, Reason: "your turn"}},
		"it goes on": {[]flow.Step{answer, said("Go {{ on }}.")},
			flow.Run{Role: "assistant", Prompt: "Go {{ on }}."}},
		"two things are said at once": {[]flow.Step{answer, said("one"), said("two")},
			flow.Run{Role: "assistant", Prompt: "one\n\ntwo"}},
	} {
		if diff := cmp.Diff(tt.want, flow.Next(d, flow.At{Flow: flow.ChatFlow, Prompt: "What {{ is }} here?"},
			tt.last)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
