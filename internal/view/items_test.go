package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

func TestDoings(t *testing.T) {
	r, root := newRecord(t)
	attempt := root.row.ID + ".1"
	zero, seven := 0, 7
	r.commit(store.Batch{Events: []store.Event{{Type: "attempt.started", Task: root.row.ID, Thread: root.row.ID,
		Attempt: attempt}}})
	for _, list := range [][]agent.Event{
		{{Kind: agent.EventCommand, ID: "c1", Phase: "started", Text: "make"},
			{Kind: agent.EventCommand, Phase: "completed", Text: "the agent itself"}},
		{{Kind: agent.EventCommand, ID: "c1", Phase: "completed", Text: "make", Exit: &zero},
			{Kind: agent.EventCommand, ID: "c2", Phase: "failed", Text: "test", Exit: &seven}},
		{{Kind: agent.EventTool, ID: "t1", Phase: "completed", Text: "web"},
			{Kind: agent.EventMessage, ID: "m1", Phase: "completed", Text: "done"}},
		{{Kind: agent.EventFile, ID: "f1", Phase: "completed", Files: []agent.File{{Path: "a", Change: "add"}}},
			{Kind: agent.EventFile, ID: "f2", Phase: "declined", Files: []agent.File{{Path: "b", Change: "add"}}}},
	} {
		payload, err := json.Marshal(map[string]any{"role": "developer", "items": list})
		if err != nil {
			t.Fatal(err)
		}
		r.commit(store.Batch{Events: []store.Event{
			{TS: r.clock, Type: "attempt.usage", Task: root.row.ID, Thread: root.row.ID, Attempt: attempt,
				Payload: json.RawMessage(`{}`)},
			{TS: r.clock, Type: "agent.item", Task: root.row.ID, Thread: root.row.ID, Attempt: attempt, Payload: payload},
		}})
	}
	r.step(root, thread.Draft{Role: "developer", Text: "built",
		Detail: &thread.Detail{Agent: "codex", Attempt: attempt, Session: "s"}})
	steps, err := r.book().Steps(t.Context(), root.row, 1, 1)
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	want := &view.Activity{
		Commands: []view.Command{{Command: "make", Exit: &zero, Status: "completed"},
			{Command: "test", Exit: &seven, Status: "failed"}},
		Files: []view.Change{{Path: "a", Change: "add"}}, Tools: []string{"web"},
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

// A counted store counts the events that are read.
type counted struct {
	store.Store
	events int
}

func (c *counted) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	events, err := c.Store.Events(ctx, after, f)
	c.events += len(events)
	return events, err
}

// TestDoingsOfWindow checks that the cost of the newest steps of a long thread does not
// depend on the length of the thread.
func TestDoingsOfWindow(t *testing.T) {
	r, root := newRecord(t)
	item := func(attempt string, n int) store.Event {
		payload := fmt.Sprintf(`{"items":[{"kind":"command","id":"c%d","phase":"completed","text":"run %[1]d"}]}`, n)
		return store.Event{Type: "agent.item", Task: root.row.ID, Thread: root.row.ID, Attempt: attempt,
			Payload: json.RawMessage(payload)}
	}
	for n, count := range []int{3000, 2500, 10} {
		attempt := fmt.Sprintf("%s.%d", root.row.ID, n+1)
		events := []store.Event{{Type: "attempt.started", Task: root.row.ID, Thread: root.row.ID, Attempt: attempt}}
		for i := range count {
			events = append(events, item(attempt, i))
		}
		r.commit(store.Batch{Events: events})
		r.step(root, thread.Draft{Role: "developer", Text: "built",
			Detail: &thread.Detail{Agent: "codex", Attempt: attempt, Session: "s"}})
	}
	book, c := r.book(), &counted{Store: r.store}
	book.Store = c
	for _, tt := range []struct{ from, n, commands, most int }{{3, 1, 10, 1000}, {2, 2, 2510, 3000}, {1, 1, 3000, 6000}} {
		c.events = 0
		steps, err := book.Steps(t.Context(), root.row, tt.from, tt.n)
		if err != nil || len(steps) != tt.n {
			t.Fatalf("%d steps, %v", len(steps), err)
		}
		got := 0
		for _, s := range steps {
			for i, cmd := range s.Done.Commands {
				if want := fmt.Sprintf("run %d", i); cmd.Command != want {
					t.Fatalf("from %d: command %d of step %d is %q, want %q", tt.from, i, s.N, cmd.Command, want)
				}
			}
			got += len(s.Done.Commands)
		}
		if got != tt.commands || c.events > tt.most {
			t.Errorf("from %d: %d commands of %d events, want %d of at most %d", tt.from, got, c.events, tt.commands, tt.most)
		}
	}
}

// TestLooksAtOnce checks that pages that concurrently look whether a process drives a
// task do not mistake each other for a driver.
func TestLooksAtOnce(t *testing.T) {
	r, root := newRecord(t)
	book := r.book()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if book.Driven(t.Context(), root.row.ID) {
					t.Error("somebody drives it")
					return
				}
			}
		})
	}
	all.Wait()
	lease, err := r.store.Acquire(t.Context(), root.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	if !book.Driven(t.Context(), root.row.ID) {
		t.Error("nobody drives it")
	}
}

func TestItemsOfOtherEvents(t *testing.T) {
	for _, payload := range []string{``, `null`, `[]`, `{"items":7}`, `{`} {
		if _, list := view.Items(store.Event{Payload: json.RawMessage(payload)}); len(list) != 0 {
			t.Errorf("%q has %d items", payload, len(list))
		}
	}
}
