package attempt

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/thread"
)

// Unread returns why the text of a step, which an earlier version took as the plain output of a program, would not be
// taken so today: it is an answer that cannot be read. It returns nil for any other step.
func Unread(s *thread.State, text string, role flow.Role) error {
	var meta map[string]any
	if err := json.Unmarshal(s.Meta, &meta); err != nil {
		return nil
	}
	status, said := meta["$status"].(string)
	_, exited := meta["exitCode"]
	isText := role.Agent != nil && role.Agent.Inline != nil && role.Agent.Inline.Output == flow.OutputText
	if !said || !exited || len(meta) != 2 || isText || len(text) >= headBytes {
		return nil // it was read, need not be, or was cut
	}
	_, err := parse(agent.Result{Output: []byte(text), Plain: true, Status: status}, 0, role, false)
	return err
}
