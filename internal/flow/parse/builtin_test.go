package parse

import (
	"testing"

	"github.com/plait-run/plait/internal/flow"
)

func TestBuiltIns(t *testing.T) {
	names := BuiltIns()
	if len(names) == 0 {
		t.Fatal("no flow is built in")
	}
	for _, name := range names {
		def, ok := BuiltIn(name)
		if !ok {
			t.Errorf("%s cannot be loaded", name)
			continue
		}
		if def.Name != name {
			t.Errorf("file %s.yaml holds flow %s", name, def.Name)
		}
	}
	for _, name := range []string{"", "none", "../solo", "solo.yaml"} {
		if _, ok := BuiltIn(name); ok {
			t.Errorf("BuiltIn(%q) found a flow", name)
		}
	}
}

// Package flow says how the actions of a plan end without reading the flow of workers.
func TestActionEnds(t *testing.T) {
	def, ok := BuiltIn(flow.WorkerFlow)
	if !ok {
		t.Fatal("there is no flow of workers")
	}
	for status, route := range def.Graph["worker"] {
		want := ""
		switch {
		case route.Role == flow.EndNode && route.Code == 0:
			want = flow.PathCompleted
		case route.Role == flow.EndNode:
			want = flow.PathFailed
		}
		if got := flow.ActionEnds(status); got != want {
			t.Errorf("%s ends %q, in the flow of workers %q", status, got, want)
		}
	}
	planning := &flow.Definition{}
	for gate := range def.Gates {
		meta := map[string]any{"actions": []any{map[string]any{"id": gate, "prompt": "x"}}}
		if _, wrong := planning.CheckPlan(meta, 0); len(wrong) != 1 {
			t.Errorf("an action is called %s as a gate of the flow of workers: %v", gate, wrong)
		}
	}
	if len(def.Gates) == 0 {
		t.Error("the flow of workers has no gate")
	}
}
