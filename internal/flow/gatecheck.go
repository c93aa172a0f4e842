package flow

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// checkGates looks at what the graph says of gates.
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
			if rs.status != Suspend && !slices.Contains(want, rs.status) {
				d.report(rs.key, codeExtraRoute, "gate %s has only the routes %s", g.name, strings.Join(want, ", "))
			}
		}
	}
	for _, n := range d.nodes {
		for _, rs := range n.routes {
			if d.isGate(rs.Role) && rs.location != nil && !isNull(resolve(rs.location)) && !isBroken(resolve(rs.location)) {
				d.report(rs.location, codeBadGate, "graph.%s.%s leads to a gate, which has no location", n.name, rs.status)
			}
		}
	}
}

const (
	// maxLooks bounds the work on templates that are looked at once for each way to them.
	maxLooks = 4096
	// maxWays bounds the ways that are remembered for one gate.
	maxWays = 64
)

// A way is how a node is come to: from a row of the table that is no gate's, and the last of the
// gates in between, "" without one.
type way struct {
	from *scope
	gate string
}

// A looker checks templates that are come to in several ways, and must be right in each.
type looker struct {
	*draft
	left int // what may be spent on further ways; the first is always looked at
}

func (l *looker) at(ways []way, n *yaml.Node, src string) {
	if n == nil || !strings.Contains(src, "{") {
		return
	}
	if len(ways) == 0 {
		ways = []way{{from: &scope{draft: l.draft, open: true}}}
	}
	for i, w := range ways {
		if i > 0 {
			if l.left--; l.left < 0 {
				return
			}
		}
		sc := *w.from
		sc.gate = w.gate
		sc.template(n, src)
	}
}

// atGates checks what stands at gates. A gate's question sees what the routes to it see; its own
// routes see that too, and the answer. leading has the ways to forks and gates that pass no gate;
// those that do are added.
func (l *looker) atGates(leading map[string][]way) {
	behind := l.behindGates(leading)
	for _, g := range l.gates {
		n, _ := l.node(g.name)
		for _, rs := range n.routes {
			l.at(behind[g.name], rs.prompt, rs.Prompt)
			l.at(behind[g.name], rs.location, rs.Location)
			if !(l.isFork(rs.Role) || l.isGate(rs.Role)) || !slices.Contains(g.Statuses(), rs.status) {
				continue
			}
			for _, w := range behind[g.name] {
				if len(leading[rs.Role]) < maxWays {
					leading[rs.Role] = append(leading[rs.Role], w)
				}
			}
		}
	}
	for _, g := range l.gates {
		l.at(leading[g.name], g.question, g.Question)
	}
}

// behindGates returns the ways to the routes of each gate, one for each row of the table that leads
// to it by itself or through other gates.
func (l *looker) behindGates(leading map[string][]way) map[string][]way {
	var todo []way
	next := map[string][]string{} // gate → gates
	for _, g := range l.gates {
		for _, w := range leading[g.name] {
			todo = append(todo, way{w.from, g.name})
		}
		for _, st := range g.Statuses() {
			if to := l.def.Graph[g.name][st].Role; l.isGate(to) {
				next[g.name] = append(next[g.name], to)
			}
		}
	}
	seen := map[way]bool{}
	behind := map[string][]way{}
	for ; len(todo) > 0; todo = todo[1:] {
		w := todo[0]
		if seen[w] || len(behind[w.gate]) >= maxWays {
			continue
		}
		seen[w] = true
		behind[w.gate] = append(behind[w.gate], w)
		for _, to := range next[w.gate] {
			todo = append(todo, way{w.from, to})
		}
	}
	return behind
}
