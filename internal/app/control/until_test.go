package control

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// mend is a flow whose role goes on until a command succeeds.
const mend = `
version: 1
name: test
roles:
  fix: {description: fixes, until: [go, test]}
graph:
  $START: {new: {role: fix, prompt: "{{ prompt }}"}}
  fix: {done: {role: $END, prompt: "fixed: {{ _body }}"}}
`

const command = "__until_fix__"

// exits returns a program that exits with the given codes, and prints each time which it is.
func exits(codes ...int) scripted {
	return func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		code := codes[min(req.Visit, len(codes)-1)]
		status := flow.Met
		if code != 0 {
			status = flow.Unmet
		}
		return agent.Result{Output: fmt.Appendf(nil, "exit %d", code), Plain: true, Exit: &code, Status: status}, nil
	}
}

// mendAgents fix at the third try.
func mendAgents() map[string]scripted {
	return map[string]scripted{"fix": say("---\n$status: done\n---\nOne.", "---\n$status: done\n---\nTwo.",
		"---\n$status: done\n---\nThree."), command: exits(1, 2, 0)}
}

func TestUntil(t *testing.T) {
	h := newHouse(t, mendAgents())
	row := h.run(mend)
	wantStatus(t, row, store.Completed, "")
	want := []string{"fix", command, "fix", command, "fix", command, "__end__"}
	if diff := cmp.Diff(want, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	result, err := h.controller().record.Result(t.Context(), row)
	if err != nil || result.Text != "fixed: Three." || result.Step.Role != "fix" {
		t.Errorf("the result is %q of %+v: %v", result.Text, result.Step, err)
	}
}

// TestUntilNothingChanges: the same failure on the same files stops the role. A person's answer lets it go on.
func TestUntilNothingChanges(t *testing.T) {
	h := newHouse(t, map[string]scripted{"fix": say(status("done")), command: exits(1, 1, 0)})
	row := h.run(mend)
	wantStatus(t, row, store.Blocked, store.ReasonInput)
	if h.runs["fix"] != 2 || h.runs[command] != 2 {
		t.Errorf("runs: %v", h.runs)
	}
	row = h.drive(h.controller(), rootID, Resume{Prompt: "look at the log"})
	wantStatus(t, row, store.Completed, "")
}

// TestUntilIsLimited: each try is a round, the command that ends it is not.
func TestUntilIsLimited(t *testing.T) {
	agents := mendAgents()
	agents[command] = exits(1, 2, 3, 4)
	for _, limit := range []int{1, 3} {
		h := newHouse(t, agents)
		row := h.run(strings.Replace(mend, "roles:", fmt.Sprintf("limits: {maxRounds: %d}\nroles:", limit), 1))
		wantStatus(t, row, store.Blocked, store.ReasonLimit)
		if h.runs["fix"] != limit || h.runs[command] != limit {
			t.Errorf("%d rounds: %v", limit, h.runs)
		}
	}
}

// TestUntilSurvivesFaults is TestFaults for a role that goes on.
func TestUntilSurvivesFaults(t *testing.T) {
	t.Parallel()
	clean := newHouse(t, mendAgents())
	want := clean.digest(clean.run(mend)).String()
	for _, when := range []mem.When{mem.Before, mem.After} {
		for n := 1; faultAt(t, mend, mendAgents, mem.OpCommit, when, n, want); n++ {
		}
	}
}
