package control

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/thread"
)

// A program is a random set of flows in the plain form that the oracle reads; the
// first one is run.
type program []*subflow

// A subflow is a flow whose body is run from its first node to its last.
type subflow struct {
	name  string
	code  int // of its end
	body  []*node
	forks bool // it forks, or a flow that it calls does
}

// A node is a step of an agent, a call or a fork with its join.
type node struct {
	name   string
	says   []string // of a step: what its agent does, by how long the chain is
	writes bool
	calls  *subflow
	fork   *branching
	fails  string // where a failed call or join leads: next, end or "" for nowhere
}

// A branching is a fork and its join.
type branching struct {
	join      string
	ids       []string
	paths     [][]*node
	serial    bool
	strategy  string
	threshold int
	wait      bool
	main      int
}

// What agents do. All but the first three end in a step at most once.
const (
	saysDone   = "done"   // the next node
	saysAgain  = "again"  // the first node of its block
	saysStop   = "stop"   // the end of the flow
	saysRefuse = "refuse" // a failure, always
	saysFault  = "fault"  // a failure the first time
	saysMess   = "mess"   // an unusable answer the first time
)

// maxLoop is how long a chain may be for a step to lead back.
const maxLoop = 6

// said returns what the agent of a node does after that many steps.
func (n *node) said(steps int) string {
	s := n.says[steps%len(n.says)]
	if s == saysAgain && steps >= maxLoop {
		return saysDone
	}
	return s
}

// A generator draws programs of a bounded size.
type generator struct {
	rt   *rapid.T
	left int // nodes
	n    int // names given out
}

func drawProgram(rt *rapid.T) program {
	g := &generator{rt: rt, left: 12}
	var p program
	for i := rapid.IntRange(1, 3).Draw(rt, "flows"); i > 0; i-- {
		f := &subflow{name: fmt.Sprintf("flow%d", i), code: g.pick("code", 0, 0, 1)}
		f.body = g.block(f, p, 0, false, i > 1) // called flows may run concurrently
		p = slices.Insert(p, 0, f)
	}
	return p
}

func (g *generator) pick(what string, from ...int) int {
	return rapid.SampledFrom(from).Draw(g.rt, what)
}

func (g *generator) name(prefix string) string {
	g.n++
	return fmt.Sprintf("%s%d", prefix, g.n)
}

// block draws nodes; level counts the forks around them, and beside reports that one of
// those is parallel.
func (g *generator) block(f *subflow, callable program, level int, path, beside bool) []*node {
	var out []*node
	for i := rapid.IntRange(1, 3).Draw(g.rt, "nodes"); i > 0 && (len(out) == 0 || g.left > 0); i-- {
		g.left--
		kind := rapid.IntRange(0, 9).Draw(g.rt, "kind")
		switch {
		case kind >= 6 && level < 3 && g.left >= 2 && (!path || len(out) > 0): // a path begins with a role
			out = append(out, g.forkNode(f, callable, level, path, beside))
		case kind >= 4 && len(callable) > 0:
			n := &node{name: g.name("call"), calls: rapid.SampledFrom(callable).Draw(g.rt, "calls")}
			f.forks = f.forks || n.calls.forks
			n.fails = g.fails(path, n.calls.forks)
			out = append(out, n)
		default:
			n := &node{name: g.name("step")}
			ways := []string{saysDone, saysDone, saysDone, saysAgain, saysRefuse, saysFault, saysMess}
			if !path {
				ways = append(ways, saysStop)
			}
			for range rapid.IntRange(1, 3).Draw(g.rt, "answers") {
				n.says = append(n.says, rapid.SampledFrom(ways).Draw(g.rt, "says"))
			}
			n.writes = !beside && g.pick("writes", 0, 0, 1) == 1
			out = append(out, n)
		}
	}
	return out
}

// fails draws where a failure leads. What stops for lack of a route is repeated by
// every resume; with races inside there is always a route, since their order is fixed
// only once.
func (g *generator) fails(path, races bool) string {
	ways := []string{"next", "end", ""}
	if path {
		ways = []string{"next", ""}
	}
	if races {
		ways = ways[:len(ways)-1]
	}
	return rapid.SampledFrom(ways).Draw(g.rt, "fails")
}

func (g *generator) forkNode(f *subflow, callable program, level int, path, beside bool) *node {
	b := &branching{
		join: g.name("join"), serial: g.pick("serial", 0, 0, 1) == 1, wait: g.pick("wait", 0, 0, 1) == 1,
		strategy: rapid.SampledFrom([]string{flow.AllCompleted, flow.AnyCompleted, flow.AllFailed, flow.AnyFailed,
			flow.SuccessCountThreshold}).Draw(g.rt, "strategy"),
	}
	n := &node{name: g.name("fork"), fork: b}
	f.forks = true
	paths := rapid.IntRange(2, 4).Draw(g.rt, "paths")
	plain := true
	for range paths {
		b.ids = append(b.ids, g.name("p"))
		body := g.block(f, callable, level+1, true, beside || !b.serial)
		for _, in := range body {
			plain = plain && in.fork == nil && in.calls == nil
		}
		b.paths = append(b.paths, body)
	}
	if b.strategy == flow.SuccessCountThreshold {
		b.threshold = rapid.IntRange(1, paths).Draw(g.rt, "threshold")
	}
	b.main = rapid.IntRange(0, paths-1).Draw(g.rt, "main")
	n.fails = g.fails(path, !plain)
	return n
}

