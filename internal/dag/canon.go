package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one node. Larger or deeper input is refused before it is parsed
// into memory as a tree, since the input may come from an agent.
const (
	MaxBytes = 8 << 20 // bytes of one encoded node
	MaxDepth = 64      // levels of nesting, the node's own object included
)

// maxInt is the magnitude that an integer must stay below. JCS rounds larger
// ones to the nearest float64, so that two different inputs would have one hash.
const maxInt = 1 << 53

var (
	// ErrTooLarge is returned for more than MaxBytes.
	ErrTooLarge = errors.New("larger than 8 MiB")
	// ErrTooDeep is returned for nesting over MaxDepth.
	ErrTooDeep = errors.New("nested deeper than 64 levels")
	// ErrNumber is returned for a number that has no exact canonical spelling.
	ErrNumber = errors.New("number out of range: integers must stay below 2^53")
)

// Canonical returns raw in the form of RFC 8785: no white space, keys in UTF-16
// order, shortest numbers. It refuses invalid UTF-8, duplicate keys, nesting over
// MaxDepth, and numbers that the canonical form would change in value.
func Canonical(raw []byte) ([]byte, error) {
	if len(raw) > MaxBytes {
		return nil, ErrTooLarge
	}
	if isCanonical(raw) {
		return bytes.Clone(raw), nil
	}
	return canonicalize(raw)
}

func canonicalize(raw []byte) ([]byte, error) {
	if err := checkValue(raw, MaxDepth); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		return nil, err
	}
	return v, nil
}

// Marshal returns the canonical form of v's JSON encoding.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return Canonical(buf.Bytes())
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
			return err
		}
		if tok.Kind() == '0' {
			if err := checkNumber(tok.String()); err != nil {
				return err
			}
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	// Anything after the value but white space is an error.
	if rest := bytes.TrimLeft(raw[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("unexpected %q after the value", clip(string(rest)))
	}
	return nil
}

func checkNumber(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return ErrNumber
	}
	if f == math.Trunc(f) && math.Abs(f) >= maxInt {
		// A float spelled with an exponent is a float: 1e30 means what it says.
		if !bytes.ContainsAny([]byte(s), "eE") {
			return ErrNumber
		}
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

// AppendHashes appends hs as a JSON array.
func AppendHashes(b []byte, hs []Hash) []byte {
	b = append(b, '[')
	for i, h := range hs {
		if i > 0 {
			b = append(b, ',')
		}
		b = h.Append(b)
	}
	return append(b, ']')
}
