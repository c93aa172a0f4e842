package parse

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// checkNodeNames applies the rules of role names to forks, joins and gates: all are nodes of one
// graph.
func checkNodeNames(d *draft) {
	seen := map[string]string{}
	for _, r := range d.roles {
		seen[r.name] = "role"
	}
	name := func(what, name string, key *yaml.Node) {
		switch {
		case strings.HasPrefix(name, "$"), flow.IsReserved(name):
			d.report(key, codeReservedRole, "the name %q is reserved", name)
		case !flow.IsRoleName(name):
			d.report(key, codeBadName, "invalid name %q of a %s: use letters, digits, '.', '_' and '-', at most 64",
				name, what)
		case seen[name] != "":
			d.report(key, codeDuplicateKey, "%q is also a %s", name, seen[name])
		}
		seen[name] = what
	}
	for _, f := range d.forks {
		name("fork", f.name, f.key)
	}
	for _, j := range d.joins {
		name("join", j.name, j.key)
	}
	for _, g := range d.gates {
		name("gate", g.name, g.key)
	}
}

// checkForkPaths checks each path by itself.
func checkForkPaths(d *draft) {
	owner := map[string]string{}
	for _, f := range d.forks {
		for i, p := range f.Paths {
			at := f.paths[i]
			if first, taken := owner[p.ID]; taken && p.ID != "" {
				d.report(at.id, codeForkPathTwice, "path id %q is already one of fork %s; an id is used once in a flow",
					p.ID, first)
			} else if p.ID != "" {
				owner[p.ID] = f.name
			}
			if at.child == nil || p.Child == "" && !isText(resolve(at.child)) {
				continue // reported
			}
			if p.Child == "" {
				d.report(at.child, codeForkPathItem, "path %s of fork %s has an empty childNodeId", p.ID, f.name)
			} else if !d.isRole(p.Child) {
				d.report(at.child, codeForkPathItem, "path %s of fork %s begins with %q, which is not a role%s", p.ID,
					f.name, p.Child, d.didYouMean(p.Child))
			}
		}
	}
}

// checkPairs compares the two ends of each fork.
func checkPairs(d *draft) {
	dangling := false // a join whose ids are unknown may belong to any fork
	for _, j := range d.joins {
		dangling = dangling || j.fork == nil && j.damaged
	}
	for _, f := range d.forks {
		if f.join == nil && !f.damaged && !dangling {
			d.report(f.key, codeUnpairedFork, "no join has the path ids of fork %s: %s", f.name,
				strings.Join(f.pathIDs(), ", "))
		}
		dangling = dangling || f.join == nil && f.damaged
	}
	for _, j := range d.joins {
		switch {
		case j.fork == nil:
			if !j.damaged && !dangling {
				d.report(j.key, codeUnpairedJoin, "no fork has the path ids of join %s: %s", j.name,
					strings.Join(j.PathIDs, ", "))
			}
		case j.extra:
			d.report(j.key, codeJoinTwice, "fork %s is already joined by %s", j.fork.name, j.fork.join.name)
		case !j.damaged && !j.fork.damaged && strings.Join(j.PathIDs, "\n") != strings.Join(j.fork.pathIDs(), "\n"):
			d.report(j.key, codeForkJoinMismatch, "join %s has the path ids %s, its fork %s has %s: they must be the "+
				"same, in the same order",
				j.name, strings.Join(j.PathIDs, ", "), j.fork.name, strings.Join(j.fork.pathIDs(), ", "))
		}
	}
}

// checkJoins checks each join by itself.
func checkJoins(d *draft) {
	for _, j := range d.joins {
		ids := map[string]bool{}
		for _, id := range j.PathIDs {
			ids[id] = true
		}
		if j.keys["mainPathId"].val != nil && j.Main != "" && len(ids) > 0 && !ids[j.Main] {
			d.report(j.keys["mainPathId"].val, codeMainPath, "mainPathId %q is none of the path ids of join %s", j.Main, j.name)
		}
		counts := j.Strategy == flow.SuccessCountThreshold
		switch {
		case j.unread:
		case !counts && j.threshold != nil:
			d.report(j.threshold, codeBadThreshold, "a threshold counts only with %s, not with %s",
				flow.SuccessCountThreshold, j.Strategy)
		case counts && j.threshold == nil:
			d.report(j.keys["joinStrategy"].val, codeBadThreshold, "%s needs a threshold: how many paths must be completed",
				flow.SuccessCountThreshold)
		case counts && (j.Threshold < 1 || !j.damaged && j.Threshold > len(j.PathIDs)):
			d.report(j.threshold, codeBadThreshold, "the threshold of join %s must be from 1 to %d, the number "+
				"of its paths", j.name, len(j.PathIDs))
		}
	}
}

