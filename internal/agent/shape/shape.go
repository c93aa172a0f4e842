// Package shape converts a role's JSON Schema to a form that a model can be forced to follow, and an answer in
// that form to front matter and text.
package shape

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

const (
	shapeStatus  = "$status"
	shapeSuspend = "$SUSPEND"
	shapeReason  = "reason"
)

// A shape is the part of a JSON Schema that a model can be forced to follow.
// The engine checks the schema's other requirements afterwards.
type shape struct {
	about  string
	types  []string // none if any is set
	fields []shapeField
	items  *shape
	enum   []any // nil: all values
	any    []*shape
}

type shapeField struct {
	name     string
	required bool
	*shape
}

// Strict converts a role's schema to the form that a model can be forced to
// follow: objects have exactly their properties, all required; optional ones may
// be null instead. It adds the text of the answer as agent.Body and, if there is
// a $status, the way to ask a person. The error says what has no such form.
func Strict(schema json.RawMessage) (json.RawMessage, error) {
	s, err := shapeOf(schema)
	if err != nil {
		return nil, err
	}
	root := *s
	root.fields = slices.Clone(s.fields)
	if s.suspends() {
		i := root.index(shapeStatus)
		status := *root.fields[i].shape
		status.enum = append(slices.Clone(status.enum), shapeSuspend)
		root.fields[i].shape = &status
		if root.index(shapeReason) < 0 {
			root.fields = append(root.fields, shapeField{name: shapeReason, required: true, shape: &shape{
				types: []string{"string", "null"},
				about: "with " + shapeStatus + " " + shapeSuspend + ": what a person must answer before you can go " +
					"on; else null",
			}})
		}
	}
	root.fields = append(root.fields, shapeField{name: agent.Body, required: true, shape: &shape{
		types: []string{"string"}, about: "the text of the answer",
	}})
	return shapeAppend(nil, root.strict(false)), nil
}

// shapeOf reads the schema of a whole answer.
func shapeOf(schema json.RawMessage) (*shape, error) {
	v, err := shapeParse(schema)
	if err != nil {
		return nil, fmt.Errorf("shape schema: %w", err)
	}
	s, err := shapeRule(v, 0)
	if err != nil {
		return nil, fmt.Errorf("shape schema: %w", err)
	}
	if s.fields == nil || !slices.Contains(s.types, "object") {
		return nil, errors.New("shape schema: it does not describe an object")
	}
	if s.index(agent.Body) >= 0 {
		return nil, fmt.Errorf("shape schema: property %s is taken", agent.Body)
	}
	s.types = []string{"object"}
	return s, nil
}

// suspends reports whether an answer may ask for a person: there must be a
// $status, and the reason must be able to hold text.
func (s *shape) suspends() bool {
	i, r := s.index(shapeStatus), s.index(shapeReason)
	if i < 0 || s.fields[i].enum == nil || !slices.Contains(s.fields[i].types, "string") {
		return false
	}
	return r < 0 || s.fields[r].enum == nil && slices.Contains(s.fields[r].types, "string")
}

func (s *shape) index(name string) int {
	return slices.IndexFunc(s.fields, func(f shapeField) bool { return f.name == name })
}

// shapeUnsupported are the keywords that the strict form cannot express. All others
// only restrict or describe, and are left out: the engine rejects an answer that
// violates them.
var shapeUnsupported = []string{
	"oneOf", "allOf", "not", "if", "then", "else", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef",
	"dependentSchemas", "dependentRequired", "dependencies", "prefixItems", "additionalItems", "unevaluatedItems",
	"unevaluatedProperties",
}

// shapeTypes are JSON Schema's types.
var shapeTypes = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// shapeRule reads one schema.
func shapeRule(v any, depth int) (*shape, error) {
	o, ok := v.(shapeObject)
	if !ok {
		return nil, errors.New("a schema that is not an object")
	}
	if depth > 20 {
		return nil, errors.New("schemas are nested too deep")
	}
	for _, key := range shapeUnsupported {
		if _, ok := o.get(key); ok {
			return nil, fmt.Errorf("%s", key)
		}
	}
	s := new(shape)
	if about, ok := o.get("description"); ok {
		s.about, _ = about.(string)
	}
	if alternatives, ok := o.get("anyOf"); ok {
		return s, s.readAny(o, alternatives, depth)
	}
	if err := s.readTypes(o); err != nil {
		return nil, err
	}
	if err := s.readEnum(o); err != nil {
		return nil, err
	}
	if slices.Contains(s.types, "object") {
		if err := s.readFields(o, depth); err != nil {
			return nil, err
		}
	}
	if slices.Contains(s.types, "array") {
		items, ok := o.get("items")
		if !ok {
			return nil, errors.New("a list without items")
		}
		var err error
		if s.items, err = shapeRule(items, depth+1); err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
	}
	return s, nil
}

// readAny reads alternatives. There may be no keyword alongside them that would
// have to be combined with them.
func (s *shape) readAny(o shapeObject, v any, depth int) error {
	for _, key := range []string{"type", "properties", "required", "items", "enum", "const", "additionalProperties"} {
		if _, ok := o.get(key); ok {
			return fmt.Errorf("anyOf beside %s", key)
		}
	}
	list, _ := v.([]any)
	if len(list) == 0 {
		return errors.New("anyOf without alternatives")
	}
	for i, e := range list {
		alternative, err := shapeRule(e, depth+1)
		if err != nil {
			return fmt.Errorf("anyOf %d: %w", i+1, err)
		}
		s.any = append(s.any, alternative)
	}
	return nil
}

