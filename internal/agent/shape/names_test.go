package shape

import (
	"encoding/json"
	"testing"
)

func TestPlain(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done","no"],"description":"how it ` +
		`went"},` +
		`"status":{"type":"string"},"n":{"type":"integer"}},"required":["$status","status"]}`)
	form, err := Strict(schema)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Plain(form)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Properties map[string]struct{ Description string }
		Required   []string
	}
	if err := json.Unmarshal(plain, &got); err != nil {
		t.Fatal(err)
	}
	if p, ok := got.Properties["status_"]; !ok || p.Description != "this is $status: how it went" {
		t.Errorf("got %s", plain)
	}
	for _, name := range got.Required {
		if _, ok := got.Properties[name]; !ok || name[0] == '$' {
			t.Errorf("%s is required: %s", name, plain)
		}
	}
	answer := Unplain(form, json.RawMessage(`{"status_":"done","status":"well","n":null,"reason":null,"body":"the text"}`))
	out, err := Unshape(schema, answer)
	if want := "---\n{\"$status\": \"done\", \"status\": \"well\"}\n---\n\nthe text"; err != nil || string(out) != want {
		t.Errorf("got %s, want %s: %v", out, want, err)
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"a b":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object",` +
			`"properties":{"$x":{"type":"string"}}}}}}`,
	} {
		form, err := Strict(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := Plain(form); err == nil {
			t.Errorf("%s has the plain form %s", schema, plain)
		}
	}
	if got := Unplain(form, json.RawMessage(`"a text"`)); string(got) != `"a text"` {
		t.Errorf("got %s", got)
	}
}
