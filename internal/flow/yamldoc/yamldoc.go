// Package yamldoc strictly reads a single document of YAML 1.2, which includes JSON.
//
// It turns bytes into nodes, which know their line and column, and into JSON values. Laws: one
// document; no duplicate keys; only the tags of JSON types; a number is kept or refused as in the JSON of the record; a
// hostile document is an error, never a panic. [Value] also refuses anchors, aliases and merges.
// Packages that allow those resolve them themselves, with [Parse], [Pairs] and [Scalar].
package yamldoc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/sys/number"
)

// An Error describes a problem at a position in a document. Lines and columns count from 1.
type Error struct {
	Line, Column int
	Message      string
	Duplicate    bool // the problem is a duplicate key
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Errorf returns an error at the position of n.
func Errorf(n *yaml.Node, format string, args ...any) *Error {
	return &Error{Line: max(n.Line, 1), Column: max(n.Column, 1), Message: fmt.Sprintf(format, args...)}
}

// Parse returns the root of the only document in data, or nil if there is none. An error is an *Error.
func Parse(data []byte) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, &Error{1, 1, fmt.Sprintf("not readable as YAML: %v", p), false}
		}
	}()
	if text := bytes.TrimLeft(data, mark+" \t\r\n"); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		if root, err := ParseJSON(data); err == nil {
			return root, nil
		}
	}
	hidden, show := hidePairs(modernized(data))
	loader, err := yaml.NewLoader(bytes.NewReader(hidden))
	if err != nil {
		return nil, located(data, err)
	}
	var doc, more yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, located(data, err)
	}
	if err := loader.Load(&more); err == nil {
		return nil, Errorf(&more, "a second document begins here; only one is allowed")
	} else if !errors.Is(err, io.EOF) {
		return nil, located(data, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	show(doc.Content[0])
	return doc.Content[0], nil
}

// located returns an error of the parser with the position that the parser names.
func located(data []byte, err error) *Error {
	var all *yaml.LoadErrors
	one := &yaml.LoadError{Message: err.Error()}
	if errors.As(err, &all) && len(all.Errors) > 0 {
		one = all.Errors[0]
	} else {
		errors.As(err, &one)
	}
	if at := unprintable.FindIndex(data); one.Mark.Line == 0 && at != nil {
		before := data[:at[0]]
		one.Mark.Line = bytes.Count(before, []byte("\n")) + 1
		one.Mark.Column = utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	}
	return &Error{max(one.Mark.Line, 1), max(one.Mark.Column, 1), explain(data, one), false}
}

// unprintable matches the characters that YAML does not allow. The parser does not say where they are.
var unprintable = regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\x{FFFE}\x{FFFF}]`)

// A Pair is a key of a mapping and its value, as written.
type Pair struct{ Key, Value *yaml.Node }

// Pairs returns the keys and values of mapping n in order. It omits, and returns an error for, each
// key that is not a scalar and each duplicate key.
func Pairs(n *yaml.Node) ([]Pair, []*Error) {
	var pairs []Pair
	var bad []*Error
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		text := key
		if key.Kind == yaml.AliasNode && key.Alias != nil {
			text = key.Alias
		}
		line, twice := first[text.Value]
		switch {
		case text.Kind != yaml.ScalarNode:
			bad = append(bad, Errorf(key, "keys must be plain text"))
		case twice:
			e := Errorf(key, "duplicate key %s, first on line %d", cmp.Or(text.Value, `""`), line)
			e.Duplicate = true
			bad = append(bad, e)
		default:
			first[text.Value] = key.Line
			pairs = append(pairs, Pair{key, n.Content[i+1]})
		}
	}
	return pairs, bad
}

// IsMerge reports whether key is the "<<" of YAML 1.1, which merges other mappings into its own.
func IsMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" &&
		key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
}

// KnownTag reports whether the type of n is built into YAML and has a JSON equivalent: times are text.
func KnownTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "", "!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!!merge", "!!timestamp":
		return true
	}
	return false
}

// Value returns n as a JSON value. depth is how many levels there may be below n.
func Value(n *yaml.Node, depth int) (any, error) {
	switch {
	case depth < 0:
		return nil, Errorf(n, "nested too deep")
	case n.Anchor != "":
		return nil, Errorf(n, "anchors are not allowed")
	case n.Kind == yaml.AliasNode:
		return nil, Errorf(n, "references to other values are not allowed")
	case !KnownTag(n):
		return nil, Errorf(n, "tag %s is not allowed", n.ShortTag())
	}
	switch n.Kind {
	case yaml.MappingNode:
		pairs, bad := Pairs(n)
		if len(bad) > 0 {
			return nil, bad[0]
		}
		object := make(map[string]any, len(pairs))
		for _, p := range pairs {
			if p.Key.Kind != yaml.ScalarNode || p.Key.Anchor != "" || IsMerge(p.Key) {
				return nil, Errorf(p.Key, "keys must be plain text, without references")
			}
			if p.Key.Value == "" && p.Key.ShortTag() == "!!null" {
				return nil, Errorf(p.Key, "the name before the colon is missing")
			}
			v, err := Value(p.Value, depth-1)
			if bad := new(Error); p.Value.Kind == yaml.ScalarNode && errors.As(err, &bad) {
				bad.Message = fmt.Sprintf("%q: %s", p.Key.Value, bad.Message)
			}
			if err != nil {
				return nil, err
			}
			object[p.Key.Value] = v
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := Value(item, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return Scalar(n)
}

// Scalar returns a scalar as nil, a bool, an int64, a float64 or a string. Numbers are those of YAML 1.2, kept as the
// record keeps those of JSON. It refuses what is another number in YAML 1.1.
func Scalar(n *yaml.Node) (any, error) {
	tag, core := n.ShortTag(), coreNumber.MatchString(n.Value)
	switch tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b, nil
		}
	case "!!int", "!!float":
		var i int64
		exact := core && n.Decode(&i) == nil && i > -number.MaxExact && i < number.MaxExact
		if exact && (i != 0 || tag == "!!int") { // 1e-400 is no 0
			return i, nil
		}
		if f, err := number.Float(n.Value); core && err == nil {
			return f, nil
		}
		if !core && strings.ContainsAny(n.Value, "0123456789") {
			return nil, Errorf(n, "%s is not the same number in every version of YAML: write it without leading zeros, "+
				`"_" and "0b", or in quotes if it is a text`, n.Value)
		}
		return nil, notKept(n)
	case "!!str":
		if core && n.Style == 0 && n.Tag != "!" {
			return nil, notKept(n)
		}
	}
	return n.Value, nil
}

// coreNumber matches the numbers of YAML 1.2 that are the same in YAML 1.1, or no numbers there.
var coreNumber = regexp.MustCompile(
	`^(?:[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[[:xdigit:]]+)$`)

func notKept(n *yaml.Node) *Error {
	return Errorf(n, "number %s cannot be kept exactly; put it in quotes if it is a text", n.Value)
}
