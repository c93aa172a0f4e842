package template

import (
	"strconv"
	"strings"
)

// A Ref is a use of a variable in a Liquid expression: its name and the path after it.
type Ref struct {
	Name   string
	Path   []Segment
	Offset int // in bytes, in the expression
}

// A Segment is one link of a path: a property, an index, or something known only at rendering.
type Segment struct {
	Name    string // if it is dynamic, the expression in the brackets
	Index   bool
	Dynamic bool
}

func (r Ref) String() string {
	var b strings.Builder
	b.WriteString(r.Name)
	for _, s := range r.Path {
		switch {
		case s.Dynamic || s.Index:
			b.WriteString("[]")
		default:
			b.WriteString("." + s.Name)
		}
	}
	return b.String()
}

// liquidWords are not variables.
var liquidWords = map[string]bool{
	"true": true, "false": true, "nil": true, "null": true, "blank": true, "empty": true,
	"and": true, "or": true, "contains": true, "in": true, "reversed": true,
}

// References lists the variables and the filters of a Liquid expression that the engine has
// parsed, in order. The engine compiles expressions to functions and has no syntax tree, so the
// tokens are read again here.
func References(expr string) (refs []Ref, filters []string) {
	s := refScanner{expr: expr, chain: -1}
	for s.at < len(expr) && s.token() {
	}
	return s.refs, s.filters
}

// A refScanner reads the tokens of an expression and follows chains: a.b[0].c is one ref.
type refScanner struct {
	expr    string
	at      int
	last    byte // the last significant character before the current token
	chain   int  // index into refs of the chain being read, -1 for none
	stack   []openIndex
	refs    []Ref
	filters []string
}

// An openIndex is a "[" without its "]".
type openIndex struct {
	chain int      // the chain that the index belongs to, -1 for none
	begin int      // of what is in it
	key   *Segment // nil unless the index begins with a literal
}

// token reads one token; it reports false if the rest cannot be read.
func (s *refScanner) token() bool {
	switch c := s.expr[s.at]; {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		s.at++
	case c == '"' || c == '\'':
		end := strings.IndexByte(s.expr[s.at+1:], c)
		if end < 0 {
			return false
		}
		s.literal(Segment{Name: s.expr[s.at+1 : s.at+1+end]})
		s.step(end+2, -1, c)
	case isDigit(c) || c == '-' && isDigit(s.peek(1)):
		n := 1
		for isDigit(s.peek(n)) || s.peek(n) == '.' && isDigit(s.peek(n+1)) {
			n++
		}
		s.literal(Segment{Name: s.expr[s.at : s.at+n], Index: true})
		s.step(n, -1, '0')
	case isLetter(c):
		s.word()
	case c == '[':
		s.stack = append(s.stack, openIndex{chain: s.chain, begin: s.at + 1})
		s.step(1, -1, c)
	case c == ']':
		s.step(1, s.closeIndex(), c)
	case c == '.' && s.peek(1) == '.': // a range
		s.step(2, -1, ',')
	case c == '.':
		s.step(1, s.chain, c)
	default:
		s.step(1, -1, c)
	}
	return true
}

// peek returns the character n after the current one, 0 at the end.
func (s *refScanner) peek(n int) byte {
	if s.at+n < len(s.expr) {
		return s.expr[s.at+n]
	}
	return 0
}

func (s *refScanner) step(n, chain int, last byte) { s.at, s.chain, s.last = s.at+n, chain, last }

// literal records the key of an index if it is the first token in it.
func (s *refScanner) literal(key Segment) {
	if n := len(s.stack); n > 0 && s.last == '[' {
		s.stack[n-1].key = &key
	}
}

// word reads a name: a property of the current chain, a filter, a keyword, or a new variable.
func (s *refScanner) word() {
	n := 1
	for isLetter(s.peek(n)) || isDigit(s.peek(n)) || s.peek(n) == '-' {
		n++
	}
	if s.peek(n) == '?' {
		n++
	}
	word, chain := s.expr[s.at:s.at+n], -1
	switch {
	case s.last == '.' && s.chain >= 0:
		chain = s.chain
		s.refs[chain].Path = append(s.refs[chain].Path, Segment{Name: word})
	case s.last == '|':
		s.filters = append(s.filters, word)
	case s.peek(n) == ':' || liquidWords[word]:
	default:
		chain = len(s.refs)
		s.refs = append(s.refs, Ref{Name: word, Offset: s.at})
	}
	s.step(n, chain, 'a')
}

// closeIndex adds the current index to its chain and returns the chain, -1 for none.
func (s *refScanner) closeIndex() int {
	n := len(s.stack)
	if n == 0 {
		return -1
	}
	open := s.stack[n-1]
	s.stack = s.stack[:n-1]
	if open.chain < 0 {
		return -1
	}
	key := Segment{Name: s.expr[open.begin:s.at], Dynamic: true}
	if open.key != nil {
		key = *open.key
	}
	s.refs[open.chain].Path = append(s.refs[open.chain].Path, key)
	return open.chain
}

// absent reports whether r leads to no variable, field or element at all, rather than to one that is null.
func (b *budget) absent(r Ref) bool {
	v, ok := b.scope[r.Name]
	for _, g := range r.Path {
		var key any = g.Name
		switch {
		case g.Dynamic:
			key = b.evaluate(g.Name)
		case g.Index:
			key, _ = strconv.Atoi(g.Name)
		}
		v, ok = follow(v, key)
	}
	return !ok
}

// follow returns a field or an element of v, and whether there is one. Every list has a first and a last element, as
// the filters of these names have a result.
func follow(v, key any) (next any, ok bool) {
	switch v := v.(type) {
	case object:
		name, _ := key.(string)
		next, ok = v[name]
		return next, ok
	case map[string]any: // forloop
		return follow(object(v), key)
	}
	l, ok := list(v)
	if !ok {
		return nil, false
	}
	switch key {
	case "first":
		return item(l, 0), true
	case "last":
		return item(l, -1), true
	case "size":
		return len(l), true
	}
	i, ok := key.(int)
	if i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return nil, false
	}
	return l[i], true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
