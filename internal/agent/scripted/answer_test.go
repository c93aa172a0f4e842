package scripted

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// schemas are requested shapes of answers, with the answer to each;
// "" if the answer only has to fit.
var schemas = []struct{ name, schema, want string }{
	{"strict", `{"type":"object","properties":{"$status":{"type":"string","enum":["blocked","done"]},` +
		`"$body":{"type":"string"},"count":{"type":"integer"}},"required":["$status","$body","count"],` +
		`"additionalProperties":false}`,
		`{"$body":"the text","$status":"done","count":0}`},
	{"status order", `{"type":"object","properties":{"$status":{"enum":["completed","bad","passed","approved"]}},` +
		`"required":["$status"]}`, `{"$status":"approved"}`},
	{"unknown statuses", `{"type":"object","properties":{"$status":{"enum":["red","blue"]}},"required":["$status"]}`,
		`{"$status":"red"}`},
	{"free status", `{"type":"object","properties":{"$status":{"type":"string"}}}`, `{"$status":"done"}`},
	{"with", `{"type":"object","properties":{"summary":{"type":"string"},"other":{"type":"string"},` +
		`"left":{"type":"string"}},"required":["other"]}`, `{"other":"Scripted other.","summary":"given"}`},
	{"with that does not fit", `{"type":"object","properties":{"summary":{"type":"integer","minimum":3}},` +
		`"required":["summary"]}`, `{"summary":3}`},
	{"null is least", `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"string"},` +
		`{"type":"null"}]},"$body":{"type":["null","string"]}},"required":["a","b","$body"]}`,
		`{"$body":"the text","a":null,"b":null}`},
	{"const", `{"type":"object","properties":{"v":{"const":{"x":[1]}}},"required":["v"]}`, `{"v":{"x":[1]}}`},
	{"oneOf by status", `{"oneOf":[{"type":"object","properties":{"$status":{"const":"ask"},` +
		`"reason":{"type":"string"}},"required":["$status","reason"]},{"type":"object",` +
		`"properties":{"$status":{"const":"ok"}},"required":["$status"]}]}`, `{"$status":"ok"}`},
	{"reference", `{"$defs":{"n":{"type":"object","properties":{"name":{"$ref":"#/$defs/s"}},"required":["name"]},` +
		`"s":{"type":"string","minLength":20}},"type":"array","items":{"$ref":"#/$defs/n"},"minItems":2}`, ""},
	{"no end", `{"$defs":{"n":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},` +
		`{"type":"null"}]}},"required":["next"]}},"$ref":"#/$defs/n"}`, `{"next":null}`},
	{"lists", `{"type":"object","properties":{"tags":{"type":"array","items":{"enum":["x","y"]},"minItems":2},` +
		`"none":{"type":"array"}},"required":["tags","none"]}`, `{"none":[],"tags":["x","x"]}`},
	{"numbers", `{"type":"object","properties":{"a":{"type":"integer","minimum":2.5},"b":{"type":"number",` +
		`"minimum":0.5,"maximum":1},"c":{"type":"integer","maximum":-3}},"required":["a","b","c"]}`,
		`{"a":3,"b":0.5,"c":-3}`},
	{"texts", `{"type":"object","properties":{"s":{"type":"string","minLength":3,"maxLength":5},"l":{"type":"string",` +
		`"minLength":20}},"required":["s","l"]}`, `{"l":"Scripted l..........","s":"Scrip"}`},
	{"undeclared", `{"type":"object","required":["x"],"additionalProperties":{"type":"integer"}}`,
		`{"x":0}`},
	{"no type", `{"properties":{"a":{"minimum":1},"b":{"items":{}}},"required":["a","b"]}`, `{"a":1,"b":[]}`},
	{"anything", `true`, ""},
	{"an empty schema", `{}`, ""},
}

