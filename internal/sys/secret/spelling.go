package secret

import (
	"bytes"
	"unicode/utf8"
)

const (
	maxRun    = 8 // backslashes in a row: JSON within JSON doubles them
	maxBreaks = 2 // parts of a line break between two bytes of a key: \r\n
)

// A matcher compares the beginning of a text with a form.
type matcher struct {
	text []byte
	form string
}

// match returns the length of the spelling with which text begins, zero if there is none, given that the n bytes
// before are a spelling of the i bytes of the form before. short reports that it could be longer if more text follows.
func (m *matcher) match(n, i int) (end int, short bool) {
	solid, breaks := n, 0 // where the last byte of the form ended, and the line breaks since
	for i < len(m.form) {
		if n == len(m.text) {
			return m.part(solid, i), true
		}
		taken, of := 1, 1 // bytes of the text, and of the form that they stand for
		switch c, want := m.text[n], m.form[i]; {
		case c == '\\':
			if taken, of, short = m.backslash(n, i); short {
				if of > 0 && i+of == len(m.form) {
					return n + taken, true
				}
				return m.part(solid, i), true
			}
		case c == '%' && want == '%':
			if twice := []byte("%25"); bytes.HasPrefix(m.text[n:], twice) {
				if end, short := m.match(n+3, i+1); end > 0 || short {
					return end, short
				}
			} else if bytes.HasPrefix(twice, m.text[n:]) {
				end, _ := m.match(n+1, i+1)
				return end, true
			}
		case c == '%':
			if taken, of = 3, 1; len(m.text)-n < taken {
				return m.part(solid, i), true
			}
			if r, ok := hex(m.text[n+1 : n+3]); !ok || byte(r) != want {
				return m.part(solid, i), false
			}
		case c == want, c == '+' && want == ' ':
		case c == '\n' || c == '\r':
			of = 0
		default:
			taken = 0
		}
		if of == 0 {
			breaks++
		}
		if taken == 0 || breaks > maxBreaks || of == 0 && i == 0 {
			return m.part(solid, i), false
		}
		if n, i = n+taken, i+of; of > 0 {
			solid, breaks = n, 0
		}
	}
	return n, false
}

// part returns n if the i bytes of the form that were found are enough.
func (m *matcher) part(n, i int) int {
	if i >= max(leastPart, (len(m.form)+1)/2) {
		return n
	}
	return 0
}

// backslash returns how many bytes an escape at n takes, and for how many bytes of the form from i on it stands: none
// if it is a line break that is not part of the form. Zero bytes are no spelling. short reports that the text ends
// before that is known.
func (m *matcher) backslash(n, i int) (taken, of int, short bool) {
	run, own := 0, 0
	for run < maxRun && n+run < len(m.text) && m.text[n+run] == '\\' {
		run++
	}
	for i+own < len(m.form) && m.form[i+own] == '\\' {
		own++
	}
	ends := n+run == len(m.text) && run < maxRun
	if own > 0 {
		if run >= own {
			return run, own, ends
		}
		return 0, 0, ends
	}
	if n+run == len(m.text) {
		return 0, 0, true
	}
	taken, want := run+1, m.form[i]
	switch c := m.text[n+run]; {
	case c == 'u':
		digits := m.text[n+taken:]
		if len(digits) < 4 {
			return 0, 0, true
		}
		r, ok := hex(digits[:4])
		char := utf8.AppendRune(nil, r)
		if !ok || len(m.form)-i < len(char) || m.form[i:i+len(char)] != string(char) {
			return 0, 0, false
		}
		return taken + 4, len(char), false
	case c == 'n' && want == '\n', c == 'r' && want == '\r', c == 't' && want == '\t':
		return taken, 1, false
	case c == 'n' || c == 'r':
		return taken, 0, false
	case c == want && !alphanumeric(c):
		return taken, 1, false
	}
	return 0, 0, false
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// hex returns the number that hexadecimal digits stand for.
func hex(digits []byte) (n rune, ok bool) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
