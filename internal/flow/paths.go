package flow

import (
	"slices"
	"strings"
)

// An edge is one way through the graph: a route by its status, or the way from a fork to the
// child of a path by the path's id.
type edge struct{ from, key, to string }

// A terrain is the graph of a definition as edges, in a fixed order, made once for many walks.
type terrain struct {
	*Definition
	edges  map[string][]edge // by the node they lead out of
	forkOf map[string]string // join → fork
	nodes  []string          // those with edges
}

func (d *Definition) terrain() *terrain {
	t := &terrain{Definition: d, edges: map[string][]edge{}, forkOf: map[string]string{}}
	for _, node := range sortedKeys(d.Graph) {
		if _, fork := d.Forks[node]; fork {
			continue // its ways out are its paths
		}
		t.nodes = append(t.nodes, node)
		for _, status := range sortedKeys(d.Graph[node]) {
			if to := d.Graph[node][status].Role; to != "" {
				t.edges[node] = append(t.edges[node], edge{node, status, to})
			}
		}
	}
	for _, name := range sortedKeys(d.Forks) {
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

// A walk is what lies on a path: every node from its child to its join, those of the forks
// inside it too.
type walk struct {
	from   map[string]string // node → the one it was come to from, "" for the child
	joined bool              // the path's own join was come to
	open   bool              // a way leads to a node that is not known
	out    []edge            // ways to $END, to the fork itself, to another fork's join
}

func (d *terrain) walk(fork string, p BranchPath) walk {
	w := walk{from: map[string]string{}}
	join := d.Forks[fork].Join
	waiting := map[string][]edge{} // ways to joins whose forks were not met yet, by fork
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
				w.open = true // reported: no nodes to lead to
			case e.to == EndNode || e.to == fork:
				w.out = append(w.out, e)
			case other != "" && !met:
				waiting[other] = append(waiting[other], e)
			default:
				enter(e.to, node)
			}
		}
	}
	for _, other := range sortedKeys(waiting) {
		w.out = append(w.out, waiting[other]...)
	}
	return w
}

// way is how a walk came to node, for people: "a → b → c".
func (w walk) way(node string) string {
	var names []string
	for n := node; n != "" && len(names) < 12; n = w.from[n] {
		names = append(names, n)
	}
	slices.Reverse(names)
	return strings.Join(names, " → ")
}

// outside returns the nodes that are come to without entering fork, which then leads straight
// to its join. Outside of no fork, "", is every node that is come to.
func (d *terrain) outside(fork string) map[string]bool {
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

// Inside returns the roles that can run inside a path, those of forks inside it too, in
// order of the alphabet. Without such a path there are none.
func (d *Definition) Inside(path string) []string {
	fork, p, ok := d.Branch(path)
	if !ok {
		return nil
	}
	var roles []string
	for _, node := range sortedKeys(d.terrain().walk(fork, p).from) {
		if _, ok := d.Roles[node]; ok {
			roles = append(roles, node)
		}
	}
	return roles
}
