package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
)

// team is a house whose planner starts a forked main path, a spawned agent that asks, and one
// that depends on both, and then plans once more.
func team(t *testing.T) *house {
	return newHouse(t, map[string]scripted{
		"planner": plans(
			actions(`, "join": {"mainPathId": "main"}`, act("main", `, "mode": "fork"`), act("asks", ""),
				act("last", `, "dependsOn": ["main", "asks"]`)),
			actions("", act("again", "")), finish),
		"main": output("success", "main"),
		"asks": say(`{"status": "blocked", "summary": "I ask.", "questions": ["Which?"]}`,
			`{"status": "success", "summary": "asked"}`),
		"last":  output("success", "last"),
		"again": output("success", "again"),
	})
}

// through drives a task to its end and answers its questions.
func (h *house) through(c *Controller, id string) store.Thread {
	h.t.Helper()
	for range 10 {
		row := h.drive(c, id, Resume{})
		if row.Ended() {
			return row
		}
		h.answers(c, row, "this one")
	}
	h.t.Fatal("the task comes to no end")
	return store.Thread{}
}

// crashStride returns how many commits apart the crashes are.
func crashStride(t *testing.T) int { return 10 / soak.Rounds(t, soak.Tries(10, 1)) }

// A controller that dies at any commit, in any of its states, reaches the same end: what is
// committed is not done again.
func TestPlanSurvivesCrashes(t *testing.T) {
	t.Parallel()
	calm := team(t)
	c := calm.controller()
	want := calm.digest(calm.through(c, calm.orchestrate(c).ID))
	states := map[string]bool{}
	for _, answered := range []bool{false, true} {
		for n := 0; ; n += crashStride(t) {
			h := team(t)
			began := h.orchestrate(h.controller())
			if answered {
				row := h.drive(h.controller(), began.ID, Resume{})
				wantStatus(t, row, store.Blocked, "child")
				h.answers(h.controller(), row, "this one")
			}
			sick := h.controller()
			sick.cfg.Store = failingAfter(h.store, n)
			_, err := New(sick.cfg).Drive(t.Context(), began.ID, Resume{})
			s := h.states(began)
			states[s[len(s)-1]] = true
			h.extends()
			end := h.through(h.controller(), began.ID)
			h.extends()
			wantStatus(t, end, store.Completed, "")
			if got := h.digest(end); got != want {
				t.Errorf("after %d commits: digest %s, want %s", n, got.Short(), want.Short())
			}
			for role, runs := range h.runs {
				most := 2 // it may have run when the controller died
				if role == "asks" || role == "planner" {
					most = 4
				}
				if !strings.Contains(role, "@") && runs > most {
					t.Errorf("after %d commits: %s ran %d times", n, role, runs)
				}
			}
			if err == nil { // it got as far as it can
				break
			}
			if t.Failed() || n > 200 {
				t.Fatalf("stopped after %d commits: %v", n, err)
			}
		}
	}
	if crashStride(t) > 1 {
		return // not every state is reached then
	}
	for _, s := range []string{"init", "planning", "dispatching", "monitoring", "blocked", "joining", "done"} {
		if !states[s] {
			t.Errorf("the controller never died when it was %s", s)
		}
	}
}

func TestFailedActions(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("good", ""), act("bad", ""), act("after", `, "dependsOn": ["bad"]`)), finish),
		"good":    output("success", "fine"),
		"bad":     output("failed", "no way"),
		"after":   output("success", "then"),
	})
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "join")
	if got := h.below(row); got["good"].Status != store.Completed || got["bad"].Status != store.Failed ||
		got["after"].Status != store.Cancelled {
		t.Errorf("good %s, bad %s, after %s", got["good"].Status, got["bad"].Status, got["after"].Status)
	}
	h.agents["bad"] = output("success", "now")
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.runs["good"] != 1 || h.runs["bad"] != 2 || h.runs["after"] != 1 {
		t.Errorf("runs: %v", h.runs)
	}
}

// An action that is out of attempts has failed, spawned or forked alike: the planner hears why if it wants to, what
// depends on it is cancelled, and the join's rule counts it.
func TestFailedJoinPlansAgain(t *testing.T) {
	refuses := func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "I will not"}
	}
	for name, tt := range map[string]struct {
		bad           scripted
		mode, failure string
		said          string
	}{
		"spawned, says so": {output("failed", "no way"), "spawn", "failed", "no way"},
		"forked, says so":  {output("failed", "no way"), "fork", "failed", "no way"},
		"spawned, refuses": {refuses, "spawn", "refused", ""},
		"forked, refuses":  {refuses, "fork", "refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var told string
			h := newHouse(t, map[string]scripted{"bad": tt.bad, "good": output("success", "fine")})
			mode := fmt.Sprintf(`, "mode": %q`, tt.mode)
			h.agents["planner"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				told = req.Prompt
				return plans(actions(`, "onFailed": "plan"`, act("bad", mode), act("after", `, "dependsOn": ["bad"]`)),
					actions(`, "join": {"joinStrategy": "SUCCESS_COUNT_THRESHOLD", "threshold": 1, "losers": "wait"}`,
						act("good", ""), strings.Replace(act("bad", mode), "bad", "bad-2", 1)), finish)(ctx, req, emit)
			}
			h.agents["bad-2"] = tt.bad
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			wantStatus(t, row, store.Completed, "")
			if got := h.below(row); got["bad"].Status != store.Failed || got["bad-2"].Status != store.Failed ||
				got["after"].Status != store.Cancelled || h.runs["planner"] != 3 {
				t.Errorf("bad %s, bad-2 %s, after %s, runs: %v", got["bad"].Status, got["bad-2"].Status,
					got["after"].Status, h.runs)
			}
			i := slices.IndexFunc(toldOf(t, told), func(a map[string]any) bool { return a["id"] == "bad-2" })
			if i < 0 {
				t.Fatalf("the planner is told:\n%s", told)
			}
			if bad := toldOf(t, told)[i]; bad["failure"] != tt.failure || bad["summary"] != tt.said || bad["agent"] == nil {
				t.Errorf("the planner is told %v", bad)
			}
		})
	}
}
