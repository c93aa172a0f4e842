package parse

import (
	"slices"

	"github.com/plait-run/plait/internal/flow"
)

// ambiguous reports whether a part of the graph could not be read or has two meanings. If so,
// reachability is not checked.
func (d *draft) ambiguous() bool {
	return d.blind ||
		slices.ContainsFunc(d.forks, func(f *forkSite) bool { return f.damaged || d.isRole(f.name) }) ||
		slices.ContainsFunc(d.joins, func(j *joinSite) bool { return d.isRole(j.name) || d.isFork(j.name) }) ||
		slices.ContainsFunc(d.gates, func(g *gateSite) bool {
			return d.isRole(g.name) || d.isFork(g.name) ||
				d.isJoin(g.name)
		})
}

// hasRoutes reports whether the graph has routes for a node of this kind: all but forks.
func (d *draft) hasRoutes(name string) bool {
	return d.isRole(name) || d.isJoin(name) || d.isGate(name)
}

// checkReachable reports nodes that cannot be reached from $START.
func checkReachable(d *draft) {
	if _, ok := d.def.Graph[flow.Start]; !ok || d.ambiguous() {
		return // without a start everything is unreachable
	}
	seen := d.def.NewGraph().Reachable("")
	for _, n := range d.nodes {
		if d.hasRoutes(n.name) && !seen[n.name] {
			d.report(n.key, codeUnreachable, "%s cannot be reached from $START", n.name)
		}
	}
	for _, f := range d.forks {
		if !seen[f.name] {
			d.report(f.key, codeUnreachable, "the fork %s cannot be reached from $START", f.name)
		}
	}
}

// checkCanEnd reports nodes from which $END cannot be reached. An edge to an unknown node counts
// as an end, since it is reported with another code. So does a conversation, which ends when the
// person ends it.
func checkCanEnd(d *draft) {
	if d.graph == nil || d.ambiguous() || len(d.nodes) == 0 {
		return
	}
	back := map[string][]string{}
	ends := map[string]bool{}
	var todo []string
	mark := func(name string) {
		if !ends[name] {
			ends[name] = true
			todo = append(todo, name)
		}
	}
	toEnd := false
	ground := d.def.NewGraph()
	for _, n := range ground.Nodes {
		for _, e := range ground.Edges[n] {
			back[e.To] = append(back[e.To], n)
			toEnd = toEnd || e.To == flow.EndNode
			if _, inGraph := d.def.Graph[e.To]; e.To == flow.EndNode || d.def.Roles[e.To].Chat || !d.isFork(e.To) &&
				(!d.hasRoutes(e.To) || !inGraph) {
				mark(e.To)
			}
		}
	}
	if !toEnd && len(todo) == 0 {
		d.report(d.graph, codeCannotEnd, "no route leads to $END")
		return
	}
	for len(todo) > 0 {
		from := todo[0]
		todo = todo[1:]
		for _, n := range back[from] {
			mark(n)
		}
	}
	for _, n := range d.nodes {
		if d.hasRoutes(n.name) && !ends[n.name] {
			d.report(n.key, codeCannotEnd, "$END cannot be reached from %s", n.name)
		}
	}
}
