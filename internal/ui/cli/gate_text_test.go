package cli

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
)

func TestWhatAGateAsks(t *testing.T) {
	diff, err := json.Marshal("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n+c\n--- a/y\n+++ b/y\x1b[2J\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		g    store.Gate
		want []string
	}{
		"a command": {store.Gate{Kind: store.GateApproval, Question: "May I?",
			Action: []byte(`{"type":"command","command":"make\nrm -rf"}`)}, []string{"May I?", "command: make …"}},
		"a diff": {store.Gate{Kind: store.GateApproval, Action: []byte(`{"type":"file_change","diff":` +
			string(diff) + `}`)}, []string{`diff: +2 -1 lines in x, y\x1b[2J`}},
		"a tool": {store.Gate{Kind: store.GateApproval, Action: []byte(`{"type":"tool_call","tool":"web"}`)},
			[]string{"tool: web"}},
		"only a name": {store.Gate{Kind: store.GateApproval, Action: []byte(`{"type":"attempt"}`)}, []string{"attempt"}},
		"a question": {store.Gate{Kind: store.GateInput, Question: "Which?", Options: []string{"a", "b"}},
			[]string{"Which?", "- a", "- b"}},
	} {
		if diff := cmp.Diff(tt.want, asks(tt.g, 60)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
