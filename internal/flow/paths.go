package flow

import (
	"maps"
	"slices"
	"strings"
)

// An edge of the graph is a route, whose key is the status, or leads from a fork to the child of
// a path, with the path's id as key.
type edge struct{ from, key, to string }

// A graph has the edges of a definition in a fixed order. newGraph builds it once for many walks.
type graph struct {
	*Definition
	edges  map[string][]edge // by source node
	forkOf map[string]string // join → fork
	nodes  []string          // those with edges
}

func (d *Definition) newGraph() *graph {
	t := &graph{Definition: d, edges: map[string][]edge{}, forkOf: map[string]string{}}
	for _, node := range slices.Sorted(maps.Keys(d.Graph)) {
		if _, fork := d.Forks[node]; fork {
			continue // its paths are its edges
		}
		t.nodes = append(t.nodes, node)
		for _, status := range slices.Sorted(maps.Keys(d.Graph[node])) {
			if to := d.Graph[node][status].Role; to != "" {
				t.edges[node] = append(t.edges[node], edge{node, status, to})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Forks)) {
		t.nodes = append(t.nodes, name)
		for _, p := range d.Forks[name].Paths {
			if p.Child != "" {
				t.edges[name] = append(t.edges[name], edge{name, p.ID, p.Child})
			}
		}
		if j := d.Forks[name].Join; j != "" {
			t.forkOf[j] = name
		}
	}
	return t
}

// A walk is the set of nodes on a path: every node from its child to its join, including those of
// forks in between.
type walk struct {
	from   map[string]string // predecessor of each visited node; "" for the path's entry node
	joined bool              // the path's own join was reached
	open   bool              // an edge leads to an unknown node
	out    []edge            // to $END, to the fork itself, or to another fork's join
}

// walk follows path p of a fork. It enters a join inside the path only after the join's fork: an
// edge to it from elsewhere would leave the path.
func (d *graph) walk(fork string, p BranchPath) walk {
	w := walk{from: map[string]string{}}
	join := d.Forks[fork].Join
	waiting := map[string][]edge{} // edges to joins whose forks were not reached yet, by fork
	var todo []string
	enter := func(node, from string) {
		if _, seen := w.from[node]; seen {
			return
		}
		w.from[node] = from
		todo = append(todo, node)
	}
	enter(p.Child, "")
	for len(todo) > 0 {
		node := todo[0]
		todo = todo[1:]
		if _, ok := d.Forks[node]; ok {
			for _, e := range waiting[node] {
				enter(e.to, e.from)
			}
			delete(waiting, node)
		} else if _, ok := d.Graph[node]; !ok {
			w.open = true
		}
		for _, e := range d.edges[node] {
			other := d.forkOf[e.to]
			_, met := w.from[other]
			switch {
			case e.to == join:
				w.joined = true
			case e.to == Start || e.to == Suspend:
				w.open = true // reported: there are no nodes to lead to
			case e.to == EndNode || e.to == fork:
				w.out = append(w.out, e)
			case other != "" && !met:
				waiting[other] = append(waiting[other], e)
			default:
				enter(e.to, node)
			}
		}
	}
	for _, other := range slices.Sorted(maps.Keys(waiting)) {
		w.out = append(w.out, waiting[other]...)
	}
	return w
}

// route returns how the walk reached node: "a → b → c".
func (w walk) route(node string) string {
	var names []string
	for n := node; n != "" && len(names) < 12; n = w.from[n] {
		names = append(names, n)
	}
	slices.Reverse(names)
	return strings.Join(names, " → ")
}

// reachableOutside returns the nodes reachable from $START if fork leads straight to its join,
// without its paths. For fork "", it returns all reachable nodes.
func (d *graph) reachableOutside(fork string) map[string]bool {
	seen := map[string]bool{Start: true}
	for todo := []string{Start}; len(todo) > 0; todo = todo[1:] {
		next := d.edges[todo[0]]
		if fork != "" && todo[0] == fork {
			next = []edge{{to: d.Forks[fork].Join}}
		}
		for _, e := range next {
			if !seen[e.to] {
				seen[e.to] = true
				todo = append(todo, e.to)
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
	for _, node := range slices.Sorted(maps.Keys(d.newGraph().walk(fork, p).from)) {
		if _, ok := d.Roles[node]; ok {
			roles = append(roles, node)
		}
	}
	return roles
}
