package briefing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
)

// Contract tells the agent what to return. shaped means that the agent makes its model follow the schema.
func Contract(role flow.Role, shaped bool) string {
	schema := schemaOf(role)
	switch {
	case schema == "":
		return ""
	case shaped:
		return "Answer with one JSON object in the required format. Its property " + agent.Body +
			" is the text of\n" +
			"your answer, for people to read. The other properties must fit this JSON Schema:\n\n" + schema + "\n\n" +
			"If you need input from a person, answer with $status: $SUSPEND and a reason instead."
	case role.Plan:
		return "Answer with one JSON object and nothing else. It must fit this JSON Schema:\n\n" + schema
	}
	return "Begin your answer with front matter: a line of three dashes, the fields below in YAML, a line of three\n" +
		"dashes. What follows is your text. A single JSON object with the fields is also accepted. The " +
		"fields must fit\n" +
		"this JSON Schema:\n\n" + schema + "\n\n" +
		"If you need input from a person, answer with $status: $SUSPEND and a field reason instead."
}

// schemaOf returns a role's schema for reading, or "".
func schemaOf(role flow.Role) string {
	var schema bytes.Buffer
	if json.Indent(&schema, role.Frontmatter, "", "  ") != nil {
		return ""
	}
	return schema.String()
}

// Describe tells the agent who it is.
func Describe(name string, role flow.Role) string {
	var b strings.Builder
	line := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, "%s: %s\n", title, text)
		}
	}
	line("You are", name)
	line("Description", role.Description)
	line("Goal", role.Goal)
	line("Capabilities", strings.Join(role.Capabilities, ", "))
	line("Procedure", role.Procedure)
	line("Output", role.Output)
	return b.String()
}
