package yamldoc

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// ParseJSON returns the root of the only JSON value in data, or nil if there is none. An error is an *Error.
func ParseJSON(data []byte) (*yaml.Node, error) {
	data = bytes.TrimPrefix(data, []byte(mark))
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return nil, nil
	}
	// Duplicate keys are for Pairs to report.
	r := &jsonReader{jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true)), data, 0, 1, 1}
	root, err := r.value()
	if rest := bytes.TrimLeft(data[r.InputOffset():], " \t\r\n"); err == nil && len(rest) > 0 {
		r.moveTo(len(data) - len(rest))
		return nil, &Error{r.line, r.column, "not JSON: more text follows the value", false}
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		r.moveTo(int(syntax.ByteOffset))
		return nil, &Error{r.line, r.column, "not JSON: " + strings.TrimPrefix(syntax.Err.Error(), "jsontext: "), false}
	}
	return root, err
}

const mark = "\uFEFF" // the byte order mark

// A jsonReader turns JSON into nodes. It knows the line and column of the offset at.
type jsonReader struct {
	*jsontext.Decoder
	data             []byte
	at, line, column int
}

func (r *jsonReader) moveTo(offset int) {
	text := r.data[min(r.at, offset):offset]
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		r.line, r.column = r.line+bytes.Count(text, []byte("\n")), 1
		text = text[i+1:]
	}
	r.column += utf8.RuneCount(text)
	r.at = offset
}

func (r *jsonReader) value() (*yaml.Node, error) {
	switch r.PeekKind() {
	case '{':
		return r.composite(yaml.MappingNode, "!!map")
	case '[':
		return r.composite(yaml.SequenceNode, "!!seq")
	}
	raw, err := r.ReadValue()
	if err != nil {
		return nil, err
	}
	n := r.node(yaml.ScalarNode, "!!str", len(raw))
	n.Value = string(raw)
	switch raw.Kind() {
	case 'n':
		n.Tag = "!!null"
	case 't', 'f':
		n.Tag = "!!bool"
	case '0':
		n.Tag = "!!float"
		if !bytes.ContainsAny(raw, ".eE") {
			n.Tag = "!!int"
		}
	default:
		n.Style = yaml.DoubleQuotedStyle
		text, err := jsontext.AppendUnquote(nil, raw)
		n.Value = string(text)
		return n, err
	}
	return n, nil
}

func (r *jsonReader) composite(kind yaml.Kind, tag string) (*yaml.Node, error) {
	if _, err := r.ReadToken(); err != nil {
		return nil, err
	}
	n := r.node(kind, tag, 1)
	n.Style = yaml.FlowStyle
	for k := r.PeekKind(); k != '}' && k != ']'; k = r.PeekKind() {
		child, err := r.value()
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	_, err := r.ReadToken()
	return n, err
}

// node returns a node for the size bytes that were just read.
func (r *jsonReader) node(kind yaml.Kind, tag string, size int) *yaml.Node {
	r.moveTo(int(r.InputOffset()) - size)
	return &yaml.Node{Kind: kind, Tag: tag, Line: r.line, Column: r.column}
}
