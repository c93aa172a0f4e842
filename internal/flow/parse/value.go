package parse

import (
	"errors"
	"fmt"
	"math"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/template"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "empty"
	}
	return "text"
}

// text reads a string; null is "".
func (r *reader) text(n *yaml.Node, what string) string {
	rn := resolve(n)
	if rn.Kind == yaml.ScalarNode {
		switch rn.ShortTag() {
		case "!!str", "!!timestamp", "!":
			return rn.Value
		case "!!null", tagBroken:
			return ""
		}
	}
	if !isBroken(rn) {
		r.report(n, codeWrongType, "%s must be text, not %s", what, kindOf(rn))
	}
	return ""
}

// word reads a string that may be written as a number or a boolean: an argument, a status.
func (r *reader) word(n *yaml.Node, what string) string {
	rn := resolve(n)
	if rn.Kind == yaml.ScalarNode && !isNull(rn) {
		return rn.Value
	}
	if !isBroken(rn) {
		r.report(n, codeWrongType, "%s must be text, not %s", what, kindOf(rn))
	}
	return ""
}

func (r *reader) list(n *yaml.Node, what string, item func(*yaml.Node, string) string) []string {
	rn := resolve(n)
	switch {
	case rn.Kind == yaml.SequenceNode:
		out := make([]string, 0, len(rn.Content))
		for _, c := range rn.Content {
			out = append(out, item(c, "an entry of "+what))
		}
		return out
	case !isNull(rn) && !isBroken(rn):
		r.report(n, codeWrongType, "%s must be a list, not %s", what, kindOf(rn))
	}
	return nil
}

func (r *reader) boolean(n *yaml.Node, what string) (v, ok bool) {
	rn := resolve(n)
	if rn.Kind == yaml.ScalarNode && rn.ShortTag() == "!!bool" && rn.Decode(&v) == nil {
		return v, true
	}
	if !isNull(rn) && !isBroken(rn) {
		r.report(n, codeWrongType, "%s must be true or false, not %s", what, kindOf(rn))
	}
	return false, false
}

// count reads an integer of 0 or more. As in JSON Schema, 1.0 and 1e3 are integers.
func (r *reader) count(n *yaml.Node, what string) (v int64, ok bool) {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return 0, false
	}
	value, err := scalar(rn)
	f, isFloat := value.(float64)
	v, ok = value.(int64)
	switch {
	case err != nil:
		r.report(n, codeBadLimit, "%s: %v", what, err)
	case !ok && !isFloat:
		r.report(n, codeWrongType, "%s must be a whole number, not %s", what, kindOf(rn))
	case isFloat && f != math.Trunc(f):
		r.report(n, codeWrongType, "%s must be a whole number, not %s", what, rn.Value)
	case isFloat || v < 0 || v > math.MaxInt:
		r.report(n, codeBadLimit, "%s must be from 0 to 2^53-1, not %s", what, rn.Value)
	default:
		return v, true
	}
	return 0, false
}

// scalar returns the value of a scalar where a number may be: an integer below 2^53 as an int64, however it is written.
func scalar(n *yaml.Node) (any, error) {
	v, err := yamldoc.Scalar(n)
	if err != nil {
		return nil, fmt.Errorf(`%s cannot be used: write a number below 2^53, without leading zeros, "_" and "0b"`, n.Value)
	}
	if v == 0.0 {
		v = int64(0) // -0 and 0.0
	}
	return v, nil
}

// numeral returns the text of a scalar; that of a number as people write it.
func numeral(n *yaml.Node) (string, error) {
	v, err := scalar(n)
	return template.Text(v), err
}

func (r *reader) duration(n *yaml.Node, what string) flow.Duration {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return 0
	}
	if rn.Kind != yaml.ScalarNode || rn.ShortTag() == "!!bool" {
		r.report(n, codeWrongType, "%s must be a duration, not %s", what, kindOf(rn))
		return 0
	}
	text, err := numeral(rn)
	var d flow.Duration
	if err == nil {
		d, err = flow.ParseDuration(text)
	}
	if err != nil {
		r.report(n, codeBadDuration, "%s: %v", what, err)
	}
	return d
}

func (r *reader) size(n *yaml.Node, what string) flow.Size {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return 0
	}
	if rn.Kind != yaml.ScalarNode || rn.ShortTag() == "!!bool" {
		r.report(n, codeWrongType, "%s must be a size, not %s", what, kindOf(rn))
		return 0
	}
	text, err := numeral(rn)
	var s flow.Size
	if err == nil {
		s, err = flow.ParseSize(text)
	}
	if err != nil {
		r.report(n, codeBadLimit, "%s: %v", what, err)
	}
	return s
}

func (r *reader) access(n *yaml.Node) flow.Access {
	if rn := resolve(n); isNull(rn) || isBroken(rn) {
		return flow.Read
	}
	switch a := flow.Access(r.word(n, "access")); a {
	case flow.Read, flow.Write, flow.Full:
		return a
	default:
		r.report(n, codeBadAccess, "access is read, write or full, not %q", string(a))
		return flow.Read
	}
}

// free reads a value of any type as JSON. Aliases count each time they are used, so a few lines
// cannot expand without limit.
func (r *reader) free(n *yaml.Node, depth int) any {
	rn := resolve(n)
	if depth > maxNesting {
		r.report(n, codeBadYAML, "nested deeper than %d", maxNesting)
		return nil
	}
	r.nodes++
	if r.nodes > maxNodes {
		if r.nodes == maxNodes+1 {
			r.report(n, codeBadYAML, "more than %d values once aliases are followed", maxNodes)
		}
		return nil
	}
	switch rn.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for _, e := range r.entries(rn) {
			m[resolve(e.key).Value] = r.free(e.val, depth+1)
		}
		return m
	case yaml.SequenceNode:
		l := make([]any, 0, len(rn.Content))
		for _, c := range rn.Content {
			l = append(l, r.free(c, depth+1))
		}
		return l
	}
	if isBroken(rn) {
		return nil
	}
	v, err := yamldoc.Scalar(rn)
	var bad *yamldoc.Error
	if errors.As(err, &bad) {
		r.report(n, codeWrongType, "%s", bad.Message)
	}
	return v
}
