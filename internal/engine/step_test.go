package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// doing returns agents that are all the same.
func doing(a agent.Agent) attempt.Agents {
	return attempt.Agents{
		Defined: map[string]flow.Agent{"do": {Kind: "do"}}, Default: "do",
		Make: func(string, flow.Agent, attempt.AgentOptions) (agent.Agent, error) { return a, nil },
	}
}

func setUp(t *testing.T, access string, do housetest.Role) (*mem.Store, func() *Engine, store.Thread) {
	t.Helper()
	return setUpFlow(t, housetest.TwoSteps(access), do)
}

func setUpFlow(t *testing.T, text string, do housetest.Role) (*mem.Store, func() *Engine, store.Thread) {
	t.Helper()
	s := mem.New(mem.Config{Proven: true})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1},
		housetest.Bundle(t, text), "go")
	return s, func() *Engine {
		return New(Config{
			Store: s, Reader: thread.NewReader(s), Now: func() time.Time { return time.UnixMilli(1) },
			Backoff: time.Microsecond,
			Desks:   housetest.BareDesks{}, Agents: doing(do),
		})
	}, row
}

var finish = housetest.Say(housetest.Status("done"))

func TestStepIsSafeToRepeat(t *testing.T) {
	runs := 0
	_, engine, row := setUp(t, "read", func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		runs++
		return finish(ctx, req, emit)
	})
	after, err := engine().Step(t.Context(), row.ID, row.Head)
	if err != nil || after.Head == row.Head {
		t.Fatalf("%+v, %v", after, err)
	}
	again, err := engine().Step(t.Context(), row.ID, row.Head) // another driver, late
	if err != nil || again.Head != after.Head || runs != 1 {
		t.Errorf("repeated: head %s, want %s; the agent ran %d times; %v", again.Head.Short(), after.Head.Short(), runs,
			err)
	}
}

func TestTheFirstCommitWins(t *testing.T) {
	var engine func() *Engine
	var row store.Thread
	var s *mem.Store
	inner := false
	s, engine, row = setUp(t, "read", func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if !inner {
			// While this agent works, another driver takes the whole step.
			inner = true
			if err := s.Forge(ctx,
				store.Batch{Attempts: []store.AttemptChange{{Row: interruptedRow(t, s, req.Attempt),
					From: store.AttemptRunning}}}); err != nil {
				t.Error(err)
			}
			if _, err := engine().Step(ctx, row.ID, row.Head); err != nil {
				t.Error(err)
			}
			return agent.Result{Output: []byte(`{"$status":"done","late":true}`)}, nil
		}
		return finish(ctx, req, emit)
	})
	after, err := engine().Step(t.Context(), row.ID, row.Head)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := thread.NewReader(s).Steps(t.Context(), after.Head)
	if err != nil || len(steps) != 1 || strings.Contains(string(steps[0].State.Meta), "late") {
		t.Errorf("%d steps, the late one won or was added: %v", len(steps), err)
	}
}

func interruptedRow(t *testing.T, s *mem.Store, id string) store.Attempt {
	a, err := s.Attempt(t.Context(), id)
	if err != nil {
		t.Error(err)
	}
	a.Status = store.AttemptInterrupted
	return a
}

// TestOnlyRepeatableAttemptsRide: the next attempt is recorded with this one's step,
// unless no one could tell after a crash whether it began.
func TestOnlyRepeatableAttemptsRide(t *testing.T) {
	for _, tt := range []struct {
		access string
		want   int
	}{{"read", 2}, {"write", 1}} {
		t.Run(tt.access, func(t *testing.T) {
			s, engine, row := setUp(t, tt.access, finish)
			e := engine()
			after, err := e.Step(t.Context(), row.ID, row.Head)
			if err != nil {
				t.Fatal(err)
			}
			attempts, err := s.Attempts(t.Context(), store.AttemptFilter{Thread: row.ID})
			if err != nil || len(attempts) != tt.want {
				t.Fatalf("%d attempts after the first step, want %d: %v", len(attempts), tt.want, err)
			}
			// Stopped now, the one that rode is known never to have begun.
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(ErrInterrupted)
			if _, err := e.Step(ctx, row.ID, after.Head); !errors.Is(err, ErrInterrupted) {
				t.Fatalf("got %v, want ErrInterrupted", err)
			}
			attempts, _ = s.Attempts(t.Context(), store.AttemptFilter{Thread: row.ID})
			if last := attempts[len(attempts)-1]; tt.want == 2 &&
				(last.Status != store.AttemptInterrupted || !last.Failure.Void) {
				t.Errorf("the one that rode is %s: %+v", last.Status, last.Failure)
			}
		})
	}
}
