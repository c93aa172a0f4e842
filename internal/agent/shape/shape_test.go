package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

func TestStrict(t *testing.T) {
	const tail = `, "$body": {"type": "string", "description": "the text of the answer"}}, "required": [%s], ` +
		`"additionalProperties": false}`
	tests := []struct{ name, schema, want, required string }{
		{"required and optional", `{"type":"object","title":"T","properties":{"a":{"type":"string","minLength":3},` +
			`"b":{"type":"integer","default":1}},"required":["a"]}`,
			`{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}`,
			`"a", "b", "$body"`},
		{"status", `{"properties":{"$status":{"enum":["done","stuck"]}},"required":["$status"]}`,
			`{"type": "object", "properties": {"$status": {"type": "string", "enum": ["done", "stuck", "$SUSPEND"]}, ` +
				`"reason": {"type": ["string", "null"], "description": "with $status $SUSPEND: what a person must ` +
				`answer before you can go on; else null"}`,
			`"$status", "reason", "$body"`},
		{"const status and own reason", `{"type":"object","properties":{"$status":{"const":"done"},` +
			`"reason":{"type":"string"}},"required":["$status"]}`,
			`{"type": "object", "properties": {"$status": {"type": "string", "enum": ["done", "$SUSPEND"]}, ` +
				`"reason": {"type": ["string", "null"]}`, `"$status", "reason", "$body"`},
		{"reason that cannot hold a text", `{"type":"object","properties":{"$status":{"const":"done"},` +
			`"reason":{"type":"integer"}},"required":["$status"]}`,
			`{"type": "object", "properties": {"$status": {"type": "string", "enum": ["done"]}, "reason": {"type": ` +
				`["integer", "null"]}`, `"$status", "reason", "$body"`},
		{"nested", `{"type":"object","properties":{"l":{"type":"array","minItems":1,"items":{"type":"object",` +
			`"properties":{"x":{"type":"number"}}}}},"required":["l"]}`,
			`{"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object", "properties": ` +
				`{"x": {"type": ["number", "null"]}}, "required": ["x"], "additionalProperties": false}}`,
			`"l", "$body"`},
		{"anyOf", `{"type":"object","properties":{"v":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`,
			`{"type": "object", "properties": {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}, ` +
				`{"type": "null"}]}`, `"v", "$body"`},
		{"optional enum", `{"type":"object","properties":{"e":{"enum":["a",1]}}}`,
			`{"type": "object", "properties": {"e": {"type": ["string", "integer", "null"], "enum": ["a", 1, null]}`,
			`"e", "$body"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Strict(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+fmt.Sprintf(tail, tt.required), string(got)); diff != "" {
				t.Errorf("strict form (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStrictRefuses(t *testing.T) {
	for name, schema := range map[string]string{
		"not an object":      `{"type":"string"}`,
		"boolean":            `true`,
		"nothing":            ``,
		"free map":           `{"type":"object"}`,
		"free map inside":    `{"type":"object","properties":{"a":{"type":"object"}}}`,
		"any value":          `{"type":"object","properties":{"a":{}}}`,
		"boolean inside":     `{"type":"object","properties":{"a":true}}`,
		"oneOf":              `{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}}]}`,
		"allOf":              `{"type":"object","properties":{"a":{"type":"string"}},"allOf":[]}`,
		"not":                `{"type":"object","properties":{"a":{"not":{}}}}`,
		"if":                 `{"type":"object","properties":{"a":{"type":"string"}},"if":{}}`,
		"$ref":               `{"type":"object","properties":{"a":{"$ref":"#/x"}}}`,
		"pattern properties": `{"type":"object","properties":{"a":{"type":"string"}},"patternProperties":{}}`,
		"dependent":          `{"type":"object","properties":{"a":{"type":"string"}},"dependentRequired":{}}`,
		"map of": `{"type":"object","properties":{"a":{"type":"string"}},` +
			`"additionalProperties":{"type":"string"}}`,
		"required of nothing": `{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`,
		"list of anything":    `{"type":"object","properties":{"a":{"type":"array"}}}`,
		"root anyOf":          `{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}}]}`,
		"anyOf and more":      `{"type":"object","properties":{"a":{"type":"string","anyOf":[{"type":"string"}]}}}`,
		"unknown type":        `{"type":"object","properties":{"a":{"type":"text"}}}`,
		"enum of objects":     `{"type":"object","properties":{"a":{"enum":[{}]}}}`,
		"empty enum":          `{"type":"object","properties":{"a":{"type":"string","enum":[1]}}}`,
		"const beside enum":   `{"type":"object","properties":{"a":{"enum":["a"],"const":"b"}}}`,
		"the body is taken":   `{"type":"object","properties":{"$body":{"type":"string"}}}`,
		"key twice":           `{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"string"}}}`,
		"too deep": `{"type":"object","properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 50) +
			`{"type":"string"}` + strings.Repeat("}", 50) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Strict(json.RawMessage(schema)); err == nil {
				t.Errorf("got %s, want an error", got)
			}
		})
	}
}

