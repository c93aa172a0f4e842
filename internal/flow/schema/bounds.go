package schema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The validator takes no context, and applies a schema as often as references lead to it: one of 1 KB can make it take
// exponential time. Hence two bounds: Expands looks at the schema of an action before there is a value; a meter looks
// at a value too, since a recursive schema may apply itself twice to each level of the value. The compiler takes far
// longer the deeper a schema is nested, hence a third.

// maxDepth bounds the nesting of a schema. Files and nodes allow less.
const maxDepth = 64

// deeper reports whether a JSON value is nested deeper than n levels.
func deeper(v any, n int) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if n == 0 || deeper(x, n-1) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if n == 0 || deeper(x, n-1) {
				return true
			}
		}
	}
	return false
}

// Expands reports whether the references in s expand to more than maxWork schemas. A reference back into a schema that
// is being counted counts one. A schema is refused too if only a value decides where a reference leads.
func Expands(s *jsonschema.Schema) bool {
	counts := map[*jsonschema.Schema]int{}
	var count func(*jsonschema.Schema) int
	count = func(s *jsonschema.Schema) int {
		if n, ok := counts[s]; ok {
			return n
		}
		counts[s] = 1
		n := 1
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			n += MaxWork
		}
		for _, part := range append(inPlace(s), below(s)...) {
			n = min(n+count(part), MaxWork+1)
		}
		counts[s] = n
		return n
	}
	return count(s) > MaxWork
}

// A meter counts the schemas that the validator applies to a value and what is in it.
type meter struct {
	left  int // how many more may be applied
	parts map[*jsonschema.Schema][]*jsonschema.Schema
}

// TooMuch reports whether the validator would apply far more schemas than ordinary ones need for a value whose JSON has
// size bytes.
func TooMuch(s *jsonschema.Schema, v any, size int) bool {
	m := meter{left: 20*MaxWork + 4*size, parts: map[*jsonschema.Schema][]*jsonschema.Schema{}}
	return m.measure(s, v, nil)
}

// measure counts the application of s to v. above are the schemas that have s as a part and are applied to v too.
// measure reports whether there were too many.
func (m *meter) measure(s *jsonschema.Schema, v any, above []*jsonschema.Schema) bool {
	if slices.Contains(above, s) {
		return false // the validator ends there too
	}
	if m.left--; m.left < 0 {
		return true
	}
	parts, ok := m.parts[s]
	if !ok {
		parts = inPlace(s)
		m.parts[s] = parts
	}
	for _, part := range parts {
		if m.measure(part, v, append(above, s)) {
			return true
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			for _, part := range ofProperty(s, name) {
				if m.measure(part, x, nil) {
					return true
				}
			}
		}
	case []any:
		for i, x := range v {
			for _, part := range ofItem(s, i) {
				if m.measure(part, x, nil) {
					return true
				}
			}
		}
	}
	return false
}

// inPlace returns the parts of s that are applied to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	parts = append(parts, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		parts = append(parts, s.DynamicRef.Ref)
	}
	for _, part := range s.Dependencies {
		parts = append(parts, schemas(part)...)
	}
	return present(parts)
}

// below returns the parts of s that are applied to what is in a value.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Concat(slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)),
		s.PrefixItems, schemas(s.AdditionalProperties), schemas(s.Items), schemas(s.AdditionalItems))
	return present(append(parts, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems,
		s.ContentSchema))
}

// ofProperty returns the parts of s that are applied to a property of an object.
func ofProperty(s *jsonschema.Schema, name string) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.Properties[name]}
	for pattern, part := range s.PatternProperties {
		if pattern.MatchString(name) {
			parts = append(parts, part)
		}
	}
	if parts = present(parts); len(parts) == 0 {
		parts = schemas(s.AdditionalProperties)
	}
	return append(parts, present([]*jsonschema.Schema{s.UnevaluatedProperties})...)
}

// ofItem returns the parts of s that are applied to an item of a list.
func ofItem(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.Contains, s.UnevaluatedItems}
	first := s.PrefixItems
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		first = list
	}
	switch _, list := s.Items.([]*jsonschema.Schema); {
	case i < len(first):
		parts = append(parts, first[i])
	case list:
		parts = append(parts, schemas(s.AdditionalItems)...)
	default:
		parts = append(append(parts, s.Items2020), schemas(s.Items)...)
	}
	return present(parts)
}

// schemas returns the schemas in a keyword that can have other values too.
func schemas(keyword any) []*jsonschema.Schema {
	switch k := keyword.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{k}
	case []*jsonschema.Schema:
		return k
	}
	return nil
}

func present(parts []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(parts, func(s *jsonschema.Schema) bool { return s == nil })
}
