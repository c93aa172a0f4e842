package flow

import "slices"

// unclear reports whether a part of the graph could not be read, or means two things: then there is
// nothing to say about ways through it.
func (d *draft) unclear() bool {
	return d.blind ||
		slices.ContainsFunc(d.forks, func(f *forkSite) bool { return f.damaged || d.isRole(f.name) }) ||
		slices.ContainsFunc(d.joins, func(j *joinSite) bool { return d.isRole(j.name) || d.isFork(j.name) }) ||
		slices.ContainsFunc(d.gates, func(g *gateSite) bool { return d.isRole(g.name) || d.isFork(g.name) || d.isJoin(g.name) })
}

// hasRoutes reports whether a name is one of those that the graph routes: all but forks.
func (d *draft) hasRoutes(name string) bool {
	return d.isRole(name) || d.isJoin(name) || d.isGate(name)
}

// checkReachable looks for nodes that no way from $START leads to.
func checkReachable(d *draft) {
	if _, ok := d.def.Graph[Start]; !ok || d.unclear() {
		return // without a start there is nothing to tell
	}
	seen := d.def.terrain().outside("")
	for _, n := range d.nodes {
		if d.hasRoutes(n.name) && !seen[n.name] {
			d.report(n.key, codeUnreachable, "no way leads from $START to %s", n.name)
		}
	}
	for _, f := range d.forks {
		if !seen[f.name] {
			d.report(f.key, codeUnreachable, "no way leads from $START to the fork %s", f.name)
		}
	}
}

// checkCanEnd looks for nodes that no way leads from to $END. A way that leaves the known
// nodes counts as one that ends: what is wrong with it has a code of its own. A conversation
// ends when the person ends it.
func checkCanEnd(d *draft) {
	if d.graph == nil || d.unclear() || len(d.nodes) == 0 {
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
	ground := d.def.terrain()
	for _, n := range ground.nodes {
		for _, e := range ground.edges[n] {
			back[e.to] = append(back[e.to], n)
			toEnd = toEnd || e.to == EndNode
			if _, inGraph := d.def.Graph[e.to]; e.to == EndNode || d.def.Roles[e.to].Chat || !d.isFork(e.to) && (!d.hasRoutes(e.to) || !inGraph) {
				mark(e.to)
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
			d.report(n.key, codeCannotEnd, "no way leads from %s to $END", n.name)
		}
	}
}
