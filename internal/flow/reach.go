package flow

// targets are the nodes that n's routes lead to.
func (n nodeSite) targets() []string {
	var list []string
	for _, rs := range n.routes {
		if rs.Role != "" {
			list = append(list, rs.Role)
		}
	}
	return list
}

// checkReachable looks for roles that no way from $START leads to.
func checkReachable(d *draft) {
	if _, ok := d.def.Graph[Start]; !ok || d.blind || len(d.later) > 0 {
		return // without a start, or through parts not read yet, there is nothing to tell
	}
	next := map[string][]string{}
	for _, n := range d.nodes {
		next[n.name] = n.targets()
	}
	seen := map[string]bool{Start: true}
	for todo := []string{Start}; len(todo) > 0; {
		var found []string
		for _, from := range todo {
			for _, to := range next[from] {
				if !seen[to] {
					seen[to] = true
					found = append(found, to)
				}
			}
		}
		todo = found
	}
	for _, n := range d.nodes {
		if d.isRole(n.name) && !seen[n.name] {
			d.report(n.key, codeUnreachable, "no way leads from $START to %s", n.name)
		}
	}
}

// checkCanEnd looks for roles that no way leads from to $END. A way that leaves the known
// roles counts as one that ends: what is wrong with it has a code of its own.
func checkCanEnd(d *draft) {
	if d.graph == nil || d.blind || len(d.nodes) == 0 {
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
	for _, n := range d.nodes {
		for _, to := range n.targets() {
			back[to] = append(back[to], n.name)
			toEnd = toEnd || to == EndNode
			if _, inGraph := d.def.Graph[to]; to == EndNode || !d.isRole(to) || !inGraph {
				mark(to)
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
		if d.isRole(n.name) && !ends[n.name] {
			d.report(n.key, codeCannotEnd, "no way leads from %s to $END", n.name)
		}
	}
}
