package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

func TestBadPlans(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = act(fmt.Sprintf("a%d", i), "")
	}
	for name, tt := range map[string]struct{ plan, want string }{
		"prose":   {"I would first read the code.", "JSON"},
		"neither": {`{"sessionGoal": "x"}`, "neither actions"},
		"two": {`{"actions": [` + act("a", "") + `], "sessionGoal": "x", "finish": {"summary": "x"}}`,
			"finish"},
		"unknown key":        {actions(`, "budget": 3`, act("a", "")), "budget"},
		"unknown action key": {actions("", act("a", `, "model": "x"`)), "model"},
		"no actions":         {actions(""), "minItems"},
		"10,000 actions":     {actions("", many...), "at most 32"},
		"a cycle": {actions("", act("a", `, "dependsOn": ["b"]`), act("b", `, "dependsOn": ["a"]`)),
			"a → b → a"},
		"itself":             {actions("", act("a", `, "dependsOn": ["a"]`)), "depends on itself"},
		"unknown dependency": {actions("", act("a", `, "dependsOn": ["z"]`)), `no action "z"`},
		"unknown agent":      {actions("", act("a", `, "agent": "nobody"`)), "nobody"},
		"a name that climbs": {actions("", act("../../etc", "")), "/actions/0/id"},
		"a name with a line": {actions("", `{"id": "a\nb", "prompt": "x"}`), "/actions/0/id"},
		"a role's name":      {actions("", act("planner", "")), "node of the flow"},
		"one id twice":       {actions("", act("a", ""), act("a", "")), "is the id of"},
		"an unknown agent of an id that is there twice": {actions("", act("a", ""), act("a", `, "agent": "nobody"`)),
			"/actions/1/agent"},
		"full access":     {actions("", act("a", `, "access": "full"`)), "access"},
		"main is spawned": {actions(`, "join": {"mainPathId": "a"}`, act("a", "")), "spawned"},
		"main is nobody":  {actions(`, "join": {"mainPathId": "z"}`, act("a", "")), `no action "z"`},
		"threshold too high": {actions(`, "join": {"joinStrategy": "SUCCESS_COUNT_THRESHOLD", "threshold": 2}`,
			act("a", "")), "cannot succeed"},
		"an empty prompt": {actions("", `{"id": "a", "prompt": " "}`), "empty"},
		"a bad schema":    {actions("", act("a", `, "outputSchema": {"type": "no type"}`)), "outputSchema"},
		"no such artifact": {actions("", act("a", `, "inputs": ["artifact:`+strings.Repeat("0", 64)+`"]`)),
			"no artifact"},
		"NaN": {`{"sessionGoal": "x", "actions": [{"id": "a", "prompt": "x", "timeout": -1}]}`, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"planner": plans(tt.plan)})
			c := h.controller()
			started := h.orchestrate(c)
			row := h.drive(c, started.ID, Resume{})
			wantStatus(t, row, store.Blocked, "attempts")
			if row.Head != started.Head || h.runs["planner"] != 3 || len(h.below(row)) != 0 {
				t.Errorf("the planner ran %d times, head %s, below %v", h.runs["planner"], row.Head.Short(),
					h.below(row))
			}
			if !strings.Contains(row.Reason.Message, tt.want) {
				t.Errorf("the planner is told %q, want %q in it", row.Reason.Message, tt.want)
			}
		})
	}
}

func TestPlanLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		limits flow.Limits
		want   string
	}{
		"actions of the task": {flow.Limits{MaxTaskActions: 1}, "actions"},
		"budget":              {flow.Limits{MaxTokens: 5}, "tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"planner": plans(actions("", act("a", ""), act("b", "")), finish)})
			h.limits = tt.limits
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			wantStatus(t, row, store.Blocked, "limit")
			if row.Reason.Limit != tt.want || len(h.below(row)) != 0 {
				t.Errorf("reason %+v, below %v", row.Reason, h.below(row))
			}
			// A person may allow it as much again, once for each time it asks.
			h.agents["a"], h.agents["b"] = output("success", "a"), output("success", "b")
			for range 6 {
				if row.Ended() {
					break
				}
				g := h.theGate(c, row)
				if g.Source != store.SourceLimit {
					t.Fatalf("the gate: %+v", g)
				}
				if _, err := c.Gates().Answer(t.Context(), g.ID,
					gate.Answer{Approve: true, By: "me", Via: store.ViaCLI}); err != nil {
					t.Fatal(err)
				}
				row = h.drive(c, row.ID, Resume{})
			}
			wantStatus(t, row, store.Completed, "")
		})
	}
}
