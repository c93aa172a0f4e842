package parse

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/template"
	"github.com/plait-run/plait/internal/flow/yamldoc"
	"github.com/plait-run/plait/internal/sys/text"
)

// An entry is one key of a mapping, its own or merged by "<<".
type entry struct{ key, val *yaml.Node }

func resolve(n *yaml.Node) *yaml.Node {
	// An alias points to an anchored node, never to another alias; the limit is for trees that
	// were not made by a parser.
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 8; i++ {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func isBroken(n *yaml.Node) bool { return n.Tag == tagBroken }

// entries returns the keys of a mapping: its own in order, then merged ones, where the first
// wins. Keys that are not scalars were reported and are left out.
func (r *reader) entries(n *yaml.Node) []entry {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	if es, ok := r.merged[n]; ok {
		return es
	}
	r.merged[n] = nil            // a mapping that merges itself sees itself as empty
	pairs, _ := yamldoc.Pairs(n) // normalize reported invalid keys
	var own, more []entry
	seen := map[string]bool{}
	for _, p := range pairs {
		key := resolve(p.Key)
		if yamldoc.IsMerge(key) {
			more = append(more, r.mergedFrom(p.Value)...)
			continue
		}
		seen[key.Value] = true
		own = append(own, entry{p.Key, p.Value})
	}
	for _, e := range more {
		if k := resolve(e.key).Value; !seen[k] {
			seen[k] = true
			own = append(own, e)
		}
	}
	r.merged[n] = own
	return own
}

func (r *reader) mergedFrom(v *yaml.Node) []entry {
	rv := resolve(v)
	switch {
	case rv.Kind == yaml.MappingNode:
		return r.entries(rv)
	case rv.Kind == yaml.SequenceNode:
		var es []entry
		for _, m := range rv.Content {
			if resolve(m).Kind != yaml.MappingNode {
				r.report(m, codeWrongType, "<< merges mappings")
				continue
			}
			es = append(es, r.entries(m)...)
		}
		return es
	case !isBroken(rv):
		r.report(v, codeWrongType, "<< merges mappings")
	}
	return nil
}

// mapping is like entries, but reports a node that is not a mapping. A null is an empty mapping.
func (r *reader) mapping(n *yaml.Node, what string) []entry {
	rn := resolve(n)
	if rn.Kind != yaml.MappingNode && !isNull(rn) && !isBroken(rn) {
		r.report(n, codeWrongType, "%s must be a mapping, not %s", what, kindOf(rn))
	}
	return r.entries(rn)
}

// object calls the function of each key of n and reports keys without one.
func (r *reader) object(n *yaml.Node, what string, fields map[string]func(entry)) {
	for _, e := range r.mapping(n, what) {
		k := resolve(e.key).Value
		if f, ok := fields[k]; ok {
			f(e)
			continue
		}
		hint := ""
		if near := nearest(k, fields); near != "" {
			hint, r.meant[near] = "; did you mean "+near+"?", true
		}
		r.report(e.key, codeUnknownKey, "%s has no key %q%s", what, k, hint)
	}
}

func nearest[V any](k string, among map[string]V) string {
	return text.Nearest(k, slices.Sorted(maps.Keys(among)))
}

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

// child returns the node at the parts of a JSON pointer below n, or the deepest existing one on
// the way.
func (r *reader) child(n *yaml.Node, parts []string) *yaml.Node {
	for _, p := range parts {
		rn := resolve(n)
		next := (*yaml.Node)(nil)
		switch rn.Kind {
		case yaml.MappingNode:
			for _, e := range r.entries(rn) {
				if resolve(e.key).Value == p {
					next = e.val
				}
			}
		case yaml.SequenceNode:
			var i int
			if json.Unmarshal([]byte(p), &i) == nil && i >= 0 && i < len(rn.Content) {
				next = rn.Content[i]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}
