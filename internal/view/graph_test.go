package view_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// ways returns the edges of a graph, one a line.
func ways(g *view.Graph) []string {
	out := []string{}
	for _, e := range g.Edges {
		out = append(out, fmt.Sprintf("%s -%s-> %s (%s)", e.From, e.Label, e.To, e.Kind))
	}
	return out
}

func kinds(g *view.Graph) map[string]string {
	out := map[string]string{}
	for _, n := range g.Nodes {
		out[n.ID] = n.Kind
	}
	return out
}

func TestFlowGraphOfBuiltIns(t *testing.T) {
	want := map[string]struct {
		kinds map[string]string
		ways  []string
	}{
		"solo": {map[string]string{"$START": "start", "solo": "role", "$END": "end"},
			[]string{"$START -new-> solo (route)", "$START -resume-> solo (route)", "solo -done-> $END (route)"}},
		"chat": {map[string]string{"$START": "start", "assistant": "chat", "$END": "end"},
			[]string{"$START -new-> assistant (route)", "assistant -more is said-> assistant (input)",
				"assistant -ended by the person-> $END (input)"}},
		"orchestrate": {map[string]string{"$START": "start", "planner": "plan", "$END": "end"},
			[]string{"$START -new-> planner (route)", "$START -resume-> planner (route)", "planner -finished-> $END (route)"}},
		"worker": {map[string]string{"$START": "start", "worker": "role", "question": "gate", "$END": "end"},
			[]string{"$START -new-> worker (route)", "question -answered-> worker (route)", "worker -blocked-> question (route)",
				"worker -failed (code 1)-> $END (route)", "worker -success-> $END (route)"}},
	}
	for _, name := range parse.BuiltIns() {
		t.Run(name, func(t *testing.T) {
			d, _ := parse.BuiltIn(name)
			g := view.FlowGraph(d)
			w, ok := want[name]
			if !ok {
				t.Fatal("nobody says how it looks")
			}
			if diff := cmp.Diff(w.kinds, kinds(g)); diff != "" {
				t.Errorf("nodes: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(w.ways, ways(g)); diff != "" {
				t.Errorf("edges: -want +got\n%s", diff)
			}
			if g.Nodes[0].ID != "$START" || g.Nodes[len(g.Nodes)-1].ID != "$END" {
				t.Errorf("they stand in another order: %+v", g.Nodes)
			}
		})
	}
}

const forked = `
version: 1
name: forked
roles:
  read: {description: reads, access: read, agent: reader}
  build: {flow: make}
  write: {description: writes, agent: {kind: command, command: [make, "x y"]}}
forks:
  split: {forkStrategy: serial, forkPaths: [{pathId: one, childNodeId: read}, {pathId: two, childNodeId: write}]}
joins:
  met: {forkPathIds: [one, two], joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 1, timeout: 60}
graph:
  $START: {new: {role: split, prompt: go}}
  read: {done: {role: met}}
  write: {done: {role: met}}
  met: {joined: {role: build, prompt: build}, failed: {role: $END, prompt: no, code: 3}, timeout: {role: $END, prompt: late}}
  build: {done: {role: $END, prompt: over}}
`

func TestFlowGraphOfForks(t *testing.T) {
	d, problems := parse.Parse(nil, "forked.yaml", []byte(forked))
	if d == nil {
		t.Fatal(problems)
	}
	g := view.FlowGraph(d)
	want := map[string]string{"$START": "start", "$END": "end", "read": "role", "build": "call", "write": "role",
		"split": "fork", "met": "join"}
	if diff := cmp.Diff(want, kinds(g)); diff != "" {
		t.Errorf("nodes: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"$START -new-> split (route)", "build -done-> $END (route)", "met -failed (code 3)-> $END (route)",
		"met -joined-> build (route)", "met -timeout-> $END (route)",
		"read -done-> met (route)", "write -done-> met (route)", "split -one-> read (path)", "split -two-> write (path)",
	}, ways(g)); diff != "" {
		t.Errorf("edges: -want +got\n%s", diff)
	}
	for id, says := range map[string]string{"read": "reader", "write": `command ["make" "x y"]`, "build": "calls make",
		"met": "SUCCESS_COUNT_THRESHOLD of 1, at most 1m0s", "split": "serial"} {
		i := slices.IndexFunc(g.Nodes, func(n view.GraphNode) bool { return n.ID == id })
		if n := g.Nodes[i]; n.Agent != says && n.Note != says {
			t.Errorf("%s says %q and %q, not %q", id, n.Agent, n.Note, says)
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	graphs, err := view.BundleGraphs(thread.Bundle{Name: "forked",
		Flows: map[string]json.RawMessage{"forked": data, "a": []byte(`{"name":"a"}`)}})
	if err != nil || len(graphs) != 2 || graphs[0].Flow != "forked" || graphs[1].Flow != "a" {
		t.Errorf("%+v: %v", graphs, err)
	}
	if _, err := view.BundleGraphs(thread.Bundle{Name: "gone"}); err == nil {
		t.Error("a bundle without its flow has a graph")
	}
}