// bundle packs a program as the driver gets it.
func (p program) bundle() (thread.Bundle, error) {
	b := thread.Bundle{Name: p[0].name, Flows: map[string]json.RawMessage{}}
	for _, f := range p {
		d := &flow.Definition{
			Version: 1, Name: f.name, Context: flow.Context{Tokens: 32000}, Roles: map[string]flow.Role{},
			Graph: map[string]map[string]flow.Route{}, Forks: map[string]flow.ForkSpec{},
			Joins: map[string]flow.JoinSpec{},
		}
		first := flow.Route{Role: f.body[0].name, Prompt: "HEARD {{ prompt | size }}"}
		d.Graph[flow.Start] = map[string]flow.Route{"new": first}
		compile(d, f.body, flow.Route{Role: flow.EndNode, Code: f.code, Prompt: "over"})
		raw, err := json.Marshal(d)
		if err != nil {
			return b, err
		}
		b.Flows[f.name] = raw
	}
	return b, nil
}

// compile adds a block to a definition; exit is where its last node leads.
func compile(d *flow.Definition, block []*node, exit flow.Route) {
	for i, n := range block {
		next := exit
		if i+1 < len(block) {
			next = flow.Route{Role: block[i+1].name, Prompt: "HEARD {{ status }} {{ _body | size }}"}
		}
		failed := map[string]flow.Route{"next": next,
			"end": {Role: flow.EndNode, Code: 3, Prompt: "it failed"}}[n.fails]
		switch {
		case n.fork != nil:
			b := n.fork
			strategy := flow.Parallel
			if b.serial {
				strategy = flow.Serial
			}
			losers := flow.CancelLosers
			if b.wait {
				losers = flow.WaitForLosers
			}
			fork := flow.ForkSpec{Strategy: strategy, Join: b.join}
			heard := "HEARD {{ status }} {{ decidedBy }}"
			for k, id := range b.ids {
				fork.Paths = append(fork.Paths, flow.BranchPath{ID: id, Child: b.paths[k][0].name})
				heard += fmt.Sprintf(" {{ paths.%s.status }} {{ paths.%s.text | size }}", id, id)
				compile(d, b.paths[k], flow.Route{Role: b.join})
			}
			d.Forks[n.name] = fork
			d.Joins[b.join] = flow.JoinSpec{
				PathIDs: b.ids, Strategy: b.strategy, Threshold: b.threshold, Main: b.ids[b.main], Losers: losers,
			}
			if next.Role != flow.EndNode && i+1 < len(block) {
				next.Prompt = heard
			}
			if n.fails == "next" {
				failed = next
			}
			d.Graph[b.join] = map[string]flow.Route{flow.Joined: next}
			if n.fails != "" {
				d.Graph[b.join][flow.NotMet] = failed
			}
		case n.calls != nil:
			d.Roles[n.name] = flow.Role{Flow: n.calls.name}
			d.Graph[n.name] = map[string]flow.Route{flow.CallDone: next}
			if n.fails != "" {
				d.Graph[n.name][flow.CallFailed] = failed
			}
		default:
			role := flow.Role{Retry: flow.Retry{Max: 1}}
			if n.writes {
				role.Access = flow.Write
			}
			d.Roles[n.name] = role
			d.Graph[n.name] = map[string]flow.Route{
				saysDone: next, saysAgain: {Role: block[0].name, Prompt: "HEARD again"},
				saysStop: {Role: flow.EndNode, Code: 2, Prompt: "stopped"},
			}
		}
	}
}

// String prints a program for people.
func (p program) String() string {
	var b strings.Builder
	for _, f := range p {
		fmt.Fprintf(&b, "%s (code %d):\n", f.name, f.code)
		printBlock(&b, f.body, "  ")
	}
	return b.String()
}

func printBlock(b *strings.Builder, block []*node, indent string) {
	for _, n := range block {
		switch {
		case n.fork != nil:
			f := n.fork
			fmt.Fprintf(b, "%s%s → %s: %s", indent, n.name, f.join, f.strategy)
			if f.threshold > 0 {
				fmt.Fprintf(b, " of %d", f.threshold)
			}
			fmt.Fprintf(b, ", serial=%v wait=%v main=%s failed=%q\n", f.serial, f.wait, f.ids[f.main], n.fails)
			for i, id := range f.ids {
				fmt.Fprintf(b, "%s  path %s:\n", indent, id)
				printBlock(b, f.paths[i], indent+"    ")
			}
		case n.calls != nil:
			fmt.Fprintf(b, "%s%s calls %s, failed=%q\n", indent, n.name, n.calls.name, n.fails)
		default:
			fmt.Fprintf(b, "%s%s says %v, writes=%v\n", indent, n.name, n.says, n.writes)
		}
	}
}
