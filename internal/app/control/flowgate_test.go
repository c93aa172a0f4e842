package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// gated asks twice: whether to continue, and which port.
const gated = `
version: 1
name: test
roles: {plan: {description: plans}, work: {description: works}}
gates:
  go-ahead: {kind: approval, question: "Do {{ what }}?", timeout: 1h, onTimeout: rejected}
  port: {kind: input, question: "Which port?"}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {ready: {role: go-ahead}}
  go-ahead:
    approved: {role: port}
    rejected: {role: $END, code: 1, prompt: "not {{ what }}: {{ answer }}"}
  port: {answered: {role: work, prompt: "{{ what }} on {{ answer }}"}}
  work: {done: {role: $END, prompt: over}}
`

func gatedAgents() map[string]scripted {
	return map[string]scripted{"plan": say(`{"$status":"ready","what":"the thing"}`), "work": say(status("done"))}
}

func TestFlowGates(t *testing.T) {
	var said []string
	agents := gatedAgents()
	agents["work"] = heard(&said, agents["work"])
	h := newHouse(t, agents)
	row := h.run(gated)
	wantStatus(t, row, store.Blocked, "gate")
	g := h.gates(row.ID, 1)[0]
	if g.Question != "Do the thing?" || g.Kind != store.GateApproval || g.Source != store.SourceFlow ||
		g.ExpiresAt == 0 {
		t.Fatalf("gate: %+v", g)
	}
	// Nothing changes until someone answers.
	before := h.events(row.ID, "thread.blocked")
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
	if h.events(row.ID, "thread.blocked") != before || len(h.gates(row.ID, 1)) != 1 {
		t.Error("a resume without an answer asks again")
	}
	h.answer(g.ID, true)
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Blocked, "gate")
	open, err := h.controller().Gates().Gates(t.Context(), store.GateFilter{Thread: row.ID, State: store.GateOpen})
	if err != nil || len(open) != 1 || open[0].Kind != store.GateInput {
		t.Fatalf("open gates: %+v: %v", open, err)
	}
	if _, err := h.controller().Gates().Answer(t.Context(), open[0].ID,
		gate.Answer{Text: "8080", By: "ann", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"plan", "go-ahead", "port", "work", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if len(said) != 1 || !strings.Contains(said[0], "the thing on 8080") {
		t.Errorf("prompts: %q", said)
	}
	step, meta := h.joinOf(row, "port")
	if meta["$status"] != "answered" || meta["answer"] != "8080" {
		t.Errorf("the answer's step: %v", meta)
	}
	detail, err := h.controller().Reader().Detail(t.Context(), step.State.Detail)
	if err != nil || detail.By == nil || *detail.By != "ann" {
		t.Errorf("who answered is not in the record: %+v: %v", detail, err)
	}
}

func TestFlowGatesRefusedAndLate(t *testing.T) {
	for _, late := range []bool{false, true} {
		h := newHouse(t, gatedAgents())
		now := time.UnixMilli(1_700_000_000_000)
		h.clock = func() time.Time { return now }
		row := h.run(gated)
		wantStatus(t, row, store.Blocked, "gate")
		if now = now.Add(2 * time.Hour); !late {
			now = now.Add(-2 * time.Hour)
			h.answer(h.gates(row.ID, 1)[0].ID, false)
		}
		row = h.drive(h.controller(), row.ID, Resume{})
		wantStatus(t, row, store.Failed, "")
		if diff := cmp.Diff([]string{"plan", "go-ahead", "__end__"}, h.roles(row)); diff != "" {
			t.Errorf("late %v: roles: -want +got\n%s", late, diff)
		}
	}
}

// A gate in one path leaves the others at work; a path that waits continues once it is
// answered.
func TestGateInAPath(t *testing.T) {
	yaml := replaceOnce(survey, "  db: {done: {role: seen}}\n", "  db: {done: {role: sure}}\n"+
		"  sure: {approved: {role: seen}, rejected: {role: seen}}\n")
	yaml = replaceOnce(yaml, "joins:\n", "gates: {sure: {question: sure?}}\njoins:\n")
	yaml = replaceOnce(yaml, "{{ paths.b.meta.n }} ", "")
	agents := surveyAgents()
	h := newHouse(t, agents)
	row := h.run(yaml)
	wantStatus(t, row, store.Blocked, "child")
	for id, want := range map[string]store.Status{"a": store.Completed, "b": store.Blocked, "c": store.Completed} {
		if got := h.below(row)[id].Status; got != want {
			t.Errorf("path %s is %s, want %s", id, got, want)
		}
	}
	b := h.below(row)["b"]
	h.answer(h.gates(b.ID, 1)[0].ID, true)
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")

	// The same, answered while the process waits.
	h = newHouse(t, surveyAgents())
	c := h.controller()
	row = h.begin(c, yaml)
	go func() {
		for {
			rows, err := h.store.Gates(context.Background(), store.GateFilter{Task: row.ID, State: store.GateOpen})
			if err == nil && len(rows) == 1 {
				h.controller().Gates().Answer(context.Background(), rows[0].ID,
					gate.Answer{Approve: true, By: "ann", Via: store.ViaCLI})
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	wantStatus(t, h.drive(c, row.ID, Resume{Wait: true}), store.Completed, "")
}
