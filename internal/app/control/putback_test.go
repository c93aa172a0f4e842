package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
)

// The session of an agent whose worktree was put back remembers what no longer exists: it
// is not continued.
func TestATreeThatIsPutBackBeginsANewSession(t *testing.T) {
	var told string
	begun := false
	ctx, stop := context.WithCancel(t.Context())
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("one", `, "access": "write"`)), finish),
	})
	h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if req.Opened("of one"); !begun {
			begun = true
			if _, err := edits("f", "half")(ctx, req, emit); err != nil {
				return agent.Result{}, err
			}
			stop()
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped", Session: "of one"}
		}
		if told = req.Prompt; req.Session != "" {
			t.Errorf("it goes on in session %s", req.Session)
		}
		return holds(t, "f", "", output("success", "wrote"))(ctx, req, emit)
	}
	h.wrap = func(a agent.Agent) agent.Agent { return &sessioned{Agent: a} }
	h.repository()
	c := h.controller()
	row := h.orchestrate(c)
	if _, err := c.Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
	if !strings.Contains(told, "do one") {
		t.Errorf("it is told:\n%s", told)
	}
}

// However often an agent is cut off, it begins with the files as they were before its step:
// also after a try that continued from a question, with the changes of the try before.
func TestATreeIsPutBackToBeforeTheStep(t *testing.T) {
	tries := 0
	var stop context.CancelFunc
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("one", `, "access": "write"`)), finish),
	})
	h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		tries++
		switch tries {
		case 1: // cut off while it waits for an answer: its files stay
			if _, err := edits("f", "half")(ctx, req, emit); err != nil {
				return agent.Result{}, err
			}
			req.Ask(ctx, agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: "make"}})
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		case 2: // cut off after it continued with the answer
			if got, _ := os.ReadFile(filepath.Join(req.Dir, "f")); string(got) != "half" {
				t.Errorf("after the question f holds %q", got)
			}
			if a, err := req.Ask(ctx,
				agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: "make"}}); err != nil ||
				!a.Approved {
				t.Errorf("the answer is %+v, %v", a, err)
			}
			stop()
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}
		return holds(t, "f", "", output("success", "wrote"))(ctx, req, emit)
	}
	h.repository()
	c := h.controller()
	row := h.orchestrate(c)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop = cancel
		if tries == 0 {
			go func() {
				defer stop()
				for pos := int64(0); ; {
					open, err := c.Gates().Gates(ctx, store.GateFilter{Task: row.Task, State: store.GateOpen})
					if err != nil || len(open) > 0 {
						return
					}
					if pos, err = h.store.Wait(ctx, pos); err != nil {
						return
					}
				}
			}()
		}
		if _, err := h.controller().Drive(ctx, row.ID, Resume{Wait: true}); !errors.Is(err, engine.ErrInterrupted) {
			t.Fatal(err)
		}
		if tries == 1 {
			h.answer(h.theGate(c, row).ID, true)
		}
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
}

// An answer that was told to a try that was cut off too is not repeated: the files were put
// back, so the agent starts over and asks again, and the answer still counts.
func TestAnAnswerIsNotToldToANewSession(t *testing.T) {
	tries := 0
	ctx, stop := context.WithCancel(t.Context())
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("one", `, "access": "write"`)), finish),
	})
	h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		question := agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: "make"}}
		stopped := &agent.Failure{Kind: agent.Cancelled, Message: "stopped", Session: "of one"}
		req.Opened("of one")
		switch tries++; tries {
		case 1:
			if _, err := edits("f", "half")(ctx, req, emit); err != nil {
				return agent.Result{}, err
			}
			req.Ask(ctx, question)
			return agent.Result{}, stopped
		case 2:
			if req.Session != "of one" || !strings.Contains(req.Prompt, "was approved") {
				t.Errorf("in session %q it is told:\n%s", req.Session, req.Prompt)
			}
			stop()
			<-ctx.Done()
			return agent.Result{}, stopped
		}
		if req.Session != "" || strings.Contains(req.Prompt, "was approved") ||
			!strings.Contains(req.Prompt, "do one") {
			t.Errorf("in session %q it is told:\n%s", req.Session, req.Prompt)
		}
		if a, err := req.Ask(ctx, question); err != nil || !a.Approved {
			t.Errorf("the answer is %+v, %v", a, err)
		}
		return holds(t, "f", "", output("success", "wrote"))(ctx, req, emit)
	}
	h.wrap = func(a agent.Agent) agent.Agent { return &sessioned{Agent: a} }
	h.repository()
	c := h.controller()
	row := h.orchestrate(c)
	wantStatus(t, h.drive(c, row.ID, Resume{}), store.Blocked, "child")
	h.answer(h.theGate(c, row).ID, true)
	if _, err := h.controller().Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
}
