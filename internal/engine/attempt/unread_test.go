package attempt

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/thread"
)

func TestUnread(t *testing.T) {
	const plain = `{"$status":"done","exitCode":0}`
	asText := flow.Role{Agent: &flow.AgentRef{Inline: &flow.Agent{Output: flow.OutputText}}}
	for _, tt := range []struct {
		name, meta, text string
		role             flow.Role
		unread           bool
	}{
		{"plain text", plain, "all is well\n", flow.Role{}, false},
		{"an object with a comma too many", plain, `{"$status": "failed",}`, flow.Role{}, true},
		{"front matter that is never closed", plain, "---\n$status: failed\n", flow.Role{}, true},
		{"the same, of a program whose output is a text", plain, `{"$status": "failed",}`, asText, false},
		{"an answer that was read", `{"$status":"done","why":"x"}`, `{"$status": "failed",}`, flow.Role{}, false},
	} {
		err := Unread(&thread.State{Meta: json.RawMessage(tt.meta)}, tt.text, tt.role)
		if (err != nil) != tt.unread {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
