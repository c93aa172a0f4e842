package view_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

func TestDoings(t *testing.T) {
	r, root := newRecord(t)
	attempt := root.row.ID + ".1"
	zero, seven := 0, 7
	for _, list := range [][]agent.Event{
		{{Kind: agent.EventCommand, ID: "c1", Phase: "started", Text: "make"}, {Kind: agent.EventCommand, Phase: "completed", Text: "the agent itself"}},
		{{Kind: agent.EventCommand, ID: "c1", Phase: "completed", Text: "make", Exit: &zero}, {Kind: agent.EventCommand, ID: "c2", Phase: "failed", Text: "test", Exit: &seven}},
		{{Kind: agent.EventTool, ID: "t1", Phase: "completed", Text: "web"}, {Kind: agent.EventMessage, ID: "m1", Phase: "completed", Text: "done"}},
		{{Kind: agent.EventFile, ID: "f1", Phase: "completed", Files: []agent.File{{Path: "a", Change: "add"}}}, {Kind: agent.EventFile, ID: "f2", Phase: "declined", Files: []agent.File{{Path: "b", Change: "add"}}}},
	} {
		payload, err := json.Marshal(map[string]any{"role": "developer", "items": list})
		if err != nil {
			t.Fatal(err)
		}
		r.commit(store.Batch{Events: []store.Event{
			{TS: r.clock, Type: "attempt.started", Task: root.row.ID, Thread: root.row.ID, Attempt: attempt, Payload: json.RawMessage(`{}`)},
			{TS: r.clock, Type: "agent.item", Task: root.row.ID, Thread: root.row.ID, Attempt: attempt, Payload: payload},
		}})
	}
	r.step(root, thread.Draft{Role: "developer", Text: "built", Detail: &thread.Detail{Agent: "codex", Attempt: attempt, Session: "s"}})
	steps, err := r.book().Steps(t.Context(), root.row, 1, 1)
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	want := &view.Doings{
		Commands: []view.Command{{Command: "make", Exit: &zero, Status: "completed"}, {Command: "test", Exit: &seven, Status: "failed"}},
		Files:    []view.Change{{Path: "a", Change: "add"}}, Tools: []string{"web"},
	}
	if diff := cmp.Diff(want, steps[0].Done); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	one, err := r.book().Step(t.Context(), root.row.Head, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spelled(t, steps[0]), spelled(t, one)); diff != "" {
		t.Errorf("-in its thread +alone\n%s", diff)
	}
	if one.DetailHash == (dag.Hash{}) {
		t.Error("its detail has no hash")
	}
}

func TestItemsOfOtherEvents(t *testing.T) {
	for _, payload := range []string{``, `null`, `[]`, `{"items":7}`, `{`} {
		if _, list := view.Items(store.Event{Payload: json.RawMessage(payload)}); len(list) != 0 {
			t.Errorf("%q has %d items", payload, len(list))
		}
	}
}
