package secret

import (
	"bytes"
	"encoding/base64"
	"slices"
)

// forms are the texts to look for: keys, and what base64 makes of them.
type forms struct {
	all   []string
	by    [256][]string   // by their first byte
	pairs [1 << 10]uint64 // a bit for each pair of bytes that a spelling can begin with
}

func newForms(keys []string) *forms {
	f := &forms{}
	for _, key := range keys {
		f.add(key)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for before := range 3 {
				// The characters that also depend on bytes before or after the key are left out.
				text := enc.EncodeToString(append(make([]byte, before), key...))
				f.add(text[(before*8+5)/6 : (before+len(key))*8/6])
			}
		}
	}
	return f
}

func (f *forms) add(form string) {
	first := form[0]
	if slices.Contains(f.all, form) {
		return
	}
	f.all = append(f.all, form)
	f.by[first] = append(f.by[first], form)
	pair := func(a, b byte) {
		at := uint(a)<<8 | uint(b)
		f.pairs[at>>6] |= 1 << (at & 63)
	}
	for _, next := range []byte{form[1], '\\', '%', '\r', '\n'} { // see match
		pair(first, next)
	}
	if form[1] == ' ' {
		pair(first, '+')
	}
	if !alphanumeric(first) {
		pair('\\', first)
	}
	pair('\\', '\\')
	pair('\\', 'u')
	const digits = "0123456789abcdef0123456789ABCDEF"
	pair('%', digits[first>>4])
	pair('%', digits[16+first>>4])
}

// replace returns text without keys. If more text will follow, it also returns the end that has to wait for it, which
// is not part of out. If even, out is as long as what it stands for.
func (f *forms) replace(text []byte, last, even bool) (out, held []byte) {
	done := 0
	for at := 0; ; {
		var n int
		at, n = f.next(text, at, last)
		if n == 0 {
			held = text[at:]
			if done == 0 {
				return text[:at:at], held
			}
			return append(out, text[done:at]...), held
		}
		out = append(append(out, text[done:at]...), masked(text[at:at+n], even)...)
		at += n
		done = at
	}
}

// masked returns what a key is replaced by. A line feed stays one.
func masked(key []byte, even bool) []byte {
	if !even {
		return append([]byte(mask), bytes.Repeat([]byte{'\n'}, bytes.Count(key, []byte{'\n'}))...)
	}
	out := bytes.Repeat([]byte{'*'}, len(key))
	for i, c := range key {
		if c == '\n' {
			out[i] = c
		}
	}
	return out
}

// next returns where the next key is, and its length. Without one, the length is zero, and the place is where text
// begins that has to wait for more.
func (f *forms) next(text []byte, at int, last bool) (place, length int) {
	for ; at+1 < len(text); at++ {
		pair := uint(text[at])<<8 | uint(text[at+1])
		if f.pairs[pair>>6]>>(pair&63)&1 == 0 {
			continue
		}
		if n, more := f.at(text[at:], last); more || n > 0 {
			return at, n
		}
	}
	if at < len(text) && !last {
		if c := text[at]; len(f.by[c]) > 0 || c == '\\' || c == '%' {
			return at, 0
		}
	}
	return len(text), 0
}

// at returns the length of the longest spelling of a form that text begins with, zero if there is none. more reports
// that this cannot be known yet.
func (f *forms) at(text []byte, last bool) (n int, more bool) {
	among := f.by[text[0]]
	if text[0] == '\\' || text[0] == '%' {
		among = f.all
	}
	for _, form := range among {
		m := matcher{text: text, form: form}
		end, short := m.match(0, 0)
		if short && !last {
			return 0, true
		}
		n = max(n, end)
	}
	return n, false
}
