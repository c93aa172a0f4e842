package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// request asks for a task to be resumed.
func request(t *testing.T, s Store, task store.Thread, r Resumption) {
	t.Helper()
	opts, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	w := store.Request{ID: "01JD0000000000000000000009", Task: task.ID, Kind: store.RequestResume, Options: opts, By: "p",
		Via: store.ViaCLI, At: 1}
	if err := s.Commit(t.Context(), store.Batch{Requests: []store.RequestChange{{Row: w}},
		Events: []store.Event{event.New(task, 1, event.TaskUpdated{Intent: "resume"})}}); err != nil {
		t.Fatal(err)
	}
}

// A store that dies when the use of a gate is committed.
type diesOfUse struct{ Store }

var errKilled = errors.New("killed")

func (d diesOfUse) Commit(ctx context.Context, b store.Batch) error {
	for _, g := range b.Gates {
		if g.Row.UsedAt != 0 {
			return errKilled
		}
	}
	return d.Store.Commit(ctx, b)
}

// Allowing a limit to be exceeded lets the task continue, however far it went beyond it, and lowers no other limit.
func TestRaisedBeyondUse(t *testing.T) {
	text := strings.Replace(housetest.TwoSteps("read"), "name: test\n", "name: test\nlimits: {maxTokens: 50}\n", 1)
	s, engine, row := setUpFlow(t, text, func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		res, err := finish(ctx, req, emit)
		res.Usage = agent.Usage{InputTokens: 325}
		return res, err
	})
	ctx := t.Context()
	now, err := engine().Run(ctx, row.ID)
	if err != nil || now.Status != store.Blocked || now.Reason.Raise != "maxTokens=650" {
		t.Fatalf("%+v, %v", now, err)
	}
	gates := gate.New(gate.Config{Store: s})
	open, err := gates.Gates(ctx, store.GateFilter{Task: row.ID, State: store.GateOpen})
	if err != nil || len(open) != 1 || !strings.Contains(open[0].Question, "Continue with maxTokens=650?") {
		t.Fatalf("%+v, %v", open, err)
	}
	if _, err := gates.Answer(ctx, open[0].ID, gate.Answer{Approve: true, By: "p", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	request(t, s, row, Resumption{Options: record.Options{Limits: flow.Limits{MaxAttempts: 7}}})
	if _, err = engine().Reconcile(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	if now, err = engine().Run(ctx, row.ID); err != nil || now.Status != store.Completed {
		t.Errorf("%+v, %v", now, err)
	}
	o, err := record.OptionsOf(now)
	if want := (flow.Limits{MaxTokens: 650, MaxAttempts: 7}); err != nil || o.Limits != want {
		t.Errorf("limits %+v, %v; want %+v", o.Limits, err, want)
	}
}

// allowed makes a task that has reached its limit, and is to be resumed. approval is a person's that it may go on.
func allowed(t *testing.T) (s *mem.Store, engine func() *Engine, row store.Thread, approval string) {
	t.Helper()
	text := strings.Replace(housetest.TwoSteps("read"), "name: test\n", "name: test\nlimits: {maxAttempts: 1}\n", 1)
	s, engine, row = setUpFlow(t, text, finish)
	ctx := t.Context()
	if now, err := engine().Run(ctx, row.ID); err != nil || now.Status != store.Blocked {
		t.Fatalf("%+v, %v", now, err)
	}
	gates := gate.New(gate.Config{Store: s})
	open, err := gates.Gates(ctx, store.GateFilter{Task: row.ID, State: store.GateOpen})
	if err != nil || len(open) != 1 {
		t.Fatalf("%+v, %v", open, err)
	}
	if _, err := gates.Answer(ctx, open[0].ID, gate.Answer{Approve: true, By: "p", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	request(t, s, row, Resumption{})
	return s, engine, row, open[0].ID
}

// A limit that a person allows to be exceeded is doubled once, even if Plait is killed meanwhile.
func TestRaisedOnce(t *testing.T) {
	s, engine, row, approval := allowed(t)
	ctx := t.Context()
	cfg := engine().cfg
	cfg.Store = diesOfUse{s}
	if _, err := New(cfg).Reconcile(ctx, row.ID); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if _, err := engine().Reconcile(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	now, err := s.Thread(ctx, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := record.OptionsOf(now); err != nil || o.Limits.MaxAttempts != 2 {
		t.Errorf("a limit of 1, doubled once, is %d, %v", o.Limits.MaxAttempts, err)
	}
	if g, err := s.Gate(ctx, approval); err != nil || g.UsedAt == 0 {
		t.Errorf("the approval is not used: %+v, %v", g, err)
	}
}

// A limit that was allowed to be exceeded before answers had to be signed is asked about again.
func TestRaiseMustBeSigned(t *testing.T) {
	s, engine, row, _ := allowed(t)
	ctx := t.Context()
	cfg := engine().cfg
	cfg.Signing = &gate.Signing{Counts: func(context.Context, ssh.PublicKey, time.Time) error { return nil }}
	now, err := New(cfg).Run(ctx, row.ID)
	if err != nil || now.Status != store.Blocked || now.Reason.Kind != store.ReasonLimit {
		t.Fatalf("%+v, %v", now, err)
	}
	if again, err := s.Gates(ctx, store.GateFilter{Task: row.ID, State: store.GateOpen}); err != nil || len(again) != 1 {
		t.Errorf("open questions: %+v, %v", again, err)
	}
}
