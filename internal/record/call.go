package record

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// callStatus is the $status of a role whose called thread ended with a status, if the role's schema does not
// accept the meta that thread returned.
var callStatus = map[store.Status]string{
	store.Completed: flow.CallDone, store.Failed: flow.CallFailed, store.Cancelled: flow.CallCancelled,
}

// Returned returns the meta and the $status of the step of a role that called another flow. It is the meta of
// the called thread's last routed step, nil for none, if the role's schema accepts it. Otherwise it is the meta
// of the thread's end, with a $status of the call. A cancelled thread returns nothing.
func Returned(def *flow.Definition, role string, ended store.Status, end json.RawMessage,
	last *thread.State) (meta json.RawMessage, status string, err error) {
	var fields map[string]any
	if last != nil && ended != store.Cancelled && def.Roles[role].Frontmatter != nil &&
		json.Unmarshal(last.Meta, &fields) == nil {
		if own, ok := fields["$status"].(string); ok && def.Validate(role, fields) == nil {
			return last.Meta, own, nil
		}
	}
	fields = nil
	if err := json.Unmarshal(end, &fields); err != nil {
		return nil, "", err
	}
	status = callStatus[ended]
	fields["$status"] = status
	meta, err = dag.Marshal(fields)
	return meta, status, err
}
