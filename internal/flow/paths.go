package flow

import (
	"maps"
	"slices"
	"strings"
)

// An Edge of the graph is a route, whose key is the status, or leads from a fork to the child of
// a path, with the path's id as key.
type Edge struct{ From, Key, To string }

// A Graph has the edges of a definition in a fixed order. [Definition.NewGraph] builds it once for many walks.
type Graph struct {
	*Definition
	Edges  map[string][]Edge // by source node
	forkOf map[string]string // join → fork
	Nodes  []string          // those with edges
}

// NewGraph returns the graph of d.
func (d *Definition) NewGraph() *Graph {
	t := &Graph{Definition: d, Edges: map[string][]Edge{}, forkOf: map[string]string{}}
	for _, node := range slices.Sorted(maps.Keys(d.Graph)) {
		if _, fork := d.Forks[node]; fork {
			continue // its paths are its edges
		}
		t.Nodes = append(t.Nodes, node)
		for _, status := range slices.Sorted(maps.Keys(d.Graph[node])) {
			if to := d.Graph[node][status].Role; to != "" {
				t.Edges[node] = append(t.Edges[node], Edge{node, status, to})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Forks)) {
		t.Nodes = append(t.Nodes, name)
		for _, p := range d.Forks[name].Paths {
			if p.Child != "" {
				t.Edges[name] = append(t.Edges[name], Edge{name, p.ID, p.Child})
			}
		}
		if j := d.Forks[name].Join; j != "" {
			t.forkOf[j] = name
		}
	}
	return t
}

// A Walk is the set of nodes on a path: every node from its child to its join, including those of
// forks in between.
type Walk struct {
	From   map[string]string // predecessor of each visited node; "" for the path's entry node
	Joined bool              // the path's own join was reached
	Open   bool              // an edge leads to an unknown node
	Out    []Edge            // to $END, to the fork itself, or to another fork's join
}

// Walk follows path p of a fork. It enters a join inside the path only after the join's fork: an
// edge to it from elsewhere would leave the path.
func (d *Graph) Walk(fork string, p BranchPath) Walk {
	w := Walk{From: map[string]string{}}
	join := d.Forks[fork].Join
	waiting := map[string][]Edge{} // edges to joins whose forks were not reached yet, by fork
	var todo []string
	enter := func(node, from string) {
		if _, seen := w.From[node]; seen {
			return
		}
		w.From[node] = from
		todo = append(todo, node)
	}
	enter(p.Child, "")
	for len(todo) > 0 {
		node := todo[0]
		todo = todo[1:]
		if _, ok := d.Forks[node]; ok {
			for _, e := range waiting[node] {
				enter(e.To, e.From)
			}
			delete(waiting, node)
		} else if _, ok := d.Graph[node]; !ok {
			w.Open = true
		}
		for _, e := range d.Edges[node] {
			other := d.forkOf[e.To]
			_, met := w.From[other]
			switch {
			case e.To == join:
				w.Joined = true
			case e.To == Start || e.To == Suspend:
				w.Open = true // reported: there are no nodes to lead to
			case e.To == EndNode || e.To == fork:
				w.Out = append(w.Out, e)
			case other != "" && !met:
				waiting[other] = append(waiting[other], e)
			default:
				enter(e.To, node)
			}
		}
	}
	for _, other := range slices.Sorted(maps.Keys(waiting)) {
		w.Out = append(w.Out, waiting[other]...)
	}
	return w
}

// Route returns how the walk reached node: "a → b → c".
func (w Walk) Route(node string) string {
	var names []string
	for n := node; n != "" && len(names) < 12; n = w.From[n] {
		names = append(names, n)
	}
	slices.Reverse(names)
	return strings.Join(names, " → ")
}

// Reachable returns the nodes reachable from $START if fork leads straight to its join,
// without its paths. For fork "", it returns all reachable nodes.
func (d *Graph) Reachable(fork string) map[string]bool {
	seen := map[string]bool{Start: true}
	for todo := []string{Start}; len(todo) > 0; todo = todo[1:] {
		next := d.Edges[todo[0]]
		if fork != "" && todo[0] == fork {
			next = []Edge{{To: d.Forks[fork].Join}}
		}
		for _, e := range next {
			if !seen[e.To] {
				seen[e.To] = true
				todo = append(todo, e.To)
			}
		}
	}
	return seen
}

// Inside returns the roles that can run inside a path, including those of nested forks, sorted.
// It returns none if there is no such path.
func (d *Definition) Inside(path string) []string {
	fork, p, ok := d.Branch(path)
	if !ok {
		return nil
	}
	var roles []string
	for _, node := range slices.Sorted(maps.Keys(d.NewGraph().Walk(fork, p).From)) {
		if _, ok := d.Roles[node]; ok {
			roles = append(roles, node)
		}
	}
	return roles
}
