package control

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
)

// twice runs its fork two times; the main path is the second one.
const twice = `
version: 1
name: test
roles: {work: {description: works}, look: {description: looks}, judge: {description: judges}}
forks:
  both:
    forkStrategy: serial
    forkPaths: [{pathId: a, childNodeId: work}, {pathId: b, childNodeId: look}]
joins:
  met: {forkPathIds: [a, b], mainPathId: b}
graph:
  $START: {new: {role: both, prompt: go}}
  work: {done: {role: met}}
  look: {done: {role: met}}
  met: {joined: {role: judge, prompt: "is it good?"}}
  judge: {again: {role: both, prompt: "once more"}, good: {role: $END, prompt: over}}
`

// TestSessionsOfPaths: a path branches off the session of the steps before it, which
// were another path's; the thread continues in its own after a join. That holds whether
// one process did everything or each step had its own.
func TestSessionsOfPaths(t *testing.T) {
	run := func(interrupt bool) []worked {
		var saw []worked
		var stop context.CancelFunc
		answers := []string{"done", "done", "again", "done", "done", "good"}
		sessions := 0
		work := func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			w, session := worked{Session: req.Session}, req.Session
			if req.From != nil {
				w.From, w.Turn = req.From.Session, req.From.Turn
			}
			if session == "" {
				sessions++
				session = fmt.Sprintf("s%d", sessions)
			}
			req.Opened(session)
			out := status(answers[len(saw)])
			if saw = append(saw, w); interrupt {
				stop()
			}
			return agent.Result{Output: []byte(out), Sandbox: "none", Session: session, Turn: "turn-" + session}, nil
		}
		h := newHouse(t, map[string]scripted{"work": work, "look": work, "judge": work})
		h.wrap = func(a agent.Agent) agent.Agent { return forking{&sessioned{Agent: a, lost: map[string]bool{}}} }
		row := h.begin(h.controller(), twice)
		for range 9 {
			ctx, cancel := context.WithCancel(t.Context())
			stop = cancel
			end, err := h.controller().Drive(ctx, row.ID, Resume{})
			cancel()
			if err == nil {
				wantStatus(t, end, store.Completed, "")
				return saw
			}
			if !errors.Is(err, engine.ErrInterrupted) {
				t.Fatal(err)
			}
		}
		t.Fatal("it does not come to its end")
		return nil
	}
	// work, look, judge; then work, whose step is in no conversation, afresh; look in a
	// branch of the other path's session; judge in its own.
	want := []worked{{}, {}, {}, {}, {From: "s2", Turn: "turn-s2"}, {Session: "s3"}}
	for _, interrupt := range []bool{false, true} {
		if diff := cmp.Diff(want, run(interrupt)); diff != "" {
			t.Errorf("interrupted %v: -want +got\n%s", interrupt, diff)
		}
	}
}
