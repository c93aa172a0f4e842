package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/testing/rooms"
)

// A journey is a reader's path through the code, function by function.
type journey struct {
	name                string
	hops                []hop
	most                int // limit on hops; none: no limit
	mostChanges, mostUp int
	changes, up, errors []string // found on the way
}

// A hop is a function on the way.
type hop struct {
	line    int
	name    string   // room.Function or room.Type.Method
	apart   bool     // not called, but waiting for news in the record
	through []string // fields or variables that hold the function, innermost first
	room    rooms.Room
	fn      *types.Func
	body    *ast.BlockStmt
	info    *types.Info
}

// walk reads journeys, checks them against the code, and measures them.
func walk(h *house, text string) ([]measure, error) {
	js, err := readJourneys(text)
	if err != nil {
		return nil, err
	}
	w := newWalker(h)
	broken := measure{what: "hops that the code does not make"}
	var ms []measure
	for i := range js {
		j := &js[i]
		w.follow(j)
		broken.list = append(broken.list, j.errors...)
		ms = append(ms,
			measure{what: j.name + ": hops", now: len(j.hops), limit: j.most},
			measure{what: j.name + ": changes of room", now: len(j.changes), limit: j.mostChanges},
			measure{what: j.name + ": goes up again", now: len(j.up), limit: j.mostUp, list: j.up})
	}
	broken.now = len(broken.list)
	return append(ms, broken), nil
}

// readJourneys reads a text in the form that journeys.txt describes.
func readJourneys(text string) ([]journey, error) {
	var js []journey
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "journey" {
			j, err := readHead(words[1:])
			if err != nil {
				return nil, fmt.Errorf("journeys, line %d: %w", n, err)
			}
			js = append(js, j)
			continue
		}
		if len(js) == 0 {
			return nil, fmt.Errorf("journeys, line %d: a hop of no journey", n)
		}
		hop := hop{line: n, name: words[0]}
		switch more := words[1:]; {
		case len(more) == 0:
		case len(more) == 1 && more[0] == "apart":
			hop.apart = true
		case len(more) > 1 && more[0] == "as":
			hop.through = more[1:]
		default:
			return nil, fmt.Errorf("journeys, line %d: want FUNCTION, FUNCTION as FIELD …, or FUNCTION apart", n)
		}
		j := &js[len(js)-1]
		j.hops = append(j.hops, hop)
	}
	return js, nil
}

// readHead reads what follows the word journey: a name and limits.
func readHead(words []string) (journey, error) {
	j := journey{most: none, mostChanges: none, mostUp: none}
	if len(words) == 0 {
		return j, fmt.Errorf("a journey has a name")
	}
	j.name = words[0]
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		limit, err := strconv.Atoi(value)
		if err != nil {
			return j, fmt.Errorf("%s: want a number", w)
		}
		switch key {
		case "hops":
			j.most = limit
		case "rooms":
			j.mostChanges = limit
		case "up":
			j.mostUp = limit
		default:
			return j, fmt.Errorf("%s: there are hops, rooms and up", w)
		}
	}
	return j, nil
}

// A walker finds functions by name.
type walker struct {
	*house
	functions map[string]hop
	bound     map[string]map[string]bool // by field or variable: the names in what it is set to
}

func newWalker(h *house) *walker {
	w := &walker{house: h, functions: map[string]hop{}, bound: map[string]map[string]bool{}}
	h.each(func(p *pkg, d ast.Decl) {
		w.bind(d)
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			return
		}
		fn, ok := p.info.Defs[f.Name].(*types.Func)
		if !ok {
			return
		}
		name := path.Base(p.dir) + "."
		if recv := fn.Signature().Recv(); recv != nil {
			if of := element(recv.Type()); of != nil {
				name += of.Obj().Name() + "."
			}
		}
		name += fn.Name()
		w.functions[name] = hop{name: name, room: p.room, fn: fn, body: f.Body, info: p.info}
	})
	return w
}

// bind records what fields and variables are set to.
func (w *walker) bind(d ast.Decl) {
	set := func(to, value ast.Expr) {
		name := lastName(to)
		if name == "" {
			return
		}
		if w.bound[name] == nil {
			w.bound[name] = map[string]bool{}
		}
		ast.Inspect(value, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				w.bound[name][id.Name] = true
			}
			return true
		})
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			set(n.Key, n.Value)
		case *ast.AssignStmt:
			if len(n.Lhs) == len(n.Rhs) {
				for i := range n.Lhs {
					set(n.Lhs[i], n.Rhs[i])
				}
			}
		}
		return true
	})
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// follow checks and counts the hops of a journey. Each must be named by an earlier one, the
// nearest of which counts as its caller: a reader who returns from a function continues in
// its caller.
func (w *walker) follow(j *journey) {
	wrong := func(h hop, format string, args ...any) {
		j.errors = append(j.errors, fmt.Sprintf("%s, line %d: %s %s", j.name, h.line, h.name, fmt.Sprintf(format, args...)))
	}
	for i := range j.hops {
		h := &j.hops[i]
		found, ok := w.functions[h.name]
		if !ok {
			wrong(*h, "does not exist")
		}
		h.fn, h.body, h.info = found.fn, found.body, found.info
		if ok {
			h.room = found.room
		}
		if i == 0 {
			continue
		}
		if from := j.hops[i-1].room; from != h.room {
			j.changes = append(j.changes, from.Name+" → "+h.room.Name)
		}
		if !ok || h.apart {
			continue
		}
		if why := w.unbound(*h); why != "" {
			wrong(*h, "%s", why)
		}
		at := i - 1
		for at >= 0 && !names(j.hops[at], *h) {
			at--
		}
		if at < 0 {
			wrong(*h, "is named by no hop before it")
		} else if from := j.hops[at]; above(h.fn.Pkg(), from.fn.Pkg()) {
			j.up = append(j.up, from.name+" → "+h.name)
		}
	}
}

// unbound returns why the fields that are said to hold a function do not hold it, or "".
func (w *walker) unbound(h hop) string {
	value := h.fn.Name()
	for _, name := range h.through {
		if !w.bound[name][value] {
			return fmt.Sprintf("is not in %s: nothing sets that to %s", name, value)
		}
		value = name
	}
	return ""
}

// names reports whether the body of from names to: directly, through a method of an
// interface, or through the field or variable that holds it.
func names(from, to hop) bool {
	if from.body == nil || to.fn == nil {
		return false
	}
	named := false
	ast.Inspect(from.body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || named {
			return !named
		}
		used := from.info.Uses[id]
		if len(to.through) > 0 {
			_, named = used.(*types.Var)
			named = named && id.Name == to.through[len(to.through)-1]
			return !named
		}
		fn, ok := used.(*types.Func)
		named = ok && (fn.Origin() == to.fn || viaInterface(fn, to.fn))
		return !named
	})
	return named
}

// viaInterface reports whether called is the method of an interface that fn may implement.
func viaInterface(called, fn *types.Func) bool {
	recv := called.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type()) && called.Name() == fn.Name() && fn.Signature().Recv() != nil
}
