package flow_test

import (
	"fmt"
	"strings"
	"testing"
)

// chained returns a schema of n definitions, each of which applies the next one twice.
func chained(n int) string {
	var defs []string
	for i := range n {
		next := fmt.Sprintf(`{"$ref": "#/$defs/a%d"}`, i+1)
		defs = append(defs, fmt.Sprintf(`"a%d": {"allOf": [%s, %s]}`, i, next, next))
	}
	return fmt.Sprintf(`{"$ref": "#/$defs/a0", "$defs": {%s, "a%d": {}}}`, strings.Join(defs, ", "), n)
}

// binding returns a schema with a reference that a value binds to a schema that applies the others twice.
const binding = `{"$id": "flow:///outer.json", "$dynamicAnchor": "n", "items": {"$ref": "inner.json"}, "$defs": {` +
	`"i": {"$id": "inner.json", "allOf": [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n"}], "$defs": {"n": ` +
	`{"$dynamicAnchor": "n"}}}}}`

const tree = `{"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "left": ` +
	`{"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": false}`

// TestSchemasThatExpand checks that no schema of a planner keeps the validator busy for ever.
func TestSchemasThatExpand(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		ok           bool
	}{
		{"a chain", chained(60), false},
		{"a short chain", chained(10), true},
		{"bound by a value", binding, false},
		{"a tree", tree, true},
		{"a list of itself", `{"items": {"$ref": "#"}, "contains": {"$ref": "#"}}`, true}, // depends on the value
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := parsed(t, planningFlow)
			plan := planned(fmt.Sprintf(`{"id": "a", "prompt": "x", "outputSchema": %s}`, tt.schema), "")
			want := "/actions/0/outputSchema: its references expand to more than 50000 schemas"
			_, wrong := d.CheckPlan(fields(t, plan), 0)
			if got := strings.Join(wrong, "\n"); got != "" && tt.ok || got != want && !tt.ok {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestSchemasThatAreDeep checks that a schema is not compiled if it is nested so deep that this would take minutes.
func TestSchemasThatAreDeep(t *testing.T) {
	nested := func(n int) string {
		return strings.Repeat(`{"not": `, n) + `{"type": "nosuch"}` + strings.Repeat("}", n)
	}
	for n, deep := range map[int]bool{60: false, 64: true, 4000: true} {
		d := parsed(t, planningFlow)
		plan := planned(fmt.Sprintf(`{"id": "a", "prompt": "x", "outputSchema": %s}`, nested(n)), "")
		_, wrong := d.CheckPlan(fields(t, plan), 0)
		got := strings.Join(wrong, "\n")
		if got == "" || (got == "/actions/0/outputSchema: nested deeper than 64 levels") != deep {
			t.Errorf("%d levels: %.200q", n, got)
		}
	}
}

// TestValuesThatExpand checks that no value keeps the validator busy for ever.
func TestValuesThatExpand(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + "0" + strings.Repeat("]", n) }
	const twice = `{"items": {"$ref": "#/properties/x"}, "contains": {"$ref": "#/properties/x"}}`
	for _, tt := range []struct {
		name, schema, value string
		ok                  bool
	}{
		{"a chain", strings.ReplaceAll(chained(60), "#/$defs", "#/properties/x/$defs"), "1", false},
		{"applied twice to each level", twice, nested(60), false},
		{"to a few levels", twice, nested(8), true},
		{"in one that must not fit", `{"not": {"$ref": "#/$defs/y"}}`, nested(60), false},
		{"a deep tree", `{"properties": {"c": {"$ref": "#/properties/x"}}, "patternProperties": {"^p": {"$ref": ` +
			`"#/properties/x"}}, "additionalProperties": {"$ref": "#/properties/x"}}`,
			strings.Repeat(`{"c":{"p":{"z":`, 20) + "0" + strings.Repeat("}}}", 20), true},
		{"tuples", `{"prefixItems": [{"$ref": "#/properties/x"}], "items": {"$ref": "#/properties/x"}}`, nested(60), true},
		{"a long list", `{"items": {"allOf": [{"type": "integer"}, {"minimum": 0}, {"maximum": 9}]}}`,
			"[" + strings.Repeat("1,", 20_000) + "1]", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			schema := `{"properties": {"$status": {"const": "ok"}, "x": ` + tt.schema + `}, "$defs": {"y": {"items": ` +
				`{"$ref": "#/$defs/y"}, "contains": {"$ref": "#/$defs/y"}}}}`
			d := parsed(t, edited(4, "  a: {frontmatter: "+schema+"}"))
			err := d.Validate("a", fields(t, `{"$status": "ok", "x": `+tt.value+"}"))
			if tt.ok && err != nil || !tt.ok && (err == nil || !strings.Contains(err.Error(), "applies too often")) {
				t.Error(err)
			}
		})
	}
}
