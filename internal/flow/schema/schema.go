// Package schema compiles the JSON Schemas of answers, says what does not fit one, and which statuses and fields an
// answer can have.
//
// In: a schema, which a person or a model wrote. Out: the compiled schema, within limits that keep the validator from
// running for hours; an analysis of it without a value; errors that their reader can act on.
package schema

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plait-run/plait/internal/sys/text"
)

// A Schema is a role's frontmatter, analyzed independently of any value: the ways to satisfy it, their statuses and
// their fields. Only the validator says what is valid. What the analysis does not understand leaves an alternative
// open, so that the checks never refuse what the validator accepts.
type Schema struct {
	Alts []Alternative
	work int // amount of expansion so far; expanding a recursive schema would never end
}

// An Alternative is one way to satisfy a schema: parts that must all hold.
type Alternative struct {
	parts   []*jsonschema.Schema
	branch  []string // JSON pointer of the oneOf or anyOf branch; nil without branches
	not     []string // values of $status that it excludes
	vague   bool     // it may exclude more than that
	open    bool     // more than its parts may hold
	without bool     // it has no $status
}

const (
	maxAlternatives = 256
	maxExpansion    = 16
	MaxWork         = 50_000
)

// Suspend is the $status of a role that waits for a person, which it can have whatever its schema says.
const Suspend = "$SUSPEND"

var (
	Anything = &jsonschema.Schema{}
	unclear  = []Alternative{{vague: true, open: true}}
)

// Read analyzes a compiled schema. Alternatives that no step's meta satisfies are left out.
func Read(root *jsonschema.Schema) *Schema {
	s := &Schema{}
	s.Alts = slices.DeleteFunc(s.expand(root, 0), func(a Alternative) bool {
		return a.without || slices.ContainsFunc(a.parts, func(p *jsonschema.Schema) bool {
			return p.Types != nil && !slices.Contains(p.Types.ToStrings(), "object")
		})
	})
	return s
}

// expand lists the ways to satisfy x.
func (s *Schema) expand(x *jsonschema.Schema, depth int) []Alternative {
	s.work++
	switch {
	case depth > maxExpansion || s.work > MaxWork:
		return unclear
	case x.Bool != nil && !*x.Bool:
		return nil
	case x.Ref != nil && x.DraftVersion < 2019: // nothing else counts there
		return s.expand(x.Ref, depth+1)
	}
	unknown := x.DynamicRef != nil || x.RecursiveRef != nil || x.Const != nil || x.Enum != nil
	alts := []Alternative{{parts: []*jsonschema.Schema{x}, vague: unknown, open: unknown}}
	and := func(more []Alternative) { alts = cross(alts, more) }
	for _, part := range present(append([]*jsonschema.Schema{x.Ref}, x.AllOf...)) {
		and(s.expand(part, depth+1))
	}
	for _, list := range [][]*jsonschema.Schema{x.OneOf, x.AnyOf} {
		var among []Alternative
		for _, part := range list {
			for _, a := range s.expand(part, depth+1) {
				if a.branch == nil {
					a.branch = pointer(part)
				}
				among = append(among, a)
			}
		}
		if list != nil {
			and(among)
		}
	}
	if x.If != nil {
		yes, no := s.expand(x.If, depth+1), otherwise(x.If)
		if x.Then != nil {
			yes = cross(yes, s.expand(x.Then, depth+1))
		}
		if x.Else != nil {
			no = cross(no, s.expand(x.Else, depth+1))
		}
		and(append(yes, no...))
	}
	if x.Not != nil {
		and(otherwise(x.Not))
	}
	for _, name := range slices.Sorted(maps.Keys(x.DependentSchemas)) {
		and(s.ifPresent(name, x.DependentSchemas[name], depth))
	}
	for _, name := range slices.Sorted(maps.Keys(x.Dependencies)) {
		for _, part := range schemas(x.Dependencies[name]) {
			and(s.ifPresent(name, part, depth))
		}
	}
	return alts
}

// ifPresent lists the ways to satisfy x if an object has a field.
func (s *Schema) ifPresent(name string, x *jsonschema.Schema, depth int) []Alternative {
	return append(slices.Clip(s.expand(x, depth+1)), Alternative{without: name == "$status"})
}

// otherwise returns the alternative that x does not hold.
func otherwise(x *jsonschema.Schema) []Alternative {
	status := x.Properties["$status"]
	if status == nil || len(x.Properties) > 1 || !only(x, "Properties", "Required", "Types") ||
		!only(status, "Const", "Enum", "Types") || slices.ContainsFunc(x.Required, isNotStatus) {
		return []Alternative{{vague: true}}
	}
	a := Alternative{}
	values, fixed := constants([]*jsonschema.Schema{status})
	for _, v := range values {
		if st, ok := v.(string); ok {
			a.not = append(a.not, st)
		}
	}
	a.vague = !fixed
	return []Alternative{a}
}

func isNotStatus(name string) bool { return name != "$status" }

// only reports whether x has no keywords with a meaning except those named.
func only(x *jsonschema.Schema, names ...string) bool {
	names = append(names, "DraftVersion", "Location", "ID", "Anchor", "DynamicAnchor", "Title", "Description", "Default",
		"Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated")
	v := reflect.ValueOf(x).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !slices.Contains(names, f.Name) && !v.Field(i).IsZero() {
			return false
		}
	}
	return true
}

