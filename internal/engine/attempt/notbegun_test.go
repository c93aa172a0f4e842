package attempt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// The second row is of a release that did not have the field.
func TestNotBegun(t *testing.T) {
	for row, want := range map[string]bool{
		`{"kind":"interrupted","message":"m","resetAt":0,"notBegun":true}`:                       true,
		`{"kind":"interrupted","message":"stopped before it began","resetAt":0}`:                 true,
		`{"kind":"interrupted","message":"Plait ended while the agent was at work","resetAt":0}`: false,
	} {
		var f store.Failure
		if err := json.Unmarshal([]byte(row), &f); err != nil || NotBegun(f) != want {
			t.Errorf("%s: %t, want %t: %v", row, NotBegun(f), want, err)
		}
	}
}

// The nodes of steps stay what they were before rows had the field.
func TestNodesDoNotSayNotBegun(t *testing.T) {
	row := store.Attempt{Failure: &store.Failure{Kind: store.FailureInterrupted, Message: notBegunMessage, Void: true}}
	d := (&run{p: &Prepared{tries: tries{earlier: []store.Attempt{row}}}}).detail(agent.Result{})
	data, err := json.Marshal(d.Attempts)
	if err != nil || strings.Contains(string(data), "notBegun") || d.Attempts[0].Failure.Message != notBegunMessage {
		t.Errorf("%s, %v", data, err)
	}
	if !row.Failure.Void {
		t.Error("the row has lost it")
	}
}
