package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// manyFiles is the most files that a room may have without being put in order.
const manyFiles = 8

// maxBack is, by room, how many references may run against the best order of files.
var maxBack = map[string]int{"engine": 15, "view/taskdir": 15}

// maxBackWithMethods is the same when uses of methods count too.
var maxBackWithMethods = map[string]int{"engine": 14, "engine/attempt": 8, "engine/session": 8, "engine/briefing": 8,
	"engine/evidence": 8, "flow": 14, "ui/web": 12}

// tangles counts, for each room with many files, the references between files that run
// against the best order found. A room that can be read from one end to the other has
// none. The limits are for identifiers at the top level; the count with methods is
// printed as well, since turning a function into a method removes no reference.
func tangles(h *house) []measure {
	var ms []measure
	for _, p := range h.packages {
		limit, limited := maxBack[p.dir]
		if len(p.files) <= manyFiles && !limited {
			continue
		}
		if !limited {
			limit = none
		}
		names, g := p.references(h, false)
		order := bestOrder(g)
		m := measure{what: "references back in " + p.dir, limit: limit, now: backward(g, order)}
		if limited && !m.kept() {
			m.list = describe(names, g, order)
		}
		limit, limited = maxBackWithMethods[p.dir]
		if !limited {
			limit = none
		}
		_, g = p.references(h, true)
		ms = append(ms, m, measure{what: m.what + ", with methods", limit: limit, now: backward(g, bestOrder(g))})
	}
	slices.SortFunc(ms, func(a, b measure) int { return strings.Compare(a.what, b.what) })
	return ms
}

// A graph has an edge g[i][j] where file i uses file j.
type graph [][]bool

func newGraph(n int) graph {
	g := make(graph, n)
	for i := range g {
		g[i] = make([]bool, n)
	}
	return g
}

// references returns the files of a package, and the graph of which uses top-level
// identifiers declared in which; with methods, also methods declared there.
func (p *pkg) references(h *house, methods bool) ([]string, graph) {
	var names []string
	index := map[string]int{}
	for i, f := range p.files {
		name := h.fset.Position(f.Package).Filename
		index[name] = i
		names = append(names, filepath.Base(name))
	}
	g := newGraph(len(names))
	for i, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used := p.info.Uses[id]
			if used == nil || used.Pkg() != p.types {
				return true
			}
			if used.Parent() != p.types.Scope() && !(methods && isMethod(used)) {
				return true
			}
			if j := index[h.fset.Position(used.Pos()).Filename]; j != i {
				g[i][j] = true
			}
			return true
		})
	}
	return names, g
}

// isMethod reports whether o is a method, but not of an interface.
func isMethod(o types.Object) bool {
	fn, ok := o.(*types.Func)
	return ok && fn.Signature().Recv() != nil && !types.IsInterface(fn.Signature().Recv().Type())
}

// backward counts the references from a later file to an earlier one. In a good order a
// file comes before those that it uses.
func backward(g graph, order []int) int {
	n := 0
	for at, j := range order {
		for _, i := range order[at+1:] {
			if g[i][j] {
				n++
			}
		}
	}
	return n
}

// tries is how often an order is perturbed and improved again.
const tries = 400

// bestOrder looks for an order with as few backward references as possible: it starts from
// the greedy one of Eades, Lin and Smyth, moves single files, and perturbs and repeats. The
// same graph always gives the same order.
func bestOrder(g graph) []int {
	best := improve(g, greedy(g))
	least := backward(g, best)
	random := rand.New(rand.NewPCG(1, 2))
	for range tries {
		if least == 0 {
			break
		}
		order := slices.Clone(best)
		for range 1 + len(order)/5 {
			i, j := random.IntN(len(order)), random.IntN(len(order))
			order[i], order[j] = order[j], order[i]
		}
		order = improve(g, order)
		if n := backward(g, order); n <= least {
			best, least = order, n
		}
	}
	return best
}

// greedy puts sources first and sinks last, and otherwise takes the file that uses more
// than it is used, by the largest margin.
func greedy(g graph) []int {
	left := make([]bool, len(g))
	for i := range left {
		left[i] = true
	}
	degrees := func(i int) (out, in int) {
		for j := range g {
			if left[j] && g[i][j] {
				out++
			}
			if left[j] && g[j][i] {
				in++
			}
		}
		return out, in
	}
	var first, last []int
	for range g {
		next, most, sink := -1, 0, false
		for i := range g {
			if !left[i] {
				continue
			}
			out, in := degrees(i)
			weight := out - in
			if in == 0 {
				weight = len(g)
			}
			if out == 0 {
				next, sink = i, true
				break
			}
			if next < 0 || weight > most {
				next, most = i, weight
			}
		}
		left[next] = false
		if sink {
			last = append(last, next)
		} else {
			first = append(first, next)
		}
	}
	slices.Reverse(last)
	return append(first, last...)
}

// improve moves single files until no move saves a backward reference.
func improve(g graph, order []int) []int {
	for better := true; better; {
		better = false
		for at := 0; at < len(order); at++ {
			if to := bestPlace(g, order, at); to != at {
				f := order[at]
				order = slices.Insert(slices.Delete(order, at, at+1), to, f)
				better = true
			}
		}
	}
	return order
}

// bestPlace returns the place in the order where the file at a place costs least.
func bestPlace(g graph, order []int, at int) int {
	cost := func(first, then int) int { // cost of first before then, minus that of the reverse
		n := 0
		if g[then][first] {
			n++
		}
		if g[first][then] {
			n--
		}
		return n
	}
	best, least, now := at, 0, 0
	for to := at - 1; to >= 0; to-- {
		if now += cost(order[at], order[to]); now < least {
			best, least = to, now
		}
	}
	now = 0
	for to := at + 1; to < len(order); to++ {
		if now += cost(order[to], order[at]); now < least {
			best, least = to, now
		}
	}
	return best
}

// describe lists the files in order, each with the earlier ones that it uses.
func describe(names []string, g graph, order []int) []string {
	var list []string
	for at, i := range order {
		var back []string
		for _, j := range order[:at] {
			if g[i][j] {
				back = append(back, names[j])
			}
		}
		line := names[i]
		if len(back) > 0 {
			line = fmt.Sprintf("%-16s ↑ %s", names[i], strings.Join(back, ", "))
		}
		list = append(list, line)
	}
	return list
}
