package control

import (
	"strings"
	"testing"

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

// crashStride is how many commits apart the crashes are.
var crashStride = 10 / soak.Tries(10, 1)

// A controller that dies at any commit, in any of its states, reaches the same end: what is
// committed is not done again.
func TestPlanSurvivesCrashes(t *testing.T) {
	t.Parallel()
	calm := team(t)
	c := calm.controller()
	want := calm.digest(calm.through(c, calm.orchestrate(c).ID))
	states := map[string]bool{}
	for _, answered := range []bool{false, true} {
		for n := 0; ; n += crashStride {
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
			end := h.through(h.controller(), began.ID)
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
	if crashStride > 1 {
		return // not every state is reached then
	}
	for _, s := range []string{"init", "planning", "dispatching", "monitoring", "blocked", "joining", "done"} {
		if !states[s] {
			t.Errorf("the controller never died when it was %s", s)
		}
	}
}
