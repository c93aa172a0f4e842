package flow

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema is a role's frontmatter, analyzed independently of any value: the ways to satisfy it, their statuses and
// their fields. Only the validator says what is valid. What the analysis does not understand leaves an alternative
// open, so that the checks never refuse what the validator accepts.
type schema struct {
	alts []alternative
	work int // amount of expansion so far; expanding a recursive schema would never end
}

// An alternative is one way to satisfy a schema: parts that must all hold.
type alternative struct {
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
	maxWork         = 50_000
)

var (
	anything = &jsonschema.Schema{}
	unclear  = []alternative{{vague: true, open: true}}
)

// readSchema analyzes a compiled schema. Alternatives that no step's meta satisfies are left out.
func readSchema(root *jsonschema.Schema) *schema {
	s := &schema{}
	s.alts = slices.DeleteFunc(s.expand(root, 0), func(a alternative) bool {
		return a.without || slices.ContainsFunc(a.parts, func(p *jsonschema.Schema) bool {
			return p.Types != nil && !slices.Contains(p.Types.ToStrings(), "object")
		})
	})
	return s
}

// expand lists the ways to satisfy x.
func (s *schema) expand(x *jsonschema.Schema, depth int) []alternative {
	s.work++
	switch {
	case depth > maxExpansion || s.work > maxWork:
		return unclear
	case x.Bool != nil && !*x.Bool:
		return nil
	case x.Ref != nil && x.DraftVersion < 2019: // nothing else counts there
		return s.expand(x.Ref, depth+1)
	}
	unknown := x.DynamicRef != nil || x.RecursiveRef != nil || x.Const != nil || x.Enum != nil
	alts := []alternative{{parts: []*jsonschema.Schema{x}, vague: unknown, open: unknown}}
	and := func(more []alternative) { alts = cross(alts, more) }
	for _, part := range present(append([]*jsonschema.Schema{x.Ref}, x.AllOf...)) {
		and(s.expand(part, depth+1))
	}
	for _, list := range [][]*jsonschema.Schema{x.OneOf, x.AnyOf} {
		var among []alternative
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
func (s *schema) ifPresent(name string, x *jsonschema.Schema, depth int) []alternative {
	return append(slices.Clip(s.expand(x, depth+1)), alternative{without: name == "$status"})
}

// otherwise returns the alternative that x does not hold.
func otherwise(x *jsonschema.Schema) []alternative {
	status := x.Properties["$status"]
	if status == nil || len(x.Properties) > 1 || !only(x, "Properties", "Required", "Types") ||
		!only(status, "Const", "Enum", "Types") || slices.ContainsFunc(x.Required, isNotStatus) {
		return []alternative{{vague: true}}
	}
	a := alternative{}
	values, fixed := constants([]*jsonschema.Schema{status})
	for _, v := range values {
		if st, ok := v.(string); ok {
			a.not = append(a.not, st)
		}
	}
	a.vague = !fixed
	return []alternative{a}
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

func cross(a, b []alternative) []alternative {
	if len(a)*len(b) > maxAlternatives {
		return unclear
	}
	var out []alternative
	for _, x := range a {
		for _, y := range b {
			branch := y.branch
			if branch == nil {
				branch = x.branch
			}
			out = append(out, alternative{slices.Concat(x.parts, y.parts), branch, slices.Concat(x.not, y.not),
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
		in[jsonText(v)] = true
	}
	return slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !in[jsonText(v)] })
}

// values returns the values that x can have, if they are fixed.
func (s *schema) values(x *jsonschema.Schema) (all []any, fixed bool) {
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
func (s *schema) statusesOf(a alternative) (list []string, open, bad bool) {
	var values []any
	var tests []*jsonschema.Schema
	fixed := false
	if s.work += len(a.parts); s.work > maxWork {
		return nil, true, false
	}
	for _, p := range a.parts {
		for _, x := range ofProperty(p, "$status") {
			if x == p.UnevaluatedProperties { // it may have been evaluated elsewhere
				continue
			}
			own, ok := s.values(x)
			if s.work += len(own); s.work > maxWork {
				return nil, true, false
			}
			if ok {
				values, fixed = narrowed(values, fixed, own), true
			}
			if !expands(x) {
				tests = append(tests, x)
			}
		}
	}
	if s.work += len(values) * len(tests); s.work > maxWork || !fixed {
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

// statuses returns the statuses that can be routed: those that steps may have, and those of them that no part of the
// schema excludes as far as it is understood. open means that some variant leaves $status free.
func (s *schema) statuses() (may, can []string, open bool) {
	for _, a := range s.alts {
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

// with returns the alternatives that can have status.
func (s *schema) with(status string) []alternative {
	var out []alternative
	for _, a := range s.alts {
		list, open, bad := s.statusesOf(a)
		if (open || bad) && !slices.Contains(a.not, status) || slices.Contains(list, status) {
			out = append(out, a)
		}
	}
	return out
}

// field looks up name in the alternatives: its possible schemas, and whether any alternative has
// it. An alternative that lists no fields, or allows others, has every field.
func field(alts []alternative, name string) (found []*jsonschema.Schema, ok bool) {
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
				found = append(found, anything)
			}
		}
		if a.open || !lists {
			found = append(found, anything)
		}
	}
	return found, len(found) > 0
}

// below looks up seg in values of the given schemas.
func (s *schema) below(of []*jsonschema.Schema, g segment) (next []*jsonschema.Schema, found bool) {
	switch {
	case g.dynamic || g.name == "size" || g.name == "first" || g.name == "last":
		return nil, true
	case g.index:
		return s.items(of), true
	}
	for _, x := range of {
		n, ok := field(s.expand(x, 0), g.name)
		found = found || ok
		next = append(next, n...)
	}
	return next, found || len(of) == 0
}

// items returns the schemas of a list's items; nil if they are not restricted.
func (s *schema) items(of []*jsonschema.Schema) (out []*jsonschema.Schema) {
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

// Statuses returns the statuses of role's steps, sorted: those that its schema fixes, those of
// its command's exit codes, and those of calls. A role that fixes none has the statuses in the
// graph. The statuses of a gate are its answers.
func (d *Definition) Statuses(role string) []string {
	if g, ok := d.Gates[role]; ok {
		return unique(g.Statuses())
	}
	r, ok := d.Roles[role]
	if !ok {
		return nil
	}
	var list []string
	open := true
	if r.Frontmatter != nil {
		if root, err := compileSchema(r.Frontmatter); err == nil {
			list, _, open = readSchema(root).statuses()
		}
	}
	list = append(list, r.exitStatuses()...)
	if open {
		list = append(list, slices.Sorted(maps.Keys(d.Graph[role]))...)
	}
	if r.Flow != "" {
		for _, st := range callStatuses {
			if _, routed := d.Graph[role][st]; routed || r.Frontmatter == nil {
				list = append(list, st)
			}
		}
	}
	return unique(list)
}

func (r Role) exitStatuses() []string {
	if r.Agent == nil || r.Agent.Inline == nil {
		return nil
	}
	var list []string
	for _, code := range slices.Sorted(maps.Keys(r.Agent.Inline.Exit)) {
		if st := r.Agent.Inline.Exit[code]; st != Suspend {
			list = append(list, st)
		}
	}
	return list
}
