package control

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// mayRun returns an agent that asks to run a command, perhaps editable, and answers with what it may run.
func mayRun(editable bool) scripted {
	return func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		act := agent.Action{Type: "command", Command: "make install", Cwd: "/src"}
		ans, err := req.Ask(ctx, agent.Question{Text: "May I?", Editable: editable, Action: act})
		if ctx.Err() != nil {
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}
		if err != nil {
			return agent.Result{}, err
		}
		may := "nothing"
		switch {
		case ans.Approved && ans.Edited != nil:
			may = ans.Edited.Command
		case ans.Approved:
			may = act.Command
		}
		return agent.Result{Output: []byte(`{"$status":"done","may":"` + may + `"}`), Sandbox: "none"}, nil
	}
}

var instead = gate.Answer{Approve: true, By: "someone", Via: store.ViaCLI, Input: json.RawMessage(`{"command":"make test"}`)}

// TestApprovedInAnotherForm approves a different command from the one that an agent asks for.
func TestApprovedInAnotherForm(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": mayRun(true)})
	h.clock = time.Now
	c := h.controller()
	row := h.beginWith(c, one("read", ""), Options{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Gates().Answer(context.Background(), h.gates(row.ID, 1)[0].ID, instead); err != nil {
			t.Error(err)
		}
	})
	row = h.drive(c, row.ID, Resume{Wait: true})
	wg.Wait()
	wantStatus(t, row, store.Completed, "")
	if got := h.may(row); got != "make test" {
		t.Errorf("the agent may run %q", got)
	}
	g := h.gates(row.ID, 1)[0]
	if g.State != store.GateApproved || g.UsedAt == 0 || !strings.Contains(string(g.Action), "make install") ||
		!strings.Contains(string(g.Edited), "make test") || g.EditedDigest.IsZero() || g.EditedDigest == g.Digest {
		t.Errorf("the gate: %+v", g)
	}
}

// TestAnEditSurvives answers while no agent works; when the agent asks again it is given what was approved.
func TestAnEditSurvives(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": mayRun(true)})
	c := h.controller()
	row := h.beginWith(c, one("read", ""), Options{})
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Blocked, store.ReasonGate)
	if _, err := c.Gates().Answer(t.Context(), h.gates(row.ID, 1)[0].ID, instead); err != nil {
		t.Fatal(err)
	}
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if got := h.may(row); got != "make test" || len(h.gates(row.ID, 1)) != 1 {
		t.Errorf("the agent may run %q; gates: %+v", got, h.gates(row.ID, 1))
	}
}

// TestNoOtherForm checks that an agent that can only carry out what it asked for is not approved anything else.
func TestNoOtherForm(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": mayRun(false)})
	c := h.controller()
	row := h.beginWith(c, one("read", ""), Options{})
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Blocked, store.ReasonGate)
	g := h.gates(row.ID, 1)[0]
	if _, err := c.Gates().Answer(t.Context(), g.ID, instead); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("it was approved: %v", err)
	}
	if g := h.gates(row.ID, 1)[0]; g.State != store.GateOpen {
		t.Errorf("the gate is %s", g.State)
	}
}
