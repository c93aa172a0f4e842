package shape

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

var plainName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// isPlain reports whether a tool's property may have the name.
func isPlain(name string) bool { return len(name) <= 64 && plainName.MatchString(name) }

// Plain returns a form of [Strict] with property names that a tool may have: $status becomes status, and its
// description says so. The error says which name cannot be converted.
func Plain(form json.RawMessage) (json.RawMessage, error) {
	root, names, err := plainNames(form)
	if err != nil {
		return nil, err
	}
	for i, m := range root {
		switch v := m.value.(type) {
		case shapeObject:
			if m.key != "properties" {
				continue
			}
			for j, p := range v {
				name, o := names[p.key], p.value
				if rule, ok := o.(shapeObject); ok && name != p.key {
					o = rule.describedAs(fmt.Sprintf("this is %s", p.key))
				}
				v[j] = shapeMember{name, o}
			}
		case []any:
			for j, name := range v {
				if s, ok := name.(string); ok && m.key == "required" {
					v[j] = names[s]
				}
			}
		}
		root[i] = m
	}
	return shapeAppend(nil, root), nil
}

// Unplain returns an answer in a form of [Plain] with the names of [Strict]. One that is not an object is
// returned unchanged.
func Unplain(form, answer json.RawMessage) json.RawMessage {
	_, names, err := plainNames(form)
	if err != nil {
		return answer
	}
	real := map[string]string{}
	for name, plain := range names {
		real[plain] = name
	}
	v, err := shapeParse(answer)
	o, ok := v.(shapeObject)
	if err != nil || !ok {
		return answer
	}
	for i, m := range o {
		if name, ok := real[m.key]; ok {
			o[i].key = name
		}
	}
	return shapeAppend(nil, o)
}

// describedAs returns the rule with words put before its description.
func (o shapeObject) describedAs(words string) shapeObject {
	var out shapeObject
	for _, m := range o {
		if text, ok := m.value.(string); ok && m.key == "description" {
			words += ": " + text
			continue
		}
		out = append(out, m)
	}
	return append(out, shapeMember{"description", words})
}

// plainNames returns a form and the plain names of its properties.
func plainNames(form json.RawMessage) (shapeObject, map[string]string, error) {
	v, err := shapeParse(form)
	if err != nil {
		return nil, nil, fmt.Errorf("name properties: %w", err)
	}
	root, _ := v.(shapeObject)
	properties, _ := root.get("properties")
	fields, _ := properties.(shapeObject)
	names, taken := map[string]string{}, map[string]bool{}
	for _, f := range fields {
		taken[f.key] = true
	}
	for _, f := range fields {
		name := f.key
		if strings.HasPrefix(name, "$") {
			for name = name[1:]; taken[name]; name += "_" {
			}
		}
		names[f.key], taken[name] = name, true
		if !isPlain(name) {
			return nil, nil, fmt.Errorf("name properties: %q is not a name that a tool's property may have", f.key)
		}
		if err := plainBelow(f.value); err != nil {
			return nil, nil, err
		}
	}
	return root, names, nil
}

// plainBelow returns an error if a nested property has no plain name.
func plainBelow(v any) error {
	switch v := v.(type) {
	case shapeObject:
		properties, _ := v.get("properties")
		fields, _ := properties.(shapeObject)
		for _, f := range fields {
			if !isPlain(f.key) {
				return fmt.Errorf("name properties: %q is not a name that a tool's property may have", f.key)
			}
		}
		for _, m := range v {
			if err := plainBelow(m.value); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := plainBelow(e); err != nil {
				return err
			}
		}
	}
	return nil
}
