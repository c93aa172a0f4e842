package parse

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/schema"
)

// badSchema reports why the schema of a role does not compile.
func (d *draft) badSchema(r *roleSite, err error) {
	var se *schema.Error
	if !errors.As(err, &se) {
		d.report(r.schemaNode, codeBadSchema, "the schema of role %s: %v", r.name, err)
		return
	}
	for _, f := range se.Faults {
		at := d.child(r.schemaNode, f.At)
		for _, e := range d.entries(at) {
			if f.Key != "" && resolve(e.key).Value == f.Key {
				at = e.key
			}
		}
		if ref := d.reference(r.schemaNode, f.Text); f.At == nil && ref != nil {
			at = ref
		}
		d.report(at, codeBadSchema, "the schema of role %s: %s", r.name, f.Text)
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
