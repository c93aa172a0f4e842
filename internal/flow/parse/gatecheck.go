package parse

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// checkGates checks the edges of gates.
func checkGates(d *draft) {
	for _, g := range d.gates {
		n, ok := d.node(g.name)
		if !ok {
			d.notInGraph(g.key, "gate", g.name)
			continue
		}
		if n.unread || g.unread {
			continue
		}
		want := g.Statuses()
		for _, st := range want {
			if _, ok := d.def.Graph[g.name][st]; !ok {
				d.report(n.key, codeMissingRoute, "gate %s needs the route %s", g.name, st)
			}
		}
		for _, rs := range n.routes {
			if rs.status != flow.Suspend && !slices.Contains(want, rs.status) {
				d.report(rs.key, codeExtraRoute, "gate %s has only the routes %s", g.name, strings.Join(want, ", "))
			}
		}
	}
	for _, n := range d.nodes {
		for _, rs := range n.routes {
			if d.isGate(rs.Role) && rs.at("location") != nil && !isNull(resolve(rs.at("location"))) &&
				!isBroken(resolve(rs.at("location"))) {
				d.report(rs.at("location"), codeBadGate, "graph.%s.%s leads to a gate, which cannot have a location", n.name,
					rs.status)
			}
		}
	}
}

const (
	// maxChecks limits the checks of templates that several routes reach.
	maxChecks = 4096
	// maxRoutesPerGate bounds the routes that are kept for one gate.
	maxRoutesPerGate = 64
)

// An incomingRoute is one way to reach a node: the scope of the last node that is not a gate, and
// the last gate passed since, or "".
type incomingRoute struct {
	from *scope
	gate string
}

// A templateChecker checks a template against the data of every route that reaches it.
type templateChecker struct {
	*draft
	budget int // checks left for additional routes; the first is always checked
}

func (l *templateChecker) check(ways []incomingRoute, n *yaml.Node, src string) {
	if n == nil || !strings.Contains(src, "{") {
		return
	}
	if len(ways) == 0 {
		ways = []incomingRoute{{from: &scope{draft: l.draft, open: true}}}
	}
	for i, w := range ways {
		if i > 0 {
			l.budget--
			if l.budget < 0 {
				return
			}
		}
		sc := *w.from
		sc.gate = w.gate
		sc.template(n, src)
	}
}

// checkGates checks the templates of gates. A gate's question can use the data of the routes to
// it; its own routes can use that and the answer. leading has the routes to forks and gates that
// pass no gate; those that do are added.
func (l *templateChecker) checkGates(leading map[string][]incomingRoute) {
	behind := l.routesBehindGates(leading)
	for _, g := range l.gates {
		n, _ := l.node(g.name)
		for _, rs := range n.routes {
			l.check(behind[g.name], rs.at("prompt"), rs.Prompt)
			l.check(behind[g.name], rs.at("location"), rs.Location)
			if !(l.isFork(rs.Role) || l.isGate(rs.Role)) || !slices.Contains(g.Statuses(), rs.status) {
				continue
			}
			for _, w := range behind[g.name] {
				if len(leading[rs.Role]) < maxRoutesPerGate {
					leading[rs.Role] = append(leading[rs.Role], w)
				}
			}
		}
	}
	for _, g := range l.gates {
		l.check(leading[g.name], g.question, g.Question)
	}
}

// routesBehindGates returns the routes that pass each gate: one for each row of the graph that
// leads to it, directly or through other gates.
func (l *templateChecker) routesBehindGates(leading map[string][]incomingRoute) map[string][]incomingRoute {
	var todo []incomingRoute
	next := map[string][]string{} // gate → gates
	for _, g := range l.gates {
		for _, w := range leading[g.name] {
			todo = append(todo, incomingRoute{w.from, g.name})
		}
		for _, st := range g.Statuses() {
			if to := l.def.Graph[g.name][st].Role; l.isGate(to) {
				next[g.name] = append(next[g.name], to)
			}
		}
	}
	seen := map[incomingRoute]bool{}
	behind := map[string][]incomingRoute{}
	for ; len(todo) > 0; todo = todo[1:] {
		w := todo[0]
		if seen[w] || len(behind[w.gate]) >= maxRoutesPerGate {
			continue
		}
		seen[w] = true
		behind[w.gate] = append(behind[w.gate], w)
		for _, to := range next[w.gate] {
			todo = append(todo, incomingRoute{w.from, to})
		}
	}
	return behind
}
