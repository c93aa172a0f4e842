package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/plait-run/plait/internal/sys/number"
)

// Limits of one node. Larger or deeper input is refused before it is parsed
// into memory as a tree, since the input may come from an agent.
const (
	MaxBytes = 8 << 20 // bytes of one encoded node
	MaxDepth = 64      // levels of nesting, the node's own object included
)

var (
	// ErrTooLarge is returned for more than MaxBytes.
	ErrTooLarge = errors.New("larger than 8 MiB")
	// ErrTooDeep is returned for nesting over MaxDepth.
	ErrTooDeep = errors.New("nested deeper than 64 levels")
)

// Canonical returns raw in the form of RFC 8785: no white space, keys in UTF-16
// order, shortest numbers. It refuses invalid UTF-8, duplicate keys, nesting over
// MaxDepth, and numbers that the canonical form would change in value. The canonical
// form of a canonical form is itself.
func Canonical(raw []byte) ([]byte, error) { return CanonicalWithin(raw, MaxBytes) }

// CanonicalWithin is Canonical for what is no node, with a limit of its own.
func CanonicalWithin(raw []byte, most int) ([]byte, error) {
	if len(raw) > most {
		return nil, ErrTooLarge
	}
	if isCanonical(raw) {
		return bytes.Clone(raw), nil
	}
	v, err := canonicalize(raw)
	if len(v) > most { // 1e20 is longer when it is canonical
		return nil, ErrTooLarge
	}
	return v, err
}

func canonicalize(raw []byte) ([]byte, error) {
	if err := checkValue(raw, MaxDepth); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(raw))
	err := v.Canonicalize()
	return v, err
}

// Marshal returns the canonical form of v's JSON encoding.
func Marshal(v any) ([]byte, error) { return MarshalWithin(v, MaxBytes) }

// MarshalWithin is Marshal for what is no node, with a limit of its own.
func MarshalWithin(v any, most int) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return CanonicalWithin(buf.Bytes(), most)
}

// checkValue reads raw token by token, so that depth is bounded before
// anything recurses over it.
func checkValue(raw []byte, maxDepth int) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		if k := dec.PeekKind(); (k == '{' || k == '[') && dec.StackDepth() >= maxDepth {
			return ErrTooDeep
		}
		tok, err := dec.ReadToken()
		if err != nil {
			return explain(raw, err)
		}
		if tok.Kind() == '0' {
			if _, err := number.Float(tok.String()); err != nil {
				return within(dec.StackPointer(), err)
			}
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	// Anything after the value but white space is an error.
	at := dec.InputOffset()
	if rest := bytes.TrimLeft(raw[at:], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("%s: unexpected %q after the value", position(raw, len(raw)-len(rest)), clip(string(rest)))
	}
	return nil
}

// AppendString appends s as a canonical JSON string (RFC 8785 §3.2.2.2).
// Invalid UTF-8 becomes U+FFFD; codecs check their text beforehand.
func AppendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		for i+8 <= len(s) && plainBytes(word(s[i:i+8])) {
			i += 8
		}
		if i == len(s) {
			break
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\uFFFD"...)
				i++
				start = i
				continue
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// word returns the eight bytes of s as a number.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// appendHashes appends hs as a JSON array.
func appendHashes(b []byte, hs []Hash) []byte {
	b = append(b, '[')
	for i, h := range hs {
		if i > 0 {
			b = append(b, ',')
		}
		b = h.Append(b)
	}
	return append(b, ']')
}
