package flow

import (
	"strings"
)

// A ref is one use of a variable in a Liquid expression: its name and the path below it.
type ref struct {
	name   string
	path   []seg
	offset int // in bytes, in the expression
}

// A seg is one link of a path: a property, an index, or something only known when rendered.
type seg struct {
	name    string
	index   bool
	dynamic bool
}

func (r ref) String() string {
	var b strings.Builder
	b.WriteString(r.name)
	for _, s := range r.path {
		switch {
		case s.dynamic || s.index:
			b.WriteString("[]")
		default:
			b.WriteString("." + s.name)
		}
	}
	return b.String()
}

// words that are no variables.
var liquidWords = map[string]bool{
	"true": true, "false": true, "nil": true, "null": true, "blank": true, "empty": true,
	"and": true, "or": true, "contains": true, "in": true, "reversed": true,
}

// references lists the variables and the filters of a Liquid expression that the engine has
// parsed, in the order they stand in.
func references(expr string) (refs []ref, filters []string) {
	type open struct {
		chain int // the chain that an index belongs to, -1 for none
		key   *seg
	}
	var stack []open
	chain := -1     // index into refs of the chain being read
	last := byte(0) // the last significant character before the current token
	literal := func(s seg) {
		if n := len(stack); n > 0 && last == '[' {
			stack[n-1].key = &s
		}
	}
	for i := 0; i < len(expr); {
		c := expr[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c == '"' || c == '\'':
			end := strings.IndexByte(expr[i+1:], c)
			if end < 0 {
				return refs, filters
			}
			literal(seg{name: expr[i+1 : i+1+end]})
			i += end + 2
			chain, last = -1, c
		case isDigit(c) || c == '-' && i+1 < len(expr) && isDigit(expr[i+1]):
			j := i + 1
			for j < len(expr) && (isDigit(expr[j]) || expr[j] == '.' && j+1 < len(expr) && isDigit(expr[j+1])) {
				j++
			}
			literal(seg{name: expr[i:j], index: true})
			i, chain, last = j, -1, '0'
		case isLetter(c):
			j := i + 1
			for j < len(expr) && (isLetter(expr[j]) || isDigit(expr[j]) || expr[j] == '-') {
				j++
			}
			if j < len(expr) && expr[j] == '?' {
				j++
			}
			word := expr[i:j]
			switch {
			case last == '.' && chain >= 0:
				refs[chain].path = append(refs[chain].path, seg{name: word})
			case last == '|':
				filters = append(filters, word)
				chain = -1
			case j < len(expr) && expr[j] == ':' || liquidWords[word]:
				chain = -1
			default:
				refs = append(refs, ref{name: word, offset: i})
				chain = len(refs) - 1
			}
			i, last = j, 'a'
		case c == '[':
			stack = append(stack, open{chain: chain})
			i, chain, last = i+1, -1, c
		case c == ']':
			chain = -1
			if n := len(stack); n > 0 {
				o := stack[n-1]
				stack = stack[:n-1]
				if o.chain >= 0 {
					s := seg{dynamic: true}
					if o.key != nil {
						s = *o.key
					}
					refs[o.chain].path = append(refs[o.chain].path, s)
					chain = o.chain
				}
			}
			i, last = i+1, c
		case c == '.':
			if i+1 < len(expr) && expr[i+1] == '.' {
				i, chain, last = i+2, -1, ','
				continue
			}
			i, last = i+1, c
		default:
			i, chain, last = i+1, -1, c
		}
	}
	return refs, filters
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
