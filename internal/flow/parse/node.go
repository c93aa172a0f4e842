package parse

import (
	"encoding/json"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/yamldoc"
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
