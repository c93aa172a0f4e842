package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A run that waits for people continues when a question of its flow times out.
func TestQuestionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, engine, row := setUpFlow(t, `
version: 1
name: test
roles: {a: {description: d}}
gates: {ask: {kind: input, question: "what?", timeout: 1h, onTimeout: late}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: ask}}
  ask: {answered: {role: $END}, late: {role: $END}}
`, finish)
		cfg := engine().cfg
		cfg.Now, cfg.Wait = time.Now, true
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		begun := time.Now()
		now, err := New(cfg).Run(ctx, row.ID)
		if err != nil || now.Status != store.Completed || time.Since(begun) < time.Hour {
			t.Errorf("the task is %s after %s, %v", now.Status, time.Since(begun), err)
		}
	})
}

// older makes joins as releases of before schema 9 did, which pointed to the step before.
type older struct{}

func (older) At(context.Context, store.Thread) (thread.Cue, error)          { return thread.Cue{}, nil }
func (older) Joined(context.Context, store.Thread) (*thread.Verdict, error) { return nil, nil }
func (older) Points(context.Context, store.Thread) (bool, error)            { return true, nil }

func (older) Play(_ context.Context, _ store.Thread, a agent.Agent, req agent.Request) (agent.Agent, agent.Request,
	error) {
	return a, req, nil
}

func (older) Accepted(context.Context, store.Thread, string, int, json.RawMessage, string) (bool, error) {
	return false, nil
}

// An answer to a question of an older release counts, though the same question has other words now.
func TestAnswerToAnOlderQuestion(t *testing.T) {
	s := mem.New(mem.Config{Proven: true})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1},
		housetest.Bundle(t, `
version: 1
name: outer
roles: {sub: {flow: inner}}
gates: {ask: {question: "Right? {{ _body }}"}}
graph:
  $START: {new: {role: sub, prompt: "{{ prompt }}"}}
  sub: {done: {role: ask}}
  ask: {approved: {role: $END}, rejected: {role: $END, code: 1}}
`, `
version: 1
name: inner
roles: {a: {description: d}, b: {description: d}}
forks: {split: {forkPathIds: [x, y], childNodeIds: [a, b]}}
joins: {gathered: {forkPathIds: [x, y]}}
graph:
  $START: {new: {role: split, prompt: "{{ prompt }}"}}
  a: {done: {role: gathered}}
  b: {done: {role: gathered}}
  gathered: {joined: {role: $END}}
`), "go")
	cfg := Config{Store: s, Reader: thread.NewReader(s), Now: func() time.Time { return time.UnixMilli(1) },
		Desks: housetest.BareDesks{}, Agents: doing(housetest.Say("---\n$status: done\n---\nThe words."))}
	then := cfg
	then.Player = older{}
	if row, err := New(then).Run(t.Context(), row.ID); err != nil || row.Status != store.Blocked {
		t.Fatalf("the task is %s, %v", row.Status, err)
	}
	gates, err := s.Gates(t.Context(), store.GateFilter{Thread: row.ID})
	if err != nil || len(gates) != 1 || !strings.Contains(gates[0].Question, "see the step before") {
		t.Fatalf("gates: %+v, %v", gates, err)
	}
	e := New(cfg)
	if _, err := e.gates.Answer(t.Context(), gates[0].ID,
		gate.Answer{Approve: true, By: "me", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	now, err := e.Run(t.Context(), row.ID)
	if gates, _ = s.Gates(t.Context(), store.GateFilter{Thread: row.ID}); err != nil || now.Status != store.Completed ||
		len(gates) != 1 {
		t.Errorf("the task is %s, gates: %+v, %v", now.Status, gates, err)
	}
}
