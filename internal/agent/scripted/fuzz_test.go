package scripted

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FuzzLoad checks that any bytes are either a scenario that can be served at any
// point or an error that names the file.
func FuzzLoad(f *testing.F) {
	for _, name := range Names() {
		data, err := builtin.ReadFile("scenarios/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("turns: [{when: {nth: 2, schema: true}, steps: [{items: [{call: {name: x, arguments: {a: [1, " +
		"null]}}}], slow: 1ms}, {incomplete: x}]}]"))
	r := &Request{Prompts: []string{"x"}, Outputs: []string{"a", "b"}, sessions: []int{0, 7},
		Schema: json.RawMessage(`{"type":"object"}`)}
	f.Fuzz(func(t *testing.T, data []byte) {
		sc, err := parse("x", "x.yaml", data)
		if err != nil {
			if !strings.Contains(err.Error(), "x.yaml") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		wellFormed(t, respond(sc, r, always))
		wellFormed(t, respond(sc, r, never))
	})
}

// FuzzRequest checks that every request is answered, whatever it contains, in a
// form that a client can read.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"input":[` + agents + hello + out + `],"text":{"format":{"type":"json_schema",` +
		`"schema":{"type":"object","properties":{"$status":{"enum":["a"]}}}}}}`))
	for _, tc := range slices.Concat(schemas, exotic) {
		f.Add([]byte(`{"input":"SCENARIO=prose","text":{"format":{"type":"json_schema","schema":` + tc.schema + `}}}`))
		f.Add(encode(object{"input": "this JSON Schema:\n" + tc.schema}))
	}
	f.Add([]byte(`{"input":[{"type":"function_call_output","output":{}},{"role":"user","content":[[]]}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"x"},{"role":"tool","content":{}}],"tools":[` + bash + `]}`))
	f.Add([]byte(`{"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],` +
		`"tools":[{"name":"Bash"}]}`))
	var all []*Scenario
	for _, name := range Names() {
		sc, err := Load(name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, sc)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func(http.Header, []byte) (*Request, error){decode, decodeMessages, decodeChat} {
			r, err := read(http.Header{}, body)
			if err != nil {
				continue
			}
			for _, sc := range all {
				got := respond(sc, r, never)
				if r.api == chatAPI {
					chatFormed(t, got)
				} else {
					wellFormed(t, got)
				}
			}
		}
	})
}

// wellFormed fails the test unless each event is one line of JSON that has its
// own name, and the last event of a whole reply ends it.
func wellFormed(t *testing.T, r reply) {
	t.Helper()
	if r.status < 200 || r.status > 599 {
		t.Errorf("status %d", r.status)
	}
	for i, e := range r.events {
		var v struct{ Type string }
		if err := json.Unmarshal(e.data, &v); err != nil || v.Type != e.name || bytes.ContainsAny(e.data, "\r\n") {
			t.Errorf("event %q: %s: %v", e.name, e.data, err)
		}
		ends := slices.Contains([]string{"response.completed", "response.failed", "response.incomplete", "message_stop",
			"error"}, e.name)
		if last := i == len(r.events)-1; ends != (last && r.end == whole) {
			t.Errorf("event %d of %d is %s", i+1, len(r.events), e.name)
		}
	}
}

// FuzzSchema checks that the answer for any schema is JSON, or an error.
func FuzzSchema(f *testing.F) {
	for _, tc := range slices.Concat(schemas, exotic) {
		f.Add([]byte(tc.schema))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !json.Valid(schema) {
			return
		}
		got, err := final{Auto: true, Text: "x", With: map[string]any{"a": 1.0}}.text(&Request{Schema: schema})
		if err != nil {
			return
		}
		if _, err := jsonschema.UnmarshalJSON(strings.NewReader(got)); err != nil {
			t.Errorf("%q for %s: %v", got, schema, err)
		}
	})
}

// chatFormed fails the test unless each event is one line of JSON or the end marker.
func chatFormed(t *testing.T, r reply) {
	t.Helper()
	for i, e := range r.events {
		over := string(e.data) == "[DONE]" && i == len(r.events)-1
		if !over && !json.Valid(e.data) || e.name != "" || e.alone != (e.data[len(e.data)-1] == '\n') {
			t.Errorf("event %q: %s", e.name, e.data)
		}
	}
}
