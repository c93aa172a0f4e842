package attempt

import (
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// TestWorkerOfAnAction: the agent for the role worker also does the work of an action, which replaces
// that role under another name, and of each kind of attempt at it.
func TestWorkerOfAnAction(t *testing.T) {
	h := newHouse(t, "read", nil)
	h.cfg.Agents.Defined["other"] = flow.Agent{Kind: "do"}
	worker, ok := flow.BuiltIn(flow.WorkerFlow)
	if !ok {
		t.Fatal("there is no flow of workers")
	}
	plan := &flow.Plan{Actions: []flow.Action{{ID: "look", Prompt: "look"}}}
	c := &Thread{}
	c.Row = store.Thread{ID: h.row.ID, Options: []byte(`{"roles":{"worker":"other"}}`)}
	c.Def = worker.SpawnedAction(plan, "look")
	if w, err := h.Worker(c, "look"); err != nil || w.Name != "other" {
		t.Errorf("the action is done by %q, %v; want other", w.Name, err)
	}
}
