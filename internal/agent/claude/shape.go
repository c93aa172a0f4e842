package claude

import (
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
)

// structured is the tool with which the model gives a structured answer.
const structured = "StructuredOutput"

// Shapes reports whether a schema can be used as the schema of a tool's input.
func (a *Agent) Shapes(schema json.RawMessage) bool {
	_, _, err := forms(schema)
	return err == nil
}

// forms returns the form of an answer with a schema, and that form as sent to the model.
func forms(schema json.RawMessage) (form, asked json.RawMessage, err error) {
	if form, err = shape.Strict(schema); err != nil {
		return nil, nil, err
	}
	asked, err = shape.Plain(form)
	return form, asked, err
}

// shape sets the form of the answer.
func (s *setup) shape(req agent.Request) error {
	if !req.Shaped {
		return nil
	}
	var err error
	if s.form, s.asked, err = forms(req.Schema); err != nil {
		return fmt.Errorf("run Claude Code: %w", err)
	}
	s.schema = req.Schema
	return nil
}

// text returns the answer to a request: the structured one if there is one, otherwise the text.
// The model may have written text as well.
func (s *setup) text(said string, given json.RawMessage) string {
	if s.form == nil || len(given) == 0 || string(given) == "null" {
		return said
	}
	out, err := shape.Unshape(s.schema, shape.Unplain(s.form, given))
	if err != nil {
		return said
	}
	return string(out)
}

// body returns the text in a structured answer.
func (s *setup) body(given json.RawMessage) string {
	var fields map[string]json.RawMessage
	var text string
	json.Unmarshal(shape.Unplain(s.form, given), &fields) // missing fields stay empty
	json.Unmarshal(fields[agent.Body], &text)
	return text
}
