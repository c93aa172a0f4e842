package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// With returns the alternatives that can have status.
func (s *Schema) With(status string) []Alternative {
	var out []Alternative
	for _, a := range s.Alts {
		list, open, bad := s.statusesOf(a)
		if (open || bad) && !slices.Contains(a.not, status) || slices.Contains(list, status) {
			out = append(out, a)
		}
	}
	return out
}

// Field looks up name in the alternatives: its possible schemas, and whether any alternative has
// it. An alternative that lists no fields, or allows others, has every field.
func Field(alts []Alternative, name string) (found []*jsonschema.Schema, ok bool) {
	for _, a := range alts {
		lists := false
		for _, p := range a.parts {
			lists = lists || p.Properties != nil
			for _, x := range ofProperty(p, name) {
				if x.Bool == nil || *x.Bool {
					found = append(found, x)
				}
			}
			if p.AdditionalProperties == true || slices.Contains(p.Required, name) {
				found = append(found, Anything)
			}
		}
		if a.open || !lists {
			found = append(found, Anything)
		}
	}
	return found, len(found) > 0
}

// Property looks up name in values of the given schemas: the schemas that it can have there, and whether it can be
// there at all.
func (s *Schema) Property(of []*jsonschema.Schema, name string) (next []*jsonschema.Schema, found bool) {
	for _, x := range of {
		n, ok := Field(s.expand(x, 0), name)
		found = found || ok
		next = append(next, n...)
	}
	return next, found || len(of) == 0
}

// Items returns the schemas of a list's items; nil if they are not restricted.
func (s *Schema) Items(of []*jsonschema.Schema) (out []*jsonschema.Schema) {
	for _, x := range of {
		for _, a := range s.expand(x, 0) {
			var own []*jsonschema.Schema
			for _, p := range a.parts {
				if _, list := p.Items.([]*jsonschema.Schema); list || p.PrefixItems != nil || p.Contains != nil ||
					p.UnevaluatedItems != nil {
					return nil
				}
				own = append(own, present(append(schemas(p.Items), p.Items2020))...)
			}
			if a.open || len(own) == 0 {
				return nil
			}
			out = append(out, own...)
		}
	}
	return out
}
