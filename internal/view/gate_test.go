package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

func TestAction(t *testing.T) {
	for _, tt := range []struct {
		name, action string
		whole, fails bool
	}{
		{"known", `{"type":"command","command":"make","cwd":"/w"}`, true, false},
		{"in another order", `{"cwd":"/w","command":"make","type":"command"}`, true, false},
		{"params", `{"type":"tool_call","tool":"web","params":{"b":1,"a":[2]}}`, true, false},
		{"a part nobody knows", `{"type":"command","command":"make","env":["X=1"]}`, false, false},
		{"a part in another spelling", `{"type":"command","Command":"make"}`, false, false},
		{"of another form", `["make"]`, false, true},
		{"no JSON", `make`, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			act, whole, err := view.Action(store.Gate{ID: "g-1", Action: []byte(tt.action)})
			if whole != tt.whole || (err != nil) != tt.fails {
				t.Errorf("got %+v, %t, %v", act, whole, err)
			}
		})
	}
}

func TestGates(t *testing.T) {
	r, root := newRecord(t)
	_, err := gate.New(gate.Config{Store: r.store}).Open(t.Context(), store.Gate{
		Kind: store.GateInput, Source: store.SourceAgent, Task: root.row.ID, Thread: root.row.ID, From: root.row.Head,
		Node: "review", Instance: "review-1", Question: "Which?",
	})
	if err != nil {
		t.Fatal(err)
	}
	b := r.book()
	here, err := b.Gates(t.Context(), view.GateFilter{State: store.GateOpen})
	if err != nil || len(here) != 1 || here[0].Options == nil || view.Asker(here[0]) != "review/review-1" ||
		view.About(here[0]) != "Which?" {
		t.Fatalf("got %+v, %v", here, err)
	}
	one, err := b.Gate(t.Context(), here[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(here[0], one); diff != "" {
		t.Errorf("-listed +one\n%s", diff)
	}
	b.Workspace = "/elsewhere"
	for _, all := range []bool{false, true} {
		if got, err := b.Gates(t.Context(), view.GateFilter{All: all}); err != nil || got == nil || (len(got) == 1) != all {
			t.Errorf("all %t: %+v, %v", all, got, err)
		}
	}
}

// Who asks is named once, even where an action has the name of its agent.
func TestAskedBy(t *testing.T) {
	for want, g := range map[string]view.Gate{
		"fix":        {Label: "fix", Instance: "fix"},
		"api/fix":    {Label: "api/fix", Node: "fix"},
		"api/review": {Label: "api", Node: "review"},
		"review":     {Node: "review"},
	} {
		if got := g.AskedBy(); got != want {
			t.Errorf("%+v: got %q, want %q", g, got, want)
		}
	}
}
