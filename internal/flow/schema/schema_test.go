package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/sys/text"
)

// The checks never refuse what the validator accepts: if a value fits a schema, then its status is one of those that the
// schema can have, and the fields that the schema has for it are known.
func TestChecksAgreeWithTheValidator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := drawSchema(t, 3)
		schema["$defs"] = map[string]any{"d": drawSchema(t, 2), "e": drawSchema(t, 1)}
		if rapid.IntRange(0, 9).Draw(t, "draft") == 0 {
			schema["$schema"] = "http://json-schema.org/draft-07/schema#"
		}
		root := compiledFrom(t, schema)
		strict := maps.Clone(schema)
		if strict["unevaluatedProperties"] == nil {
			strict["unevaluatedProperties"] = false
		}
		known := compiledFrom(t, strict)
		for range 20 {
			value := map[string]any{}
			for name, among := range map[string][]any{
				"$status": {"a", "b", "c"}, "x": {nil, true, "a"}, "y": {nil, true, "b"}, "z": {nil, true},
			} {
				if v := rapid.SampledFrom(among).Draw(t, name); v != nil {
					value[name] = v
				}
			}
			if root.Validate(value) != nil {
				continue
			}
			s, st := Read(root), value["$status"].(string)
			may, can, open := s.Statuses()
			if !open && !slices.Contains(may, st) {
				t.Fatalf("%s has %s with a status that is not among %v", text.JSON(schema), text.JSON(value), may)
			}
			for _, st := range can {
				if !slices.Contains(may, st) {
					t.Fatalf("%s: %v, %v", text.JSON(schema), may, can)
				}
			}
			if schema["$schema"] != nil || known.Validate(value) != nil {
				continue
			}
			for name := range value {
				if _, ok := Field(s.With(st), name); !ok {
					t.Fatalf("%s has %s with a field %s that is not known", text.JSON(schema), text.JSON(value), name)
				}
			}
		}
	})
}

func compiledFrom(t *rapid.T, schema map[string]any) *jsonschema.Schema {
	data, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Compile(bytes.Clone(data))
	if err != nil {
		t.Skip(err) // a reference that leads in a circle
	}
	return root
}

// drawSchema draws a schema of objects.
func drawSchema(t *rapid.T, depth int) map[string]any {
	sub := func() any {
		if rapid.IntRange(0, 19).Draw(t, "bool") == 0 {
			return rapid.Bool().Draw(t, "of")
		}
		return drawSchema(t, depth-1)
	}
	list := func() []any { return []any{sub(), sub()} }
	name := func() string { return rapid.SampledFrom([]string{"$status", "x", "y", "z"}).Draw(t, "name") }
	word := rapid.SampledFrom([]any{"a", "b", "c"})
	schema := map[string]any{}
	keywords := []string{"status", "status", "status", "fields", "fields", "required", "pattern", "closed", "type"}
	if depth > 0 {
		keywords = append(keywords, "allOf", "anyOf", "oneOf", "oneOf", "if", "not", "dependent", "$ref", "$dynamicRef",
			"unevaluated", "additional", "enum")
	}
	for range rapid.IntRange(1, 3).Draw(t, "keywords") {
		switch k := rapid.SampledFrom(keywords).Draw(t, "keyword"); k {
		case "status", "fields":
			fields, _ := schema["properties"].(map[string]any)
			if fields == nil {
				fields = map[string]any{}
			}
			if k == "status" {
				fields["$status"] = rapid.SampledFrom([]any{
					map[string]any{"const": word.Draw(t, "const")},
					map[string]any{"enum": []any{"a", word.Draw(t, "enum")}},
					map[string]any{"anyOf": []any{map[string]any{"const": "b"}, map[string]any{"pattern": "^[ac]"}}},
					map[string]any{"enum": []any{"a", "b", "c"}, "not": map[string]any{"const": word.Draw(t, "not")}},
				}).Draw(t, "status")
			} else {
				fields[name()] = rapid.SampledFrom([]any{true, map[string]any{"type": "boolean"}, map[string]any{}}).Draw(t, "field")
			}
			schema["properties"] = fields
		case "required":
			schema[k] = []any{name()}
		case "pattern":
			schema["patternProperties"] = map[string]any{"^[xy$]": rapid.SampledFrom([]any{true, map[string]any{"enum": []any{true, "a", "b"}}}).Draw(t, k)}
		case "closed":
			schema["additionalProperties"] = false
		case "type":
			schema[k] = []any{"object", "null"}
		case "allOf", "anyOf", "oneOf":
			schema[k] = list()
		case "if":
			schema["if"], schema["then"] = sub(), sub()
			if rapid.Bool().Draw(t, "has else") {
				schema["else"] = sub()
			}
		case "not":
			schema[k] = sub()
		case "dependent":
			schema["dependentSchemas"] = map[string]any{name(): sub()}
		case "$ref":
			schema[k] = rapid.SampledFrom([]string{"#/$defs/d", "#/$defs/e"}).Draw(t, k)
		case "$dynamicRef":
			schema[k] = "#/$defs/e"
		case "unevaluated":
			schema["unevaluatedProperties"] = sub()
		case "additional":
			schema["additionalProperties"] = sub()
		case "enum":
			schema[k] = []any{map[string]any{"$status": word.Draw(t, k), "x": true}, map[string]any{"$status": "b"}}
		}
	}
	return schema
}
