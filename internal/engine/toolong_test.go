package engine

import (
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// TestPromptTooLong checks that a prompt that does not fit into a node, since an agent said so much, blocks the
// thread and is no fault of the record.
func TestPromptTooLong(t *testing.T) {
	flow := strings.Replace(housetest.TwoSteps("read"), `prompt: "on"`, `prompt: "{{ _body }}{{ _body }}"`, 1)
	long := strings.Repeat("x", dag.MaxBytes/2-100)
	s, engine, row := setUpFlow(t, flow, housetest.Say("---\n$status: done\n---\n"+long))
	e := engine()
	after, err := e.Step(t.Context(), row.ID, row.Head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(t.Context(), row.ID, after.Head); err != nil {
		t.Fatal(err)
	}
	row, err = s.Thread(t.Context(), row.ID)
	if err != nil || row.Status != store.Blocked || row.Reason.Kind != store.ReasonAttempts ||
		!strings.Contains(row.Reason.Message, "too long") {
		t.Errorf("%s %+v, %v", row.Status, row.Reason, err)
	}
}
