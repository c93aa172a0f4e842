package claude

import (
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
)

// structured is the tool by which the model gives an answer of a form.
const structured = "StructuredOutput"

// Shapes reports whether a schema can be put in the form of a tool's input.
func (a *Agent) Shapes(schema json.RawMessage) bool {
	_, _, err := forms(schema)
	return err == nil
}

// forms returns the form of an answer by a schema, and that form as the model is asked for it.
func forms(schema json.RawMessage) (form, asked json.RawMessage, err error) {
	if form, err = shape.Strict(schema); err != nil {
		return nil, nil, err
	}
	asked, err = shape.Plain(form)
	return form, asked, err
}

// shape notes in which form the answer is to come.
func (s *site) shape(req agent.Request) error {
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

// text is the answer to a request: what was said, or what was given in the form that was asked for. The model may
// have said something all the same.
func (s *site) text(said string, given json.RawMessage) string {
	if s.form == nil || len(given) == 0 || string(given) == "null" {
		return said
	}
	out, err := shape.Unshape(s.schema, shape.Unplain(s.form, given))
	if err != nil {
		return said
	}
	return string(out)
}

// body is the text in what was given in the form that was asked for.
func (s *site) body(given json.RawMessage) string {
	var fields map[string]json.RawMessage
	var text string
	json.Unmarshal(shape.Unplain(s.form, given), &fields) // what it does not have is empty
	json.Unmarshal(fields[agent.Body], &text)
	return text
}
