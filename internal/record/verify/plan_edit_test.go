package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

// planner grows a task that plans a (spawned), b (forked, the main path) and c (spawned).
func planner(t *testing.T) (g *grove, root store.Thread) {
	g = newGrove(t, goal...)
	g.answers["dig"] = []string{"---\n$status: found\n---\nGold."}
	for _, id := range []string{"a", "b", "c"} {
		g.answers[id] = []string{output("success", "")}
	}
	g.answers["boss"] = []string{
		plan(`, "join": {"joinStrategy": "ALL_COMPLETED"}`, [2]string{"a", `, "title": "First"`}, [2]string{"b", forked},
			[2]string{"c", `, "dependsOn": ["a"]`}), finished,
	}
	root = g.drive(g.plant().ID)
	ended(g, root, store.Completed)
	return g, root
}

// Every edited link of a plan, its actions and its join is named, even though all hashes above
// it are correct again.
func TestEditedPlans(t *testing.T) {
	g, root := planner(t)
	a, b, c := g.path("a"), g.path("b"), g.path("c")
	g.answers["boss"] = append(g.answers["boss"], g.answers["boss"]...)
	g.prompt = "do that"
	other := g.drive(g.plant().ID)
	ended(t, other, store.Completed)
	g.sound()
	otherA, otherPlan := g.path("a"), g.state(g.at(other, thread.RoleJoin)).Fork

	join := g.at(root, thread.RoleJoin)
	plan, end := g.state(join).Fork, a.Head
	actA, actB, last := g.at(a, "a"), g.at(b, "b"), g.at(root, "boss")
	said := func(text string) string { return g.content(text).String() }
	set := func(field string, value any) func(map[string]any) {
		return func(p map[string]any) { p[field] = value }
	}
	meta := func(field string, value any) func(map[string]any) {
		return func(p map[string]any) { p["meta"].(map[string]any)[field] = value }
	}
	actions := func(p map[string]any) []any { return p["meta"].(map[string]any)["actions"].([]any) }
	action := func(i int, field string, value any) func(map[string]any) {
		return func(p map[string]any) { actions(p)[i].(map[string]any)[field] = value }
	}
	after := func(h dag.Hash) func(map[string]any) {
		return set("ancestors", append([]any{h.String()}, hashes(g.state(h).Ancestors)...))
	}
	all := func(edits ...func(map[string]any)) func(map[string]any) {
		return func(p map[string]any) {
			for _, edit := range edits {
				edit(p)
			}
		}
	}
	type edits map[dag.Hash]func(map[string]any)
	tests := []struct {
		name  string
		edits edits
		want  string
	}{
		{"prompt of a worker", edits{a.Start: set("prompt", said("else"))}, "its prompt is not that of action a"},
		{
			"prompt of a worker is that of a sibling", edits{a.Start: set("prompt", g.start(c).Prompt.String())},
			"its prompt is not that of action a",
		},
		{"action of a worker is its sibling", edits{a.Start: set("action", "c")}, "its prompt is not that of action c"},
		{"action of a worker is none of the plan", edits{a.Start: set("action", "z")}, "spawns no action \"z\""},
		{"a worker of no action", edits{a.Start: set("action", nil)}, "action a at"},
		{"worker of another plan", edits{join: onPath(0, "head", otherA.Head.String())}, "was not spawned by its plan"},
		{
			"worker called from another plan", edits{a.Start: set("parentState", otherPlan.String())},
			"was not spawned by its plan",
		},
		{
			"worker called from elsewhere", edits{a.Start: set("parentState", root.Start.String())},
			"was not spawned by its plan",
		},
		{"worker's depth", edits{a.Start: set("depth", 2)}, "has depth 2, its caller 0"},
		{"worker's flow", edits{a.Start: set("name", "leaf")}, "was not spawned by its plan"},
		{"role of a worker's step", edits{actA: set("role", "c")}, "flow worker leads to a here"},
		{"role of a worker's step is the worker's", edits{actA: set("role", "worker")}, "flow worker leads to a here"},
		{"role of a forked action's step", edits{actB: set("role", "a")}, "flow goal leads to b here"},
		{"what a worker handed back", edits{actA: meta("summary", "else")}, "its meta of path a"},
		{
			"what a forked action handed back", edits{actB: meta("$status", "blocked")},
			"path b is completed, but has not reached its join",
		},
		{"return code of a worker", edits{end: meta("returnCode", 1)}, "has return code 1, flow worker ends with 0 here"},
		{"forked action as spawned", edits{plan: action(1, "mode", "spawn")}, "action b at"},
		{"spawned action as forked", edits{plan: action(0, "mode", "fork")}, "path a at"},
		{"another worker in the place of a forked action", edits{join: onPath(1, "head", c.Head.String())}, "path b at"},
		{
			"workers exchanged", edits{join: all(onPath(0, "head", c.Head.String()), onPath(2, "head", a.Head.String()))},
			"is another action's thread",
		},
		{"head of a worker is before its end", edits{join: onPath(0, "head", actA.String())}, "has no end"},
		{
			"head of a forked action is before its end", edits{join: onPath(1, "head", plan.String())},
			"path b is completed without a step",
		},
		{"thread of a worker", edits{join: onPath(0, "thread", c.ID)}, "path a: its thread " + c.ID},
		{
			"an action left out of a join", edits{join: func(p map[string]any) { p["paths"] = paths(p)[:2] }},
			"its paths are [a b], those of flow goal are [a b c]",
		},
		{
			"actions of a join in another order", edits{join: func(p map[string]any) { slices.Reverse(paths(p)) }},
			"its paths are [c b a]",
		},
		{"parent of a join is a worker's head", edits{join: after(a.Head)}, "is not the head of path b"},
		{"parent of a join is its fork", edits{join: after(plan)}, "is not the head of path b"},
		{"fork of a join is another plan", edits{join: set("fork", otherPlan.String())}, "is no step of its thread"},
		{"content of a join", edits{join: set("content", said("else"))}, "its content is not what its paths said"},
		{
			"status of a worker in a join", edits{join: onPath(0, "status", "failed")},
			"action a is failed, its thread ended with 0",
		},
		{
			"status of a forked action in a join", edits{join: onPath(1, "status", "failed")},
			"path b is failed, but has reached its join",
		},
		{
			"status of a worker in a join's meta", edits{join: func(p map[string]any) { metaPath(p, "a")["status"] = "failed" }},
			`its meta says that path a is "failed"`,
		},
		{
			"join failed where the plan blocks", edits{join: meta("$status", "failed")}, `has no route for its $status "failed"`,
		},
		{
			"join failed though all is completed", edits{join: meta("$status", "failed"), plan: meta("onFailed", "plan")},
			`its paths cannot have come to its $status "failed"`,
		},
		{
			"time up that the plan did not set", edits{join: meta("$status", "timeout"), plan: meta("onFailed", "plan")},
			`its paths cannot have come to its $status "timeout"`,
		},
		{"decided by one where all were needed", edits{join: meta("decidedBy", "b")}, "decidedBy by path b"},
		{
			"actions of a plan in a circle", edits{plan: action(0, "dependsOn", []any{"c"})},
			"state of boss: its plan: /actions: they depend on each other in a circle",
		},
		{"id of an action", edits{plan: action(0, "id", "c")}, `its plan: /actions/2/id: "c" is the id of /actions/0`},
		{"mode that there is not", edits{plan: action(0, "mode", "else")}, "its plan: /actions/0/mode"},
		{"key that there is not", edits{plan: action(0, "more", 1)}, "its plan: "},
		{"prompt of an action", edits{plan: action(0, "prompt", "else")}, "its prompt is not that of action a"},
		{"goal of a plan", edits{plan: meta("sessionGoal", "else")}, "its prompt is not that of action a"},
		{"main path of a plan", edits{plan: meta("join", map[string]any{"mainPathId": "a"})}, "its plan: /join/mainPathId"},
		{
			"strategy of a plan", edits{plan: meta("join", map[string]any{"joinStrategy": "ANY_FAILED"})},
			`its paths cannot have come to its $status "joined"`,
		},
		{"an action more", edits{plan: func(p map[string]any) {
			p["meta"].(map[string]any)["actions"] = append(actions(p), map[string]any{"id": "d", "prompt": "do d"})
		}}, "its paths are [a b c], those of flow goal are [a b c d]"},
		{"a plan that was none", edits{plan: meta("$status", "ask")}, "does not lead to the paths of this join"},
		{"what the planner decided at last", edits{last: meta("$status", "ask")}, "flow goal leads to the gate boss here"},
		{"role of a join", edits{join: set("role", "joined")}, "flow goal has no such join"},
		{
			"paths of a join are gone", edits{join: func(p map[string]any) { p["paths"], p["fork"] = nil, nil }},
			"state of __join__: leaves path ",
		},
	}
	if s, _ := forge(t, g, nil); !mustReport(t, s).OK() {
		t.Fatalf("a true copy: %.600s", lines(mustReport(t, s)))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := forge(t, g, tt.edits)
			for h := range tt.edits {
				if f.now(h) == h {
					t.Fatal("nothing was edited")
				}
			}
			r := mustReport(t, s)
			named := slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return strings.Contains(p.What, tt.want) })
			if r.Integrity != verify.Failed || !named {
				t.Errorf("want %q, got\n%.800s", tt.want, lines(r))
			}
		})
	}
}

// What is lost of a plan is missing, and makes nothing else wrong.
func TestLostInAPlan(t *testing.T) {
	g, root := planner(t)
	f := g.byHand(g.path("b"), 2)
	g.drive(f.ID)
	g.drive(g.byHand(g.path("a"), 0).ID)
	g.drive(g.byHand(root, 1).ID)
	g.whole()
	g.loseEach()
}

func (g *grove) start(row store.Thread) *thread.Start {
	g.Helper()
	s, err := g.reader.Start(ctx, row.Start)
	g.must(err)
	return s
}
