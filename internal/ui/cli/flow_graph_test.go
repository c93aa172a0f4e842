package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/view"
)

// TestDrawFlow draws a fork, a join, a way back, and a node that nothing leads to.
func TestDrawFlow(t *testing.T) {
	role := func(agent string) flow.Role { return flow.Role{Access: "read", Agent: &flow.AgentRef{Name: agent}} }
	d := &flow.Definition{Name: "f",
		Roles: map[string]flow.Role{"plan": role("codex"), "api": role("co\x1bdex"), "db": role("codex"), "sum": role("codex"),
			"lost": role("codex")},
		Forks: map[string]flow.ForkSpec{"look": {Strategy: "parallel",
			Paths: []flow.BranchPath{{ID: "a", Child: "api"}, {ID: "b", Child: "db"}}}},
		Joins: map[string]flow.JoinSpec{"seen": {Strategy: "ALL_COMPLETED"}},
		Graph: map[string]map[string]flow.Route{
			flow.Start: {"new": {Role: "plan"}}, "plan": {"ready": {Role: "look"}},
			"api": {"done": {Role: "seen"}}, "db": {"done": {Role: "seen"}},
			"seen": {"joined": {Role: "sum"}, "failed": {Role: flow.EndNode, Code: 1}},
			"sum":  {"again": {Role: "plan"}, "done": {Role: flow.EndNode}},
			"lost": {"done": {Role: flow.EndNode}},
		}}
	var out bytes.Buffer
	drawFlow(page{Writer: &out}, view.FlowGraph(d))
	want := `start
└─ new → plan  read, codex
   └─ ready → look  parallel
      ├─ a → api  read, co�dex
      │  └─ done → seen  ALL_COMPLETED
      │     ├─ failed (code 1) → end
      │     └─ joined → sum  read, codex
      │        ├─ again → plan ↑
      │        └─ done → end
      └─ b → db  read, codex
         └─ done → seen ↑
lost
└─ done → end
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