// readTypes reads the type, or infers it from the other keywords.
func (s *shape) readTypes(o shapeObject) error {
	switch v, _ := o.get("type"); v := v.(type) {
	case string:
		s.types = []string{v}
	case []any:
		for _, e := range v {
			name, _ := e.(string)
			if !slices.Contains(s.types, name) {
				s.types = append(s.types, name)
			}
		}
	}
	for _, name := range s.types {
		if !slices.Contains(shapeTypes, name) {
			return fmt.Errorf("type %q", name)
		}
	}
	if _, ok := o.get("properties"); ok && s.types == nil {
		s.types = []string{"object"}
	}
	if _, ok := o.get("items"); ok && s.types == nil {
		s.types = []string{"array"}
	}
	_, enum := o.get("enum")
	_, one := o.get("const")
	if s.types == nil && !enum && !one {
		return errors.New("a value of any type")
	}
	return nil
}

// readEnum reads the values of enum or const, and their types if none is given.
func (s *shape) readEnum(o shapeObject) error {
	v, named := o.get("enum")
	list, _ := v.([]any)
	if one, ok := o.get("const"); ok {
		if named && !slices.ContainsFunc(list, func(e any) bool { return shapeEqual(e, one) }) {
			return errors.New("const is not in enum")
		}
		list, named = []any{one}, true
	}
	if !named {
		return nil
	}
	given := s.types
	s.enum = []any{}
	for _, e := range list {
		name := shapeTypeOf(e)
		switch {
		case name == "object" || name == "array":
			return errors.New("a value in enum that is an object or a list")
		case given == nil && !slices.Contains(s.types, name):
			s.types = append(s.types, name)
		case given != nil && !slices.Contains(given, name) && (name != "integer" || !slices.Contains(given, "number")):
			continue // can never match
		}
		s.enum = append(s.enum, e)
	}
	if len(s.enum) == 0 {
		return errors.New("enum without a value of the type")
	}
	// A type that none of the values has can never match either.
	s.types = slices.DeleteFunc(slices.Clone(s.types), func(name string) bool {
		return !slices.ContainsFunc(s.enum, func(e any) bool {
			of := shapeTypeOf(e)
			return of == name || of == "integer" && name == "number"
		})
	})
	return nil
}

// shapeTypeOf returns the narrowest type of a value.
func shapeTypeOf(v any) string {
	switch v := v.(type) {
	case shapeObject:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.RawMessage:
		if strings.ContainsAny(string(v), ".eE") {
			return "number"
		}
		return "integer"
	}
	return "null"
}

// readFields reads an object's properties. Without any, it is a map with
// arbitrary keys, which has no strict form.
func (s *shape) readFields(o shapeObject, depth int) error {
	if v, ok := o.get("additionalProperties"); ok {
		if _, yesno := v.(bool); !yesno {
			return errors.New("additionalProperties that have a schema")
		}
	}
	v, _ := o.get("properties")
	properties, _ := v.(shapeObject)
	if len(properties) == 0 {
		return errors.New("an object without properties")
	}
	v, _ = o.get("required")
	required, _ := v.([]any)
	for _, name := range required {
		name, _ := name.(string)
		if _, ok := properties.get(name); !ok {
			return fmt.Errorf("required %q is not a property", name)
		}
	}
	for _, p := range properties {
		rule, err := shapeRule(p.value, depth+1)
		if err != nil {
			return fmt.Errorf("property %q: %w", p.key, err)
		}
		s.fields = append(s.fields,
			shapeField{name: p.key, shape: rule, required: slices.Contains(required, any(p.key))})
	}
	return nil
}

// nullable reports whether the schema itself allows null.
func (s *shape) nullable() bool {
	if s.any != nil {
		return slices.ContainsFunc(s.any, (*shape).nullable)
	}
	return slices.Contains(s.types, "null") && (s.enum == nil || slices.Contains(s.enum, any(nil)))
}

// strict returns the strict form, which also allows null if null is true.
func (s *shape) strict(null bool) shapeObject {
	null = null && !s.nullable()
	var o shapeObject
	add := func(key string, value any) { o = append(o, shapeMember{key, value}) }
	if s.any != nil {
		var list []any
		for _, alternative := range s.any {
			list = append(list, alternative.strict(false))
		}
		if null {
			list = append(list, shapeObject{{"type", "null"}})
		}
		add("anyOf", list)
	} else {
		types := slices.Clone(s.types)
		if null && !slices.Contains(types, "null") {
			types = append(types, "null")
		}
		if len(types) == 1 {
			add("type", types[0])
		} else {
			list := make([]any, len(types))
			for i := range types {
				list[i] = types[i]
			}
			add("type", list)
		}
		if s.enum != nil {
			enum := slices.Clone(s.enum)
			if null {
				enum = append(enum, nil)
			}
			add("enum", enum)
		}
	}
	if s.about != "" {
		add("description", s.about)
	}
	if s.fields != nil {
		properties, required := shapeObject{}, []any{}
		for _, f := range s.fields {
			properties = append(properties, shapeMember{f.name, f.strict(!f.required)})
			required = append(required, f.name)
		}
		add("properties", properties)
		add("required", required)
		add("additionalProperties", false)
	}
	if s.items != nil {
		add("items", s.items.strict(false))
	}
	return o
}
