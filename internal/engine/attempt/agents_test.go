package attempt

import (
	"math"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	flowparse "github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestWorkerOfAnAction: the agent for the role worker also does the work of an action, which replaces
// that role under another name, and of each kind of attempt at it.
func TestWorkerOfAnAction(t *testing.T) {
	h := newHouse(t, "read", nil)
	h.cfg.Agents.Defined["other"] = flow.Agent{Kind: "do"}
	worker, ok := flowparse.BuiltIn(flow.WorkerFlow)
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

// TestUsageThatCannotBeRight checks that whatever numbers an agent reports, the step that has them can be kept.
func TestUsageThatCannotBeRight(t *testing.T) {
	for _, n := range []int64{-1, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		u := agent.Usage{InputTokens: n, CachedInputTokens: n, OutputTokens: n, ReasoningTokens: n}
		d := thread.NewDetail(1, 2)
		for range 8 {
			d.Usage = d.Usage.Add(store.Usage(Agents{Prices: flow.Prices{"m": {Output: 75}}}.priced("m", u)))
		}
		if _, err := thread.NewNode(dag.TypeDetail, d); err != nil {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
}

// TestWorkerOfARole: a role's model and the like replace its agent's; a kind that has none is refused.
func TestWorkerOfARole(t *testing.T) {
	h := newHouse(t, "read", nil)
	agents := h.cfg.Agents
	var made flow.Agent
	agents.Make = func(_ string, def flow.Agent, _ AgentOptions) (agent.Agent, error) {
		made = def
		return agent.Refusing(nil), nil
	}
	agents.Defined = map[string]flow.Agent{"c": {Kind: "claude", Model: "m", Effort: "low", MCP: []string{"a"}},
		"p": {Kind: "command", Command: []string{"x"}}}
	as := func(name string, role flow.Role) (flow.Agent, error) {
		role.Agent = &flow.AgentRef{Name: name}
		_, err := agents.Worker(h.row, "r", role)
		return made, err
	}
	got, err := as("c", flow.Role{Model: "o", MCP: []string{"b"}})
	if err != nil || got.Model != "o" || got.Effort != "low" || got.MCP[0] != "b" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := as("c", flow.Role{}); err != nil || got.Model != "m" || got.MCP[0] != "a" {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := as("p", flow.Role{Effort: "high"}); err == nil ||
		err.Error() != "role r: agent p: agents of kind command have no effort" {
		t.Error(err)
	}
}
