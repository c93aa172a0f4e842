package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

const twoWays = `
version: 1
name: twoways
roles: {first: {description: begins}, left: {description: l}, right: {description: r}, last: {description: ends}}
forks:
  split: {forkStrategy: parallel, forkPaths: [{pathId: l, childNodeId: left}, {pathId: r, childNodeId: right}]}
joins:
  met: {forkPathIds: [l, r], joinStrategy: ALL_COMPLETED}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {again: {role: first, prompt: more}, done: {role: split, prompt: go}}
  left: {done: {role: met}}
  right: {done: {role: met}}
  met: {joined: {role: last, prompt: all}}
  last: {done: {role: $END, prompt: over}}
`

// marks are the state and the visits of each node of a task's graph, and how often its edges
// were gone.
func (s *site) marks(id string) (nodes map[string]string, edges map[string]int) {
	s.t.Helper()
	nodes, edges = map[string]string{}, map[string]int{}
	g := s.data("/api/v1/tasks/" + id + "/graph").(map[string]any)
	for _, n := range g["nodes"].([]any) {
		n := n.(map[string]any)
		nodes[n["id"].(string)] = strings.TrimSpace(strings.Repeat("|", int(n["visits"].(float64))) + " " + n["state"].(string))
	}
	for _, e := range g["edges"].([]any) {
		e := e.(map[string]any)
		if n := int(e["taken"].(float64)); n > 0 {
			edges[e["from"].(string)+" "+e["label"].(string)] = n
		}
	}
	return nodes, edges
}

// TestForkGraph counts steps of paths once, whether or not they stand in the chain.
func TestForkGraph(t *testing.T) {
	done := say("---\n$status: done\n---\ndone")
	h := newHouse(t, map[string]scripted{"first": say("---\n$status: again\n---\n", "---\n$status: again\n---\n", "---\n$status: done\n---\n"), "left": done, "right": done, "last": done})
	row := h.run(twoWays, "go")
	h.ends(row.ID, store.Completed)
	nodes, edges := h.open("").marks(row.ID)
	if diff := cmp.Diff(map[string]string{
		"$START": "| done", "first": "||| done", "split": "| done", "left": "| done", "right": "| done", "met": "| done", "last": "| done", "$END": "| done",
	}, nodes); diff != "" {
		t.Errorf("nodes: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"$START new": 1, "first again": 2, "first done": 1, "split l": 1, "split r": 1, "left done": 1, "right done": 1, "met joined": 1, "last done": 1}, edges); diff != "" {
		t.Errorf("edges: -want +got\n%s", diff)
	}
}

// TestPlanGraph shows the actions of the newest plan, and how far they are.
func TestPlanGraph(t *testing.T) {
	const plan = `{"sessionGoal":"g","actions":[{"id":"one","title":"The first","prompt":"p","access":"read"},{"id":"two","prompt":"p","access":"read","dependsOn":["one"]}]}`
	success := say(`{"status":"success","summary":"s"}`)
	h := newHouse(t, map[string]scripted{"planner": say(plan, `{"finish":{"summary":"s","report":"r"}}`), "one": success,
		"two": say(`{"status":"blocked","summary":"which?","questions":["which?"]}`, `{"status":"success","summary":"s"}`)})
	s := h.open("")
	if d, _ := flow.BuiltIn("orchestrate"); len(d.Plans()) != 1 {
		t.Fatal("nobody plans")
	}
	id := s.begun(`{"flow":"orchestrate","prompt":"go"}`)
	g := h.gate(id)
	eventually(t, "the worker that asks", func() error {
		states := map[string]any{}
		for _, m := range s.data("/api/v1/tasks/" + id).(map[string]any)["roster"].([]any) {
			states[m.(map[string]any)["instance"].(string)] = m.(map[string]any)["state"]
		}
		if want := (map[string]any{"planner": "completed", "one": "completed", "two": "blocked"}); !cmp.Equal(want, states) {
			return fmt.Errorf("%v", states)
		}
		return nil
	})
	nodes, _ := s.marks(id)
	want := map[string]string{"$START": "| done", "planner": "| done", "planner/one": "| done", "planner/two": "| blocked", "planner/__join__": "running", "$END": ""}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("meanwhile: -want +got\n%s", diff)
	}
	if res := s.post("/api/v1/gates/"+g.ID+"/answer", `{"text":"this"}`); res.code != 200 {
		t.Fatal(res.body)
	}
	h.ends(id, store.Completed)
	nodes, _ = s.marks(id)
	want = map[string]string{"$START": "| done", "planner": "|| done", "planner/one": "| done", "planner/two": "| done", "planner/__join__": "| done", "$END": "| done"}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("at the end: -want +got\n%s", diff)
	}
	if err := harmlessSVG(cutSVG(s.get("/tasks/" + id + "?tab=graph").body)); err != nil {
		t.Error(err)
	}
}