// checkForkNodes checks the edges of forks and joins.
func checkForkNodes(d *draft) {
	for _, f := range d.forks {
		if n, ok := d.node(f.name); ok {
			for _, rs := range n.routes {
				d.report(rs.key, codeExtraRoute, "fork %s has no routes: its ways out are its paths", f.name)
			}
		}
	}
	for _, j := range d.joins {
		n, ok := d.node(j.name)
		if !ok {
			d.notInGraph(j.key, "join", j.name)
			continue
		}
		if n.unread {
			continue
		}
		if _, ok := d.def.Graph[j.name][flow.Joined]; !ok {
			d.report(n.key, codeMissingRoute, "join %s needs the route %s", j.name, flow.Joined)
		}
		for _, rs := range n.routes {
			if rs.status != flow.Joined && rs.status != flow.NotMet && rs.status != flow.TimedOut && rs.status != flow.Suspend {
				d.report(rs.key, codeExtraRoute, "join %s has only the routes %s, %s and %s", j.name, flow.Joined, flow.NotMet,
					flow.TimedOut)
			}
		}
	}
}

// checkPaths follows each path: it must reach its join and nothing outside.
func checkPaths(d *draft) {
	if d.graph == nil || d.ambiguous() {
		return
	}
	p := &pathChecker{draft: d, graph: d.def.NewGraph(), at: d.edgeNodes(), back: map[string][]string{},
		reported: map[*yaml.Node]bool{}}
	for _, node := range p.graph.Nodes {
		for _, e := range p.graph.Edges[node] {
			p.back[e.To] = append(p.back[e.To], node)
		}
	}
	for _, f := range d.forks {
		if f.join == nil || f.twice {
			continue
		}
		inside := map[string]bool{}
		walks := make([]flow.Walk, len(f.Paths))
		for i, path := range f.Paths {
			if !d.isRole(path.Child) {
				continue
			}
			w := p.graph.Walk(f.name, path)
			walks[i] = w
			for node := range w.From {
				inside[node] = true
			}
			if !w.Joined && !w.Open {
				d.report(f.paths[i].child, codeForkJoinUnreached, "no way leads from %s, where path %s begins, "+
					"to its join %s", path.Child, path.ID, f.Join)
			}
		}
		p.fork(f, walks, inside)
	}
}

type pathChecker struct {
	*draft
	graph    *flow.Graph
	at       map[flow.Edge]*yaml.Node
	back     map[string][]string // node → its predecessors
	reported map[*yaml.Node]bool // an edge that leaves two forks is only one problem
}

func (p *pathChecker) reportEscape(e flow.Edge, format string, args ...any) {
	n := p.at[e]
	if n == nil || p.reported[n] {
		return
	}
	p.reported[n] = true
	p.report(n, codePathEscapes, format, args...)
}

// fork reports the edges that leave the paths of f and those that enter them. If a node is both
// inside and outside, only one edge is reported: the one to the node if the node leads out of the
// path, otherwise the one from outside.
func (p *pathChecker) fork(f *forkSite, walks []flow.Walk, inside map[string]bool) {
	outside := p.graph.Reachable(f.name)
	var left []string
	for i, w := range walks {
		for _, e := range w.Out {
			if outside[e.From] {
				left = append(left, e.From)
				continue
			}
			p.reportEscape(e, "path %s leaves here, to %s (%s); it may only lead to its join %s", f.Paths[i].ID, e.To,
				w.Route(e.From), f.Join)
		}
	}
	leaves := p.leadingTo(left, f)
	for i, w := range walks {
		id, child := f.Paths[i].ID, f.Paths[i].Child
		if outside[child] && leaves[child] {
			p.reportEscape(flow.Edge{From: f.name, Key: id, To: child}, "path %s begins with %s, which is outside of "+
				"it too and leads elsewhere than to its join %s", id, child, f.Join)
		}
		for _, node := range slices.Sorted(maps.Keys(w.From)) {
			for _, e := range p.graph.Edges[node] {
				if !outside[node] && outside[e.To] && leaves[e.To] {
					p.reportEscape(e, "path %s leaves here, to %s (%s); it may only lead to its join %s", id, e.To,
						w.Route(node), f.Join)
				}
			}
		}
	}
	for _, node := range p.graph.Nodes {
		if !outside[node] || inside[node] || node == f.name {
			continue
		}
		for _, e := range p.graph.Edges[node] {
			switch {
			case e.To == f.Join:
				p.reportEscape(e, "this leads to the join %s from outside its paths", f.Join)
			case inside[e.To] && !leaves[e.To]:
				p.reportEscape(e, "this enters the paths of fork %s from outside: %s is inside", f.name, e.To)
			}
		}
	}
}

// leadingTo returns the nodes from which one of nodes can be reached without passing f or its
// join.
func (p *pathChecker) leadingTo(nodes []string, f *forkSite) map[string]bool {
	seen := map[string]bool{}
	for todo := nodes; len(todo) > 0; todo = todo[1:] {
		n := todo[0]
		if seen[n] || n == f.name || n == f.Join {
			continue
		}
		seen[n] = true
		todo = append(todo, p.back[n]...)
	}
	return seen
}

// edgeNodes returns the position of each edge in the files.
func (d *draft) edgeNodes() map[flow.Edge]*yaml.Node {
	at := map[flow.Edge]*yaml.Node{}
	for _, n := range d.nodes {
		for _, rs := range n.routes {
			if rs.at("role") != nil {
				at[flow.Edge{From: n.name, Key: rs.status, To: rs.Role}] = rs.at("role")
			}
		}
	}
	for _, f := range d.forks {
		for i, p := range f.Paths {
			if f.paths[i].child != nil {
				at[flow.Edge{From: f.name, Key: p.ID, To: p.Child}] = f.paths[i].child
			}
		}
	}
	return at
}
