package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A shapeObject is a JSON object that keeps the order of its members, since a
// model writes an answer in the order of the schema. A value is a shapeObject,
// a []any, a string, a bool, nil, or a json.RawMessage that is a number.
type shapeObject []shapeMember

type shapeMember struct {
	key   string
	value any
}

func (o shapeObject) get(key string) (any, bool) {
	for _, m := range o {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

// shapeDepth limits how deeply schemas and answers may be nested.
const shapeDepth = 200

// shapeParse reads exactly one JSON value. Duplicate members and invalid
// Unicode are errors.
func shapeParse(data []byte) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	v, err := shapeRead(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func shapeRead(dec *jsontext.Decoder, depth int) (any, error) {
	if depth > shapeDepth {
		return nil, fmt.Errorf("nested deeper than %d", shapeDepth)
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		o := shapeObject{}
		for dec.PeekKind() != '}' {
			key, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			name := key.String() // the token does not outlive the next read
			value, err := shapeRead(dec, depth+1)
			if err != nil {
				return nil, err
			}
			o = append(o, shapeMember{name, value})
		}
		_, err := dec.ReadToken()
		return o, err
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			value, err := shapeRead(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := dec.ReadToken()
		return list, err
	case '"':
		return tok.String(), nil
	case '0':
		return json.RawMessage(tok.String()), nil
	case 't', 'f':
		return tok.Bool(), nil
	}
	return nil, nil
}

// shapeAppend appends a value on one line. YAML reads the line as the same
// value: characters that it takes for line breaks or forbids are escaped, but
// never as a pair of surrogates.
func shapeAppend(b []byte, v any) []byte {
	switch v := v.(type) {
	case shapeObject:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',', ' ')
			}
			b = append(shapeAppend(b, m.key), ':', ' ')
			b = shapeAppend(b, m.value)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',', ' ')
			}
			b = shapeAppend(b, e)
		}
		return append(b, ']')
	case string:
		return shapeQuote(b, v)
	case bool:
		return fmt.Append(b, v)
	case json.RawMessage:
		return append(b, v...)
	}
	return append(b, "null"...)
}

func shapeQuote(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case r < 0x20 || r <= 0xFFFF && (!unicode.IsPrint(r) || r == 0xFEFF):
			b = fmt.Appendf(b, "\\u%04x", r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// shapeEqual reports whether two values other than objects and lists are equal.
// Numbers are if they are written the same way.
func shapeEqual(a, b any) bool {
	x, ok1 := a.(json.RawMessage)
	y, ok2 := b.(json.RawMessage)
	if ok1 || ok2 {
		return ok1 && ok2 && bytes.Equal(x, y)
	}
	switch a.(type) {
	case nil, bool, string:
		return a == b
	}
	return false
}
