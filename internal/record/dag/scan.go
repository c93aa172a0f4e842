package dag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A scanner reads canonical JSON in one pass and refuses everything else. It is the fast path of
// [Canonical] for bytes that are already canonical, as all bytes of the record are; Canonical
// itself reports why others are refused.
type scanner struct {
	data []byte
	at   int
}

// isCanonical reports whether data is one JSON value in canonical form.
func isCanonical(data []byte) bool {
	s := scanner{data: data}
	return s.value(0) && s.at == len(data)
}

// take moves past text, if it comes next.
func (s *scanner) take(text string) bool {
	if end := s.at + len(text); end > len(s.data) || string(s.data[s.at:end]) != text {
		return false
	}
	s.at += len(text)
	return true
}

// value moves past a value at the given depth of nesting.
func (s *scanner) value(depth int) bool {
	if s.at >= len(s.data) {
		return false
	}
	switch s.data[s.at] {
	case '"':
		return s.text()
	case '{':
		return s.object(depth)
	case '[':
		return s.list(depth)
	case 'n':
		return s.take("null")
	case 't':
		return s.take("true")
	case 'f':
		return s.take("false")
	}
	return s.number()
}

func (s *scanner) object(depth int) bool {
	s.at++
	if depth >= MaxDepth {
		return false
	}
	if s.take("}") {
		return true
	}
	var before []byte
	for {
		begin := s.at
		if !s.take(`"`) {
			return false
		}
		s.at = begin
		if !s.text() {
			return false
		}
		key := s.data[begin:s.at]
		if before != nil && !inOrder(before, key) {
			return false
		}
		before = key
		if !s.take(":") || !s.value(depth+1) {
			return false
		}
		if s.take("}") {
			return true
		}
		if !s.take(",") {
			return false
		}
	}
}

func (s *scanner) list(depth int) bool {
	s.at++
	if depth >= MaxDepth {
		return false
	}
	if s.take("]") {
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if s.take("]") {
			return true
		}
		if !s.take(",") {
			return false
		}
	}
}

// inOrder reports whether the key a comes before the key b, both in quotes. Keys are in UTF-16
// order, which below U+0080 is byte order.
func inOrder(a, b []byte) bool {
	plain := func(c byte) bool { return c < utf8.RuneSelf && c != '\\' }
	for i := 1; i < min(len(a), len(b)); i++ {
		switch {
		case !plain(a[i]) || !plain(b[i]):
			x, errX := Unquote(a)
			y, errY := Unquote(b)
			return errX == nil && errY == nil &&
				slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y))) < 0
		case i == len(a)-1 || i == len(b)-1: // one of them ends here
			return len(a) < len(b)
		case a[i] != b[i]:
			return a[i] < b[i]
		}
	}
	return false
}

// number moves past a number. All but plain integers are left to the library.
func (s *scanner) number() bool {
	begin := s.at
	for s.at < len(s.data) && bytes.IndexByte([]byte("+-.0123456789Ee"), s.data[s.at]) >= 0 {
		s.at++
	}
	digits := bytes.TrimPrefix(s.data[begin:s.at], []byte("-"))
	if n := len(digits); n == 0 || n > 15 || digits[0] == '0' && (n > 1 || s.at-begin > 1) ||
		bytes.ContainsAny(digits, "+-.Ee") {
		canon, err := canonicalize(s.data[begin:s.at])
		return err == nil && bytes.Equal(canon, s.data[begin:s.at])
	}
	return true
}

// plainByte says which bytes of a text need no further look.
var plainByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf
	}
	return t
}()

// plainBytes reports whether the eight bytes of w need no further look. Most bytes of a record are texts.
func plainBytes(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quotes, backslashes := w^ones*'"', w^ones*'\\'
	// A byte that is less than n borrows from its top bit when n is subtracted.
	special := (w-ones*0x20)&^w | (quotes-ones)&^quotes | (backslashes-ones)&^backslashes
	return (special|w)&tops == 0
}

// text moves past a text, whose opening quote the caller has seen at s.at.
func (s *scanner) text() bool {
	data := s.data
	for i := s.at + 1; i < len(data); {
		for i+8 <= len(data) && plainBytes(binary.LittleEndian.Uint64(data[i:])) {
			i += 8
		}
		if i == len(data) {
			break
		}
		c := data[i]
		switch {
		case plainByte[c]:
			i++
		case c == '"':
			s.at = i + 1
			return true
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				return false
			}
			i += n
		case c == '\\':
			n := escaped(data[i+1:])
			if n == 0 {
				return false
			}
			i += 1 + n
		default:
			return false
		}
	}
	return false
}

// escaped returns the length of what follows a backslash, or 0 if it is not in canonical form.
func escaped(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u': // a control character without a short escape
		if len(b) < 5 || b[1] != '0' || b[2] != '0' || b[3] != '0' && b[3] != '1' {
			return 0
		}
		low := bytes.IndexByte([]byte("0123456789abcdef"), b[4])
		if low < 0 || b[3] == '0' && bytes.IndexByte([]byte("\b\t\n\f\r"), byte(low)) >= 0 {
			return 0
		}
		return 5
	}
	return 0
}

// Unquote returns the text of a JSON string.
func Unquote(raw []byte) (string, error) {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 &&
		bytes.IndexByte(raw[1:n-1], '"') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1]), nil
	}
	text, err := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw)
	return string(text), err
}

// errNotObject is returned by members for anything but an object.
var errNotObject = errors.New("want an object")

// members calls do with each key of a canonical object, as written between its quotes, and its
// value; an error from do ends the loop and is returned. Anything that is not canonical may be
// misread: members is for the payloads of decoded nodes.
func members(object []byte, do func(key, value []byte) error) error {
	if len(object) == 0 || object[0] != '{' {
		return errNotObject
	}
	for i := 1; i < len(object) && object[i] != '}'; {
		key := valueEnd(object, i)
		end := valueEnd(object, key+1)
		if key-i < 2 || end > len(object) {
			return errNotObject
		}
		if err := do(object[i+1:key-1], object[key+1:end]); err != nil {
			return err
		}
		if i = end; i < len(object) && object[i] == ',' {
			i++
		}
	}
	return nil
}

// items is members for the items of a list.
func items(list []byte, do func(item []byte) error) error {
	if len(list) == 0 || list[0] != '[' {
		return errors.New("want a list")
	}
	for i := 1; i < len(list) && list[i] != ']'; {
		end := valueEnd(list, i)
		if end > len(list) || end == i {
			return errors.New("want a list")
		}
		if err := do(list[i:end]); err != nil {
			return err
		}
		if i = end; i < len(list) && list[i] == ',' {
			i++
		}
	}
	return nil
}

// valueEnd returns the end of the canonical value that begins at i, or a position beyond data if it has none.
func valueEnd(data []byte, i int) int {
	for open := 0; i < len(data); {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			open++
			i++
		case '}', ']':
			if open == 0 {
				return i // of the enclosing value
			}
			open--
			i++
		case ',', ':':
			if open == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if open == 0 {
			return i
		}
	}
	return len(data) + 1
}
