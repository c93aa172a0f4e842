package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
)

// suspended is the status of an answer that asks a person, with any schema.
const suspended = "$SUSPEND"

// A form is the required form of an answer: one JSON object with a role's schema, and its text as
// another property.
type form struct {
	schema json.RawMessage // the role's
	strict json.RawMessage // as sent to the model
	fits   *jsonschema.Schema
}

// formOf returns the form for a role's schema, or an error if the schema cannot be used.
func formOf(schema json.RawMessage) (*form, error) {
	strict, err := shape.Strict(schema)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("shape an answer: %w", err)
	}
	const place = "mem:///answer"
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // a schema cannot refer to others
	if err := c.AddResource(place, doc); err != nil {
		return nil, fmt.Errorf("shape an answer: %w", err)
	}
	fits, err := c.Compile(place)
	if err != nil {
		return nil, fmt.Errorf("shape an answer: %w", err)
	}
	return &form{schema, strict, fits}, nil
}

// wanted describes the required form in a prompt.
func (f *form) wanted() string {
	return "\n\nYour answer is one JSON object, with nothing around it, that fits this JSON Schema:\n\n" +
		string(f.strict) + "\n"
}

// again asks for the answer in the required form.
func (f *form) again(wrong error) string {
	return fmt.Sprintf("That is not an answer in the form that it must have: %v. Answer again, with one JSON object "+
		"and nothing around it, that fits this JSON Schema:\n\n%s\n", wrong, f.strict)
}

var fence = regexp.MustCompile("(?s)^```[a-z]*\n(.*)\n```$")

// withoutFence removes the code fence that models like to add.
func withoutFence(answer []byte) []byte {
	answer = bytes.TrimSpace(answer)
	if m := fence.FindSubmatch(answer); m != nil {
		return m[1]
	}
	return answer
}

// front returns an answer as front matter and text. The error says what is wrong with it.
func (f *form) front(answer []byte) (string, error) {
	out, err := shape.Unshape(f.schema, withoutFence(answer))
	if err != nil {
		return string(answer), err
	}
	meta, _, ok := strings.Cut(strings.TrimPrefix(string(out), "---\n"), "\n---\n\n")
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(meta))
	if o, is := v.(map[string]any); !ok || err != nil || !is {
		return string(answer), errors.New("it is not one JSON object")
	} else if o["$status"] == suspended {
		return string(out), nil
	}
	if err = f.fits.Validate(v); err != nil {
		_, what, _ := strings.Cut(err.Error(), "\n")
		err = errors.New(what)
	}
	return string(out), err
}

// body returns the text of an answer, for people; f may be nil.
func (f *form) body(answer []byte) string {
	var o map[string]json.RawMessage
	var text string
	if f != nil && json.Unmarshal(withoutFence(answer), &o) == nil && json.Unmarshal(o[agent.Body], &text) == nil {
		return text
	}
	return string(answer)
}
