package gate

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/record/dag"
)

// Types of actions.
const (
	Command     = "command"
	FileChange  = "file_change"
	ToolCall    = "tool_call"
	Permissions = "permissions"
	Form        = "form" // to fill in a tool's form: Params are the values of its fields
	Attempt     = "attempt"
	FlowNode    = "flow_node" // to continue at a gate of the flow
	Merging     = "merge"     // to merge files that agents changed
	Raise       = "limit"     // to exceed a limit
)

// An Action is exactly what an approval is for. Its digest binds the approval.
type Action struct {
	Type    string          `json:"type"`
	Command string          `json:"command,omitempty"`
	Cwd     string          `json:"cwd,omitempty"`
	Diff    string          `json:"diff,omitempty"` // the whole diff, as text
	Tool    string          `json:"tool,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// MarshalJSON writes the action in canonical form. Params that have none, such as those with an integer that JSON
// readers round, become a text, as they were spelled: a person must see what an agent asks for, and a digest must not
// cover anything else. MarshalJSON refuses text that is not UTF-8: written as U+FFFD, two different commands would
// have one digest.
func (a Action) MarshalJSON() ([]byte, error) {
	for _, f := range []struct{ name, text string }{
		{"type", a.Type}, {"command", a.Command}, {"cwd", a.Cwd}, {"diff", a.Diff}, {"tool", a.Tool},
	} {
		if !utf8.ValidString(f.text) {
			return nil, invalid("the action's %s is not UTF-8", f.name)
		}
	}
	type plain Action // without this method
	data, err := dag.Marshal(plain(a))
	if err != nil && len(a.Params) > 0 && utf8.Valid(a.Params) {
		a.Params = dag.AppendString(nil, string(a.Params))
		data, err = dag.Marshal(plain(a))
	}
	if err != nil {
		return nil, fmt.Errorf("write action: %w", err)
	}
	return data, nil
}

// Digest returns the SHA-256 of {"action":…,"thread":…} in canonical form. A nil action is null. It fails if the
// action has no canonical form.
func Digest(thread string, action json.RawMessage) (dag.Hash, error) {
	if !utf8.ValidString(thread) {
		return dag.Hash{}, invalid("the thread's id is not UTF-8")
	}
	if action == nil {
		action = json.RawMessage("null")
	}
	// By itself first, so that text after the action's end cannot pass for a key.
	canonical, err := dag.Canonical(action)
	if err != nil {
		return dag.Hash{}, fmt.Errorf("digest action: %w", err)
	}
	text := append([]byte(`{"action":`), canonical...)
	text = dag.AppendString(append(text, `,"thread":`...), thread)
	return dag.Sum(append(text, '}')), nil
}

// QuestionDigest is Digest for a question.
func QuestionDigest(thread, question string, options []string) (dag.Hash, error) {
	if options == nil {
		options = []string{}
	}
	asked, err := dag.Marshal(map[string]any{"options": options, "question": question})
	if err != nil {
		return dag.Hash{}, fmt.Errorf("digest question: %w", err)
	}
	return Digest(thread, asked)
}
