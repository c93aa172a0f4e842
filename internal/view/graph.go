package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Graph is a flow as nodes and edges.
type Graph struct {
	Flow  string      `json:"flow"`
	Nodes []GraphNode `json:"nodes"`
	Edges []GraphEdge `json:"edges"`
}

// A GraphNode is a node of a flow.
type GraphNode struct {
	ID    string `json:"id"`    // unique in the graph: the name
	Kind  string `json:"kind"`  // start role plan chat call fork join gate end
	Label string `json:"label"` // as shown to people
	Note  string `json:"note"`  // a short description: access, strategy or question
	Agent string `json:"agent"` // named by the flow, "" for none
	Flow  string `json:"flow"`  // called by the node
}

// A GraphEdge leads from one node to another.
type GraphEdge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label"` // its status or path
	Kind  string `json:"kind"`  // route path input
}

// Kinds of nodes.
const (
	NodeStart = "start"
	NodeRole  = "role"
	NodePlan  = "plan"
	NodeChat  = "chat"
	NodeCall  = "call"
	NodeFork  = "fork"
	NodeJoin  = "join"
	NodeGate  = "gate"
	NodeEnd   = "end"
)

// Kinds of edges.
const (
	EdgeRoute = "route" // by a status
	EdgePath  = "path"  // from a fork to the child of a path
	EdgeInput = "input" // on a person's input
)

// FlowGraph returns the graph of a definition. Its order is fixed: $START, the nodes by name,
// $END. Edges to undefined nodes are left out.
func FlowGraph(d *flow.Definition) *Graph {
	g := &Graph{Flow: d.Name, Nodes: []GraphNode{}, Edges: []GraphEdge{}}
	names := map[string]bool{}
	add := func(n GraphNode) {
		if !names[n.ID] {
			names[n.ID] = true
			g.Nodes = append(g.Nodes, n)
		}
	}
	add(GraphNode{ID: flow.Start, Kind: NodeStart, Label: "start"})
	add(GraphNode{ID: flow.EndNode, Kind: NodeEnd, Label: "end"})
	for _, name := range sortedNames(d.Roles) {
		r := d.Roles[name]
		n := GraphNode{ID: name, Kind: NodeRole, Label: name, Note: string(r.Access)}
		switch {
		case r.Flow != "":
			n.Kind, n.Flow, n.Note = NodeCall, r.Flow, "calls "+r.Flow
		case r.Plan:
			n.Kind = NodePlan
		case r.Chat:
			n.Kind = NodeChat
		}
		if r.Agent != nil {
			n.Agent = DoneBy(r)
		}
		add(n)
	}
	for _, name := range sortedNames(d.Forks) {
		add(GraphNode{ID: name, Kind: NodeFork, Label: name, Note: d.Forks[name].Strategy})
	}
	for _, name := range sortedNames(d.Joins) {
		add(GraphNode{ID: name, Kind: NodeJoin, Label: name, Note: JoinNote(d.Joins[name])})
	}
	for _, name := range sortedNames(d.Gates) {
		add(GraphNode{ID: name, Kind: NodeGate, Label: name, Note: d.Gates[name].Kind})
	}
	end := g.Nodes[1]
	g.Nodes = append(slices.Delete(g.Nodes, 1, 2), end)
	edge := func(e GraphEdge) {
		if names[e.From] && names[e.To] {
			g.Edges = append(g.Edges, e)
		}
	}
	for _, from := range sortedNames(d.Graph) {
		if _, fork := d.Forks[from]; fork {
			continue // its paths are its edges
		}
		for _, status := range sortedNames(d.Graph[from]) {
			r := d.Graph[from][status]
			label := status
			if r.Role == flow.EndNode && r.Code != 0 {
				label = fmt.Sprintf("%s (code %d)", status, r.Code)
			}
			edge(GraphEdge{From: from, To: r.Role, Label: label, Kind: EdgeRoute})
		}
	}
	for _, name := range sortedNames(d.Forks) {
		for _, p := range d.Forks[name].Paths {
			edge(GraphEdge{From: name, To: p.Child, Label: p.ID, Kind: EdgePath})
		}
	}
	for _, name := range sortedNames(d.Roles) {
		if d.Roles[name].Chat {
			edge(GraphEdge{From: name, To: name, Label: "more is said", Kind: EdgeInput})
			edge(GraphEdge{From: name, To: flow.EndNode, Label: "ended by the person", Kind: EdgeInput})
		}
	}
	return g
}

// BundleGraphs returns the graphs of a bundle: its flow's first, then those of called flows.
func BundleGraphs(b thread.Bundle) ([]*Graph, error) {
	names := append([]string{b.Name}, slices.DeleteFunc(sortedNames(b.Flows),
		func(n string) bool { return n == b.Name })...)
	out := make([]*Graph, 0, len(names))
	for _, name := range names {
		d, err := definition(b, name)
		if err != nil {
			return nil, err
		}
		out = append(out, FlowGraph(d))
	}
	return out, nil
}

func definition(b thread.Bundle, name string) (*flow.Definition, error) {
	d := new(flow.Definition)
	if err := json.Unmarshal(b.Flows[name], d); err != nil {
		return nil, fmt.Errorf("read flow %s of bundle %s: %w", name, b.Name, err)
	}
	return d, nil
}

// DoneBy says briefly who does a role's work.
func DoneBy(r flow.Role) string {
	switch {
	case r.Flow != "":
		return "calls " + r.Flow
	case r.Agent != nil && r.Agent.Inline != nil && len(r.Agent.Inline.Command) > 0:
		return fmt.Sprintf("%s %q", r.Agent.Inline.Kind, r.Agent.Inline.Command)
	case r.Agent != nil && r.Agent.Inline != nil:
		return r.Agent.Inline.Kind
	case r.Agent != nil:
		return r.Agent.Name
	}
	return "default agent"
}

// JoinNote says briefly what a join requires.
func JoinNote(j flow.JoinSpec) string {
	text := j.Strategy
	if j.Threshold > 0 {
		text += fmt.Sprintf(" of %d", j.Threshold)
	}
	if j.Timeout > 0 {
		text += fmt.Sprintf(", at most %s", j.Timeout)
	}
	return text
}

// Reached returns the ids of the nodes: first those that can be reached, in order from the start,
// then the rest.
func (g *Graph) Reached() []string {
	next := map[string][]string{}
	for _, e := range g.Edges {
		next[e.From] = append(next[e.From], e.To)
	}
	var out []string
	seen := map[string]bool{}
	for _, n := range g.Nodes { // the first node is the start
		todo := []string{n.ID}
		for ; len(todo) > 0; todo = todo[1:] {
			if seen[todo[0]] {
				continue
			}
			seen[todo[0]] = true
			out = append(out, todo[0])
			todo = append(todo, next[todo[0]]...)
		}
	}
	return out
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
