package flow

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v4"
)

// A schemaError is why a schema does not compile.
type schemaError struct{ faults []schemaFault }

// A schemaFault is one thing that is wrong in a schema.
type schemaFault struct {
	at   []string // nil if it is unknown
	key  string   // the key at that place which is wrong, "" for the value
	text string
}

const maxFaults = 8

func (e *schemaError) Error() string {
	lines := make([]string, len(e.faults))
	for i, f := range e.faults {
		lines[i] = f.text
	}
	return strings.Join(lines, "; ")
}

// explainSchema returns an error of the compiler of schemas with what its author needs to know.
func explainSchema(err error, doc any) error {
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	var elsewhere *jsonschema.LoadURLError
	if errors.As(err, &elsewhere) {
		err = elsewhere.Err
	}
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &ve) {
		text := strings.NewReplacer(schemaURL, "", "flow:///", "").Replace(err.Error())
		return &schemaError{[]schemaFault{{text: text}}}
	}
	var faults []schemaFault
	walkCauses(ve, func(leaf *jsonschema.ValidationError) {
		f := schemaFault{at: append([]string{}, leaf.InstanceLocation...), text: "not valid at " + leaves(leaf, doc)[0]}
		if k, ok := leaf.ErrorKind.(*kind.PropertyNames); ok {
			f = schemaFault{key: k.Property, text: "not valid: " + leaves(leaf, doc)[0]}
		}
		faults = append(faults, f)
	})
	slices.SortFunc(faults, func(a, b schemaFault) int { return strings.Compare(a.text, b.text) })
	faults = slices.CompactFunc(faults, func(a, b schemaFault) bool {
		return a.key == b.key && slices.Equal(a.at, b.at)
	})
	faults = faults[:min(len(faults), maxFaults)]
	for i, f := range faults {
		if f.key != "" {
			faults[i].at = whereKey(doc, f.key)
		}
	}
	return &schemaError{faults}
}

// whereKey returns the place of the first object in doc that has a key. The validator overwrites the place
// of a key that it refuses.
func whereKey(doc any, key string) []string {
	below := func(name string, v any) []string {
		if at := whereKey(v, key); at != nil {
			return append([]string{name}, at...)
		}
		return nil
	}
	switch v := doc.(type) {
	case map[string]any:
		if _, ok := v[key]; ok {
			return []string{}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at := below(name, v[name]); at != nil {
				return at
			}
		}
	case []any:
		for i, e := range v {
			if at := below(strconv.Itoa(i), e); at != nil {
				return at
			}
		}
	}
	return nil
}

// walkCauses calls f with the innermost errors. Those of a key do not know where it is, so they count as one.
func walkCauses(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	if _, ofKey := e.ErrorKind.(*kind.PropertyNames); ofKey || len(e.Causes) == 0 {
		f(e)
		return
	}
	for _, c := range e.Causes {
		walkCauses(c, f)
	}
}

// badPattern says what is wrong with a pattern.
func badPattern(pattern string) string {
	_, err := syntax.Parse(pattern, syntax.Perl)
	var bad *syntax.Error
	switch {
	case !errors.As(err, &bad):
		return "it must be a regular expression"
	case strings.HasPrefix(bad.Expr, "(?=") || strings.HasPrefix(bad.Expr, "(?!") || strings.HasPrefix(bad.Expr, "(?<"):
		return fmt.Sprintf("a pattern cannot look ahead or behind as %s does: write it without, or exclude with "+
			"not: {pattern: …}", bad.Expr)
	}
	return fmt.Sprintf("it must be a regular expression of RE2: %s in %s", bad.Code, bad.Expr)
}

// badStatus returns a value that a keeps $status to and that is no status, and where it is.
func (s *schema) badStatus(a alternative) (value any, at []string) {
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

// badSchema reports why the schema of a role does not compile.
func (d *draft) badSchema(r *roleSite, err error) {
	var se *schemaError
	if !errors.As(err, &se) {
		d.report(r.schemaNode, codeBadSchema, "the schema of role %s: %v", r.name, err)
		return
	}
	for _, f := range se.faults {
		at := d.child(r.schemaNode, f.at)
		for _, e := range d.entries(at) {
			if f.key != "" && resolve(e.key).Value == f.key {
				at = e.key
			}
		}
		if ref := d.reference(r.schemaNode, f.text); f.at == nil && ref != nil {
			at = ref
		}
		d.report(at, codeBadSchema, "the schema of role %s: %s", r.name, f.text)
	}
}

// reference returns the first reference of a schema to what a text names, nil if there is none.
func (d *draft) reference(schema *yaml.Node, text string) *yaml.Node {
	for _, e := range d.entries(schema) {
		switch name := resolve(e.val).Value; resolve(e.key).Value {
		case "$ref", "$dynamicRef", "$schema":
			document, _, _ := strings.Cut(name, "#")
			if name != "" && strings.Contains(text, name) || document != "" && strings.Contains(text, document) {
				return e.val
			}
		}
		if found := d.reference(e.val, text); found != nil {
			return found
		}
	}
	for _, c := range resolve(schema).Content {
		if resolve(schema).Kind == yaml.SequenceNode {
			if found := d.reference(c, text); found != nil {
				return found
			}
		}
	}
	return nil
}