// pointer returns where in its document x is.
func pointer(x *jsonschema.Schema) []string {
	_, fragment, _ := strings.Cut(x.Location, "#")
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	parts := strings.Split(fragment, "/")[1:]
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts
}

func cross(a, b []Alternative) []Alternative {
	if len(a)*len(b) > maxAlternatives {
		return unclear
	}
	var out []Alternative
	for _, x := range a {
		for _, y := range b {
			branch := y.branch
			if branch == nil {
				branch = x.branch
			}
			out = append(out, Alternative{slices.Concat(x.parts, y.parts), branch, slices.Concat(x.not, y.not),
				x.vague || y.vague, x.open || y.open, x.without || y.without})
		}
	}
	return out
}

// constants returns the values that the const and enum of all parts allow. fixed reports whether a part has one.
func constants(parts []*jsonschema.Schema) (values []any, fixed bool) {
	for _, p := range parts {
		var own [][]any
		if p.Const != nil {
			own = append(own, []any{*p.Const})
		}
		if p.Enum != nil {
			own = append(own, p.Enum.Values)
		}
		for _, list := range own {
			values, fixed = narrowed(values, fixed, list), true
		}
	}
	return values, fixed
}

// narrowed returns what is in both lists, or in the second if there is no first one.
func narrowed(values []any, fixed bool, by []any) []any {
	if !fixed {
		return by
	}
	in := map[string]bool{}
	for _, v := range by {
		in[text.JSON(v)] = true
	}
	return slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !in[text.JSON(v)] })
}

// values returns the values that x can have, if they are fixed.
func (s *Schema) values(x *jsonschema.Schema) (all []any, fixed bool) {
	for _, a := range s.expand(x, 0) {
		values, fixed := constants(a.parts)
		if !fixed {
			return nil, false
		}
		all = append(all, values...)
	}
	return all, true
}

// statusesOf returns the possible values of $status in a. open means that it is not fixed, bad that
// it is fixed to something other than a string.
func (s *Schema) statusesOf(a Alternative) (list []string, open, bad bool) {
	var values []any
	var tests []*jsonschema.Schema
	fixed := false
	if s.work += len(a.parts); s.work > MaxWork {
		return nil, true, false
	}
	for _, p := range a.parts {
		for _, x := range ofProperty(p, "$status") {
			if x == p.UnevaluatedProperties { // it may have been evaluated elsewhere
				continue
			}
			own, ok := s.values(x)
			if s.work += len(own); s.work > MaxWork {
				return nil, true, false
			}
			if ok {
				values, fixed = narrowed(values, fixed, own), true
			}
			if !Expands(x) {
				tests = append(tests, x)
			}
		}
	}
	if s.work += len(values) * len(tests); s.work > MaxWork || !fixed {
		return nil, true, false
	}
	for _, v := range values {
		st, ok := v.(string)
		switch {
		case slices.Contains(a.not, st):
		case slices.ContainsFunc(tests, func(x *jsonschema.Schema) bool { return x.Validate(v) != nil }):
		case !ok || st == "":
			return nil, false, true
		default:
			list = append(list, st)
		}
	}
	return list, false, false
}

// Statuses returns the statuses that can be routed: those that steps may have, and those of them that no part of the
// schema excludes as far as it is understood. open means that some variant leaves $status free.
func (s *Schema) Statuses() (may, can []string, open bool) {
	for _, a := range s.Alts {
		list, o, bad := s.statusesOf(a)
		open = open || o || bad
		list = slices.DeleteFunc(list, func(st string) bool { return st == Suspend })
		may = append(may, list...)
		if !a.vague {
			can = append(can, list...)
		}
	}
	return unique(may), unique(can), open
}

// A Variant is an alternative that does not fix $status to texts.
type Variant struct {
	Branch []string // the JSON pointer of its oneOf or anyOf branch, nil without branches
	// At is where $status is fixed to Value, which is no status; nil if it is not fixed.
	At    []string
	Value any
}

// Unfixed returns the variants that do not fix $status, one for each branch.
func (s *Schema) Unfixed() (unfixed []Variant) {
	seen := map[string]bool{}
	for _, a := range s.Alts {
		_, open, bad := s.statusesOf(a)
		key := strings.Join(a.branch, "/")
		if seen[key] || !open && !bad || open && (a.open || a.vague || s.work > MaxWork) {
			continue
		}
		seen[key] = true
		v := Variant{Branch: a.branch}
		if bad {
			v.Value, v.At = s.badStatus(a)
		}
		unfixed = append(unfixed, v)
	}
	return unfixed
}

// unique returns a list without duplicates, sorted.
func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// badStatus returns a value that a keeps $status to and that is no status, and where it is.
func (s *Schema) badStatus(a Alternative) (value any, at []string) {
	for _, p := range a.parts {
		for _, x := range ofProperty(p, "$status") {
			for _, way := range s.expand(x, 0) {
				for _, part := range way.parts {
					values, _ := constants([]*jsonschema.Schema{part})
					for i, v := range values {
						if st, ok := v.(string); ok && st != "" {
							continue
						}
						if part.Const != nil {
							return v, append(pointer(part), "const")
						}
						return v, append(pointer(part), "enum", strconv.Itoa(i))
					}
				}
			}
		}
	}
	return nil, a.branch
}

// OfFields returns the schema of an object with the given fields.
func OfFields(properties map[string]*jsonschema.Schema) *Schema {
	return Read(&jsonschema.Schema{Properties: properties})
}
