package view

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// TestAsks compares what gates ask with the sentences that people read.
func TestAsks(t *testing.T) {
	action := func(a gate.Action) json.RawMessage {
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	agent := func(a gate.Action) store.Gate {
		return store.Gate{Kind: store.GateApproval, Source: store.SourceAgent, Node: "mend", Action: action(a)}
	}
	merge := func(params string) store.Gate {
		return store.Gate{Kind: store.GateApproval, Source: store.SourceMerge,
			Action: action(gate.Action{Type: gate.Merging, Params: json.RawMessage(params)})}
	}
	for _, x := range []struct {
		g    store.Gate
		want string
		body string
	}{
		{agent(gate.Action{Type: gate.Command, Command: "git push"}), "mend wants to run `git push`", ""},
		{agent(gate.Action{Type: gate.Command, Command: "/bin/bash -lc 'go test ./...'"}),
			"mend wants to run `go test ./...`", ""},
		{agent(gate.Action{Type: gate.Command, Command: `/bin/bash -lc 'a' 'b'`}),
			"mend wants to run `/bin/bash -lc 'a' 'b'`", ""},
		{agent(gate.Action{Type: gate.Command, Command: "set -e\nrm -r x"}),
			"mend wants to run a script that begins with `set -e`", ""},
		{agent(gate.Action{Type: gate.FileChange, Diff: "--- a/sum.go\n+++ b/sum.go\n--- /dev/null\n+++ b/new.go\n"}),
			"mend wants to change `sum.go` and 1 more", ""},
		{agent(gate.Action{Type: gate.ToolCall, Tool: "fetch"}), "mend wants to call `fetch`", ""},
		{agent(gate.Action{Type: gate.Permissions}), "mend wants more access", ""},
		{store.Gate{Kind: store.GateInput, Source: store.SourceAgent, Node: "planner", Question: "which port?\n\nI looked."},
			"planner asks: which port?", "I looked."},
		{store.Gate{Kind: store.GateInput, Source: store.SourceWorker, Node: "port",
			Question: "- Which one?\n\nThere are two."}, "port asks: Which one?", "There are two."},
		{store.Gate{Kind: store.GateInput, Source: store.SourceFlow, Node: "port", Question: "* Is -v verbose?\n  - or not?"},
			"Is -v verbose?", "- or not?"},
		{store.Gate{Kind: store.GateInput, Source: store.SourceFlow, Node: "port", Question: "- A?\n- B?"}, "- A?", "- B?"},
		{store.Gate{Kind: store.GateInput, Source: store.SourceFlow, Node: "port", Question: "Which port?"}, "Which port?",
			""},
		{store.Gate{Kind: store.GateApproval, Source: store.SourceInterrupted, Node: "mend"},
			`"mend" was interrupted and may have changed files. Run it again?`,
			"Look at what it did first: its attempt and its files are on the task's page."},
		{store.Gate{Kind: store.GateApproval, Source: store.SourceLimit,
			Action: action(gate.Action{Type: gate.Raise,
				Params: json.RawMessage(`{"limit":"maxTokens","why":"100 of 90 tokens used"}`)})},
			"Limit reached: 100 of 90 tokens used. Allow as much again?", ""},
		{store.Gate{Kind: store.GateApproval, Source: store.SourceLimit,
			Action: action(gate.Action{Type: gate.Raise,
				Params: json.RawMessage(`{"limit":"tokens","why":"325 of 90 tokens used","raise":"maxTokens=650"}`)})},
			"Limit reached: 325 of 90 tokens used. Continue with maxTokens=650?", ""},
		{merge(`{"sides":[{"path":"a","branch":"plait/x/a"},{"path":"b","branch":"plait/x/b"}],"conflicts":{"b":["sum.go"]},"overlaps":{"sum.go":["a","b"]}}`),
			"Merge conflict in sum.go between a and b", ""},
		{merge(`{"sides":[{"path":"x"},{"path":"z"},{"path":"y"},{"path":"g"}],"conflicts":{"y":["m.go"]},"overlaps":{"m.go":["x","y","g"],"new.txt":["z","y"]}}`),
			"Merge conflict in m.go between x and y", ""},
		{merge(`{"sides":[{"path":"a"},{"path":"b"},{"path":"c"}],"conflicts":{"b":["m.go"],"c":["m.go"]},"overlaps":{"m.go":["a","b","c"]}}`),
			"Merge conflict in m.go between a, b and c", ""},
		{merge(`{"sides":[{"path":"a"},{"path":"b"}],"conflicts":{"b":["m.go"]},"overlaps":{}}`),
			"Merge conflict in m.go: the changes of b cannot be merged", ""},
		{store.Gate{Kind: store.GateApproval, Source: store.SourceMerge,
			Action: action(gate.Action{Type: gate.Merging, Params: json.RawMessage(
				`{"sides":[{"path":"a","branch":"x","protected":["Makefile"]}]}`)})},
			"Merge changes to Makefile, which can run code or instruct agents?", ""},
		{store.Gate{Kind: store.GateApproval, Source: store.SourceMerge,
			Action: json.RawMessage(`{"type":"merge","params":[1]}`)}, "Merge the agents' changes?", ""},
		{store.Gate{Kind: store.GateApproval, Source: store.SourceAgent, Action: json.RawMessage(`{"type":"new"}`)},
			"An agent asks for approval", ""},
	} {
		got := PhrasingOf(x.g)
		if got.Text() != x.want || got.Body != x.body {
			t.Errorf("got %q and %q, want %q and %q", got.Text(), got.Body, x.want, x.body)
		}
	}
	long := PhrasingOf(store.Gate{Source: store.SourceFlow, Kind: store.GateInput, Question: strings.Repeat("long ", 100)})
	if len([]rune(long.Headline)) > maxAsked || !strings.HasPrefix(long.Body, "long long") {
		t.Errorf("a long question: %q and %q", long.Headline, long.Body)
	}
}