// exotic are requested shapes for which no answer can be made, with where it is said not to fit.
var exotic = []struct{ name, schema, want string }{
	{"pattern", `{"type":"object","properties":{"v":{"type":"string","pattern":"^v[0-9]$"}},"required":["v"]}`,
		"at '/v': 'Scripted v.' does not match pattern '^v[0-9]$'"},
	{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]}`,
		"at '': 'allOf' failed; at '': got string, want object"},
	{"unique", `{"type":"array","items":{"type":"integer"},"minItems":2,"uniqueItems":true}`,
		"at '': items at 0 and 1 are equal"},
	{"no end", `{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"required":["next"]}},` +
		`"$ref":"#/$defs/n"}`, "got null, want object"},
}

// fitting fails the test unless the value fits the schema.
func fitting(t *testing.T, schema string, value any) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///test", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///test")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%s does not fit %s: %v", encode(value), schema, err)
	}
}

// said returns the text of an answer that can be made.
func said(t *testing.T, f final, r *Request) string {
	t.Helper()
	text, err := f.text(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestExotic checks that a request is refused with the places that no answer fits, unless the scenario has them.
func TestExotic(t *testing.T) {
	sc := mustParse(t, "turns: [{steps: [{items: [{answer: auto}]}]}]")
	for _, tc := range exotic {
		t.Run(tc.name, func(t *testing.T) {
			r := request(t, `"x"`)
			r.Schema = json.RawMessage(tc.schema)
			got := respond(sc, r, never)
			if got.status != http.StatusBadRequest || !strings.Contains(got.body, tc.want) ||
				!strings.Contains(got.body, "cannot make an answer for this schema") || len(got.events) > 0 {
				t.Errorf("%d %s, want %s", got.status, got.body, tc.want)
			}
		})
	}
	r := &Request{Schema: json.RawMessage(exotic[0].schema)}
	if got := said(t, final{Auto: true, With: map[string]any{"v": "v1"}}, r); got != `{"v":"v1"}` {
		t.Errorf("with a value that fits: %s", got)
	}
}

func TestAuto(t *testing.T) {
	f := final{Auto: true, Text: "the text", With: map[string]any{"summary": "given", "unknown": true}}
	for _, tc := range schemas {
		t.Run(tc.name, func(t *testing.T) {
			got := said(t, f, &Request{Schema: json.RawMessage(tc.schema)})
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
			if err != nil {
				t.Fatalf("%q: %v", got, err)
			}
			fitting(t, tc.schema, value)
			if tc.want != "" && got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// frontOf parses an answer as Plait does.
func frontOf(t *testing.T, text string) (map[string]any, string) {
	t.Helper()
	rest, ok := strings.CutPrefix(text, "---\n")
	front, body, found := strings.Cut(rest, "---\n")
	if !ok || !found {
		t.Fatalf("%q is no front matter", text)
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(front), &fields); err != nil {
		t.Fatalf("%q: %v", front, err)
	}
	return fields, body
}

func TestContract(t *testing.T) {
	f := final{Auto: true, Text: "the text", With: map[string]any{"summary": "given"}}
	for _, tc := range schemas {
		if !strings.Contains(tc.want, "{") || strings.HasPrefix(tc.want, "[") {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, []byte(tc.schema), "", "  "); err != nil {
				t.Fatal(err)
			}
			prompt := "You are it.\n\nThe fields must fit\nthis JSON Schema:\n\n" + pretty.String() +
				"\n\nIf you need input from a person, …"
			fields, body := frontOf(t,
				said(t, f, &Request{Context: []string{"this JSON Schema: {\"const\":1}", prompt, "go on"}}))
			if body != "\nthe text\n" {
				t.Errorf("body %q", body)
			}
			// Through JSON, as an engine does, since YAML has its own numbers.
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(encode(fields)))
			if err != nil {
				t.Fatal(err)
			}
			fitting(t, tc.schema, value)
		})
	}
	t.Run("none", func(t *testing.T) {
		got := said(t, f, &Request{Context: []string{"hello; this JSON Schema: is missing"}})
		if want := "---\n$status: done\nsummary: given\n---\n\nthe text\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestFrontMatterTexts(t *testing.T) {
	fields := map[string]any{"$status": "done", "a": "yes", "b": "two words: and # more", "c": "", "d": "x-1",
		"null": nil, "7": 7.0, "e e": []any{"a", true}, "f": "line\nline", "g": "---"}
	got, _ := frontOf(t, frontMatter(fields)+"\n")
	if diff := cmp.Diff(string(encode(fields)), string(encode(got))); diff != "" {
		t.Errorf("%s\n%s", diff, frontMatter(fields))
	}
}

// TestBuiltins checks that each built-in has a description, and that those
// that end with an answer of any shape can give it in every shape.
func TestBuiltins(t *testing.T) {
	want := []string{"approve", "big", "chat", "codex-fix", "codex-fix-node",
		"codex-fix-python", "codex-review", "context-full", "cut", "demo", "error500", "fix",
		"limited", "long", "orchestrate", "parallel", "prose", "silent", "slow", "team", "tools", "two-rounds",
		"unauthorized", "work"}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Error(diff)
	}
	for _, name := range Names() {
		sc, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if sc.name != name || sc.About == "" || strings.Contains(sc.About, "\n") {
			t.Errorf("%s: name %q, about %q", name, sc.name, sc.About)
		}
		for _, tn := range sc.Turns {
			last := tn.Steps[len(tn.Steps)-1].Items
			if len(last) == 0 || !last[len(last)-1].Answer.Auto {
				continue
			}
			for _, tc := range schemas {
				got := said(t, *last[len(last)-1].Answer, &Request{Schema: json.RawMessage(tc.schema),
					Outputs: []string{"one", "two"}})
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
				if err != nil {
					t.Fatalf("%s: %q: %v", name, got, err)
				}
				fitting(t, tc.schema, value)
			}
		}
	}
}

// TestOverride checks that a prompt can choose a built-in scenario and nothing else.
func TestOverride(t *testing.T) {
	sc := mustParse(t, "turns: [{steps: [{items: [{say: own}]}]}]")
	for prompt, want := range map[string]string{
		"do SCENARIO=prose now": "prose", "SCENARIO=error500": "error500", "SCENARIO=nothing": "test",
		"SCENARIO=../x.yaml": "test", "x": "test",
	} {
		r, err := decode(http.Header{}, encode(object{"input": prompt}))
		if err != nil {
			t.Fatal(err)
		}
		if got := respond(sc, r, never).scenario; got != want {
			t.Errorf("%q is served by %s, want %s", prompt, got, want)
		}
	}
}
