package control

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// alone is an agent that must work alone.
func alone(t *testing.T, inside *atomic.Int32, a scripted) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if inside.Add(1) > 1 {
			t.Errorf("%s is at work beside another", req.Role)
		}
		time.Sleep(time.Minute)
		inside.Add(-1)
		return a(ctx, req, emit)
	}
}

// An agent that waits for a person gives up its slot, and waits for one again before it
// continues.
func TestWaitingForAPersonTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := surveyAgents()
		var inside atomic.Int32
		for _, role := range []string{"api", "db", "ui"} {
			works := agents[role]
			agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				ask := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
					error) {
					ans, err := req.Ask(ctx,
						agent.Question{Text: "may I", Action: agent.Action{Type: "command", Command: "make " +
							req.Role}})
					if err != nil || !ans.Approved {
						t.Errorf("%s was told %+v: %v", req.Role, ans, err)
					}
					return alone(t, &inside, works)(ctx, req, emit)
				}
				return alone(t, &inside, ask)(ctx, req, emit)
			}
		}
		agents["more"] = alone(t, &inside, agents["more"])
		h := newHouse(t, agents)
		c := h.controller()
		row := h.begin(c, limited(survey, "maxConcurrent: 1"))
		ended := make(chan store.Thread, 1)
		go func() {
			row, err := c.Drive(context.Background(), row.ID, Resume{Wait: true})
			if err != nil {
				t.Error(err)
			}
			ended <- row
		}()
		time.Sleep(time.Hour) // nothing continues without an answer
		open, err := h.controller().Gates().Gates(t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen})
		if err != nil || len(open) != 3 {
			t.Errorf("%d of 3 paths have come to their question: %v", len(open), err)
		}
		for len(open) > 0 {
			for _, g := range open {
				h.answer(g.ID, true)
			}
			time.Sleep(time.Hour)
			if open, err = h.controller().Gates().Gates(t.Context(),
				store.GateFilter{Task: row.Task, State: store.GateOpen}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case row = <-ended:
			wantStatus(t, row, store.Completed, "")
		case <-time.After(time.Hour):
			t.Fatal("a slot was not given back")
		}
		if n := inside.Load(); n != 0 {
			t.Errorf("%d are still at work", n)
		}
	})
}

// A called flow that works in a directory of its caller's tree takes turns with the
// writers there.
func TestWritersTakeTurnsThroughCalls(t *testing.T) {
	for _, location := range []string{"", ", location: sub", ", location: sub/deeper"} {
		synctest.Test(t, func(t *testing.T) {
			outer := `
version: 1
name: outer
roles:
  work: {description: writes, access: write}
  first: {description: reads}
  sub: {flow: inner}
forks:
  both:
    forkPaths: [{pathId: a, childNodeId: work}, {pathId: b, childNodeId: first}]
joins:
  met: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: both, prompt: go}}
  work: {done: {role: met}}
  first: {done: {role: sub, prompt: go` + location + `}}
  sub: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`
			inner := `
version: 1
name: inner
roles: {write: {description: writes, access: write}}
graph:
  $START: {new: {role: write, prompt: go}}
  write: {done: {role: $END, prompt: over}}
`
			var inside atomic.Int32
			writer := alone(t, &inside, say(status("done")))
			h := newHouse(t, map[string]scripted{"work": writer, "write": writer, "first": say(status("done"))})
			c := h.controller()
			row := h.drive(c, h.beginFlows(c, Options{}, outer, inner).ID, Resume{})
			wantStatus(t, row, store.Completed, "")
			if h.runs["work"] != 1 || h.runs["write"] != 1 {
				t.Errorf("runs: %v", h.runs)
			}
		})
	}
}
