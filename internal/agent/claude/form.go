package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

// A form is what an MCP server asks of a person, in the restricted JSON Schema of the protocol.
type form struct {
	Fields   map[string]field `json:"properties"`
	Required []string         `json:"required"`
}

type field struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Enum        []any           `json:"enum"`
	Default     json.RawMessage `json:"default"`
}

// maxFilled limits how often a person is asked to fill in one form.
const maxFilled = 3

// fill asks a person to fill in a form: an approval whose input is the values of its fields. It
// returns the answer to the server. Requests for anything but values, such as opening a URL, are
// declined.
func (t *conversation) fill(c control) map[string]any {
	declined := map[string]any{"action": "decline"}
	var f form
	if t.req.Ask == nil || c.Mode != "" && c.Mode != "form" || json.Unmarshal(c.Schema, &f) != nil || len(f.Fields) == 0 {
		return declined
	}
	defer t.watchdog.Pause()()
	q := agent.Question{Text: c.Message + "\n\n" + f.String(), Editable: true,
		Action: agent.Action{Type: "form", Tool: "mcp__" + c.Server, Params: f.empty()}}
	for range maxFilled {
		answer, err := t.req.Ask(t.ctx, q)
		switch {
		case t.ctx.Err() != nil:
			return map[string]any{"action": "cancel"}
		case err != nil:
			t.stop(err)
			return map[string]any{"action": "cancel"}
		case !answer.Approved:
			return declined
		}
		given := q.Action.Params
		if answer.Edited != nil {
			given = answer.Edited.Params
		}
		values, err := f.values(given)
		if err == nil {
			return map[string]any{"action": "accept", "content": values}
		}
		q.Text = fmt.Sprintf("What you approved does not fit: %v. Approve it with the values filled in.\n\n%s\n\n%s", err,
			c.Message, f)
	}
	return declined
}

// String lists the fields, one per line.
func (f form) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		one := f.Fields[name]
		line := name + " (" + one.Type
		if slices.Contains(f.Required, name) {
			line += ", required"
		}
		line += ")"
		for _, more := range []string{one.Title, one.Description} {
			if more != "" {
				line += ": " + more
			}
		}
		if len(one.Enum) > 0 {
			line += "; one of " + strings.TrimSpace(string(encode(one.Enum)))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// empty returns the initial values: defaults, and null.
func (f form) empty() json.RawMessage {
	values := map[string]json.RawMessage{}
	for name, one := range f.Fields {
		if values[name] = one.Default; len(one.Default) == 0 {
			values[name] = json.RawMessage("null")
		}
	}
	return bytes.TrimSpace(encode(values))
}

// values returns the values that were filled in. Null means not filled in.
func (f form) values(given json.RawMessage) (map[string]any, error) {
	var values map[string]any
	if err := json.Unmarshal(given, &values); err != nil {
		return nil, err
	}
	for name, v := range values {
		one, known := f.Fields[name]
		switch {
		case v == nil:
			delete(values, name)
		case !known:
			return nil, fmt.Errorf("there is no field %q", name)
		case !one.holds(v):
			return nil, fmt.Errorf("%s is no %s", name, one.Type)
		case len(one.Enum) > 0 && !slices.Contains(one.Enum, v):
			return nil, fmt.Errorf("%s is none of those to choose from", name)
		}
	}
	for _, name := range f.Required {
		if values[name] == nil {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	return values, nil
}

// holds reports whether v has the field's type. Unknown types accept any comparable value.
func (f field) holds(v any) bool {
	switch v := v.(type) {
	case string:
		return f.Type != "number" && f.Type != "integer" && f.Type != "boolean"
	case float64:
		return f.Type == "number" || f.Type == "integer" && v == float64(int64(v))
	case bool:
		return f.Type == "boolean"
	}
	return f.Type == "array" && len(f.Enum) == 0
}
