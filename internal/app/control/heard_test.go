package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
)

// An agent that was cut off after it had heard an answer may have acted: a person is asked before it runs again, and it
// is not told that answer once more.
func TestCutOffAfterAnAnswer(t *testing.T) {
	for _, approve := range []bool{true, false} {
		heard := make(chan struct{})
		var prompts []string
		h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
			_ func(agent.Event) error) (agent.Result, error) {
			if prompts = append(prompts, req.Prompt); len(prompts) > 1 {
				return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, nil
			}
			a, err := req.Ask(ctx, agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: "make"}})
			if err != nil || a.Approved != approve {
				t.Errorf("the answer is %+v, %v", a, err)
			}
			close(heard)
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}})
		c := h.controller()
		row := h.begin(c, one("write", ""))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			h.answer(h.gates(row.ID, 1)[0].ID, approve)
			<-heard
			cancel()
		}()
		if _, err := c.Drive(ctx, row.ID, Resume{Wait: true}); !errors.Is(err, engine.ErrInterrupted) {
			t.Fatal(err)
		}
		wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
		wantStatus(t, h.drive(h.controller(), row.ID, Resume{Again: true}), store.Completed, "")
		if len(prompts) != 2 || strings.Contains(prompts[1], "was denied") || strings.Contains(prompts[1], "was approved") {
			t.Errorf("prompts: %q", prompts)
		}
	}
}