func TestUnshape(t *testing.T) {
	schema := json.RawMessage(
		`{"type":"object","properties":{"$status":{"enum":["done"]},"n":{"type":"string"},"maybe":{"type":["string","null"]},
		"list":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"]}]}}},"required":["$status"]}`)
	tests := []struct{ name, answer, want string }{
		{"nulls go", `{"$status":"done","n":null,"maybe":null,"list":["a",{"x":1,"y":null}],"reason":null,` +
			`"$body":"Hi\nyou"}`,
			"---\n" + `{"$status": "done", "maybe": null, "list": ["a", {"x": 1}]}` + "\n---\n\nHi\nyou"},
		{"order is kept", `{"$body":"b","n":"x","$status":"done","maybe":null,"list":null}`, "---\n" +
			`{"n": "x", "$status": "done", "maybe": null}` + "\n---\n\nb"},
		{"suspended", `{"$status":"$SUSPEND","n":"x","maybe":"y","list":[],"reason":"which port?",` +
			`"$body":"I must ask."}`,
			"---\n" + `{"$status": "$SUSPEND", "reason": "which port?"}` + "\n---\n\nI must ask."},
		{"a reason that nobody asked for", `{"$status":"done","reason":"why","$body":""}`, "---\n" +
			`{"$status": "done"}` + "\n---\n\n"},
		{"odd characters", `{"$status":"done","n":"---\n\u2028\u0085\ufeff\ud83d\ude00\u0000\u007f\/",` +
			`"$body":"---\nx"}`,
			"---\n" + `{"$status": "done", "n": "---\n\u2028\u0085\ufeff😀\u0000\u007f/"}` + "\n---\n\n---\nx"},
		{"no body", `{"$status":"done"}`, "---\n" + `{"$status": "done"}` + "\n---\n\n"},
		{"a body that is no text", `{"$status":"done","$body":1}`, "---\n" + `{"$status": "done", "$body": 1}` +
			"\n---\n\n"},
		{"what was not asked for", `{"$status":"done","more":{"a":[null]}}`, "---\n" +
			`{"$status": "done", "more": {"a": [null]}}` + "\n---\n\n"},
		{"prose", "Sorry.", "Sorry."},
		{"a list", `[1]`, `[1]`},
		{"two objects", `{}{}`, `{}{}`},
		{"a fence", "```json\n{}\n```", "```json\n{}\n```"},
		{"nothing", "", ""},
		{"key twice", `{"a":1,"a":2}`, `{"a":1,"a":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Unshape(schema, []byte(tt.answer))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("front matter (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Unshape(json.RawMessage(`{}`), []byte(`{}`)); err == nil {
		t.Error("a schema without a strict form was taken")
	}
}

// drawRule draws a schema that has a strict form.
func drawRule(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "integer", "number", "boolean", "null", "many", "enum", "const"}
	if depth > 0 {
		kinds = append(kinds, "object", "array", "anyOf")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "many":
		return map[string]any{"type": []any{"string", rapid.SampledFrom([]string{"null", "integer", "boolean"}).Draw(t,
			"second")}}
	case "enum":
		values := rapid.SliceOfNDistinct(rapid.SampledFrom([]any{"a", "b", 1, 2.5, true, nil}), 1, 3, rapid.ID).Draw(t,
			"values")
		return map[string]any{"enum": values}
	case "const":
		return map[string]any{"const": rapid.SampledFrom([]any{"a", 7, nil}).Draw(t, "value"), "description": "one"}
	case "object":
		return drawObject(t, depth)
	case "array":
		return map[string]any{"type": "array", "items": drawRule(t, depth-1)}
	case "anyOf":
		var list []any
		for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
			list = append(list, drawRule(t, depth-1))
		}
		return map[string]any{"anyOf": list}
	default:
		return map[string]any{"type": kind}
	}
}

func drawObject(t *rapid.T, depth int) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "reason"}), 1, 3,
		rapid.ID).Draw(t, "names") {
		properties[name] = drawRule(t, depth-1)
		if rapid.Bool().Draw(t, "required") {
			required = append(required, name)
		}
	}
	o := map[string]any{"type": "object", "properties": properties, "required": required}
	if rapid.Bool().Draw(t, "closed") {
		o["additionalProperties"] = false
	}
	return o
}

// drawValue draws a value that fits a strict schema.
func drawValue(t *rapid.T, rule map[string]any) any {
	if list, ok := rule["anyOf"].([]any); ok {
		return drawValue(t, rapid.SampledFrom(list).Draw(t, "alternative").(map[string]any))
	}
	if values, ok := rule["enum"].([]any); ok {
		return rapid.SampledFrom(values).Draw(t, "value")
	}
	kind, ok := rule["type"].(string)
	if list, many := rule["type"].([]any); !ok && many {
		kind = rapid.SampledFrom(list).Draw(t, "type").(string)
	}
	switch kind {
	case "string":
		return rapid.String().Draw(t, "text")
	case "integer":
		return float64(rapid.Int32().Draw(t, "integer"))
	case "number":
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case "boolean":
		return rapid.Bool().Draw(t, "bool")
	case "array":
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, rule["items"].(map[string]any)))
		}
		return list
	case "object":
		o := map[string]any{}
		for name, p := range rule["properties"].(map[string]any) {
			o[name] = drawValue(t, p.(map[string]any))
		}
		return o
	}
	return nil
}

func compileRule(t interface{ Fatal(...any) }, schema []byte) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validRule(s *jsonschema.Schema, data []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestShapeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original := drawObject(t, 3)
		original["properties"].(map[string]any)["$status"] = map[string]any{"enum": []any{"done", "stuck"}}
		schema, err := json.Marshal(original)
		if err != nil {
			t.Fatal(err)
		}
		shaped, err := Strict(schema)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		var rule map[string]any
		if err := json.Unmarshal(shaped, &rule); err != nil {
			t.Fatal(err)
		}
		value := drawValue(t, rule)
		answer, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := validRule(compileRule(t, shaped), answer); err != nil {
			t.Fatalf("the drawn value does not fit %s: %v", shaped, err)
		}
		out, err := Unshape(schema, answer)
		if err != nil {
			t.Fatal(err)
		}
		front, body := splitFront(t, out)
		given := value.(map[string]any)
		if body != given["$body"] {
			t.Fatalf("got text %q, want %q", body, given["$body"])
		}
		if given["$status"] == shapeSuspend {
			return
		}
		if err := validRule(compileRule(t, schema), front); err != nil {
			t.Fatalf("schema %s\nstrict %s\nanswer %s\ngave %s: %v", schema, shaped, answer, front, err)
		}
	})
}

// splitFront splits an unshaped answer, and checks that YAML and JSON read the
// same from its front matter.
func splitFront(t interface{ Fatalf(string, ...any) }, out []byte) (front []byte, body string) {
	rest, ok := bytes.CutPrefix(out, []byte("---\n"))
	front, after, ok2 := bytes.Cut(rest, []byte("\n---\n\n"))
	if !ok || !ok2 || bytes.ContainsRune(front, '\n') {
		t.Fatalf("no front matter: %q", out)
	}
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal(front, &fromYAML); err != nil {
		t.Fatalf("front matter %s: %v", front, err)
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatalf("front matter %s: %v", front, err)
	}
	var back any
	if err := json.Unmarshal(again, &back); err != nil {
		t.Fatalf("front matter %s: %v", front, err)
	}
	if err := json.Unmarshal(front, &fromJSON); err != nil {
		t.Fatalf("front matter %s: %v", front, err)
	}
	if diff := cmp.Diff(fromJSON, back); diff != "" {
		t.Fatalf("YAML reads %s otherwise: %s", front, diff)
	}
	return front, string(after)
}

func FuzzStrict(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"$status":{"enum":["done"]},"a":{"type":["string","null"]}},` +
			`"required":["$status"]}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{"const":1}},{"type":"null"}]}}}`, `{}`,
		`[`, `{"properties":{"":{"enum":[1e5]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		shaped, err := Strict(schema)
		if err != nil {
			return
		}
		var rule struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
			More       *bool          `json:"additionalProperties"`
		}
		if err := json.Unmarshal(shaped, &rule); err != nil {
			t.Fatalf("%s gave %s: %v", schema, shaped, err)
		}
		if rule.Type != "object" || len(rule.Required) != len(rule.Properties) || rule.More == nil || *rule.More ||
			!slices.Contains(rule.Required, "$body") {
			t.Errorf("%s gave %s", schema, shaped)
		}
	})
}

func FuzzUnshape(f *testing.F) {
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done"]},"a":{"type":"string"},` +
		`"l":{"type":"array","items":{"anyOf":[{"type":"number"},{"type":"object",` +
		`"properties":{"x":{"type":"integer"}}}]}}},"required":["$status"]}`)
	for _, s := range []string{
		`{"$status":"done","a":null,"l":[1,{"x":null}],"$body":"hi"}`,
		`{"$status":"$SUSPEND","reason":"\u2028\ud83d\ude00"}`, `{"a":"\u0085\ufffe\t\\\"","b":-0.0,"c":1e400}`, `x`,
		`{"a"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		out, err := Unshape(schema, answer)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(out, answer) {
			return
		}
		var given map[string]json.RawMessage
		if err := json.Unmarshal(answer, &given); err != nil {
			t.Fatalf("%q is no object but gave %q", answer, out)
		}
		rest, ok := bytes.CutPrefix(out, []byte("---\n{"))
		front, _, ok2 := bytes.Cut(rest, []byte("\n"))
		if !ok || !ok2 || !json.Valid(append([]byte("{"), front...)) {
			t.Errorf("%q gave %q", answer, out)
		}
	})
}
