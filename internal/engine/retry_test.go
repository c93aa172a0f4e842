package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// needsAll is race with a join that needs all paths.
var needsAll = strings.Replace(race, ", joinStrategy: ANY_COMPLETED, losers: wait", "TIMEOUT", 1)

const caller = `
version: 1
name: test
roles: {down: {flow: sub}}
graph:
  $START: {new: {role: down, prompt: "{{ prompt }}"}}
  down: {done: {role: $END}}
`

const callee = `
version: 1
name: sub
roles: {right: {description: d}}
graph:
  $START: {new: {role: right, prompt: "{{ prompt }}"}}
  right: {done: {role: $END}, bad: {role: $END, code: 1}}
`

// A worker that knows how a path or a child ended sees that another worker lets it be tried again.
func TestTriedAgainByAnother(t *testing.T) {
	refuse := func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
	}
	for _, test := range []struct {
		name  string
		flows []string
		fail  housetest.Role
	}{
		{"path", []string{strings.Replace(needsAll, "TIMEOUT", "", 1)}, refuse},
		{"child", []string{caller, callee}, housetest.Say(housetest.Status("bad"))},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, s := t.Context(), mem.New(mem.Config{Proven: true})
			row := housetest.Begin(ctx, t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1},
				housetest.Bundle(t, test.flows...), "go")
			var well atomic.Bool
			do := housetest.Role(func(ctx context.Context, req agent.Request,
				emit func(agent.Event) error) (agent.Result, error) {
				if req.Role == "right" && !well.Load() {
					return test.fail(ctx, req, emit)
				}
				return finish(ctx, req, emit)
			})
			one, other := New(shared(s.Share(), do)), New(shared(s.Share(), do))
			work := func(e *Engine) store.Thread {
				t.Helper()
				for {
					agenda, err := e.Reconcile(ctx, row.ID)
					if err != nil {
						t.Fatal(err)
					}
					if len(agenda.Drive) == 0 {
						break
					}
					for _, id := range agenda.Drive {
						if _, err := e.Drive(ctx, id); err != nil {
							t.Fatal(err)
						}
					}
				}
				now, err := s.Thread(ctx, row.ID)
				if err != nil {
					t.Fatal(err)
				}
				return now
			}
			if now := work(one); now.Status != store.Blocked {
				t.Fatalf("the task is %s, %+v", now.Status, now.Reason)
			}
			well.Store(true)
			request(t, s, row, Resumption{})
			want, err := other.Reconcile(ctx, row.ID)
			if err != nil || len(want.Drive) != 1 {
				t.Fatalf("%+v, %v", want, err)
			}
			if got, err := one.Reconcile(ctx, row.ID); err != nil || !cmp.Equal(got.Drive, want.Drive) {
				t.Errorf("one worker drives %v, the other %v, %v", got.Drive, want.Drive, err)
			}
			if now := work(one); now.Status != store.Completed {
				t.Errorf("the task is %s, %+v", now.Status, now.Reason)
			}
		})
	}
}

// The paths of a join that timed out have time again when they are tried again.
func TestTriedAgainAfterTimeout(t *testing.T) {
	s, engine, row := setUpFlow(t, strings.Replace(needsAll, "TIMEOUT", ", timeout: 1h", 1), finish)
	ctx := t.Context()
	cfg, now := engine().cfg, time.UnixMilli(1)
	cfg.Now = func() time.Time { return now }
	if _, err := New(cfg).Drive(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	e := New(cfg)
	now = now.Add(2 * time.Hour)
	if _, err := e.Reconcile(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	late, err := s.Thread(ctx, row.ID)
	if err != nil || late.Status != store.Blocked {
		t.Fatalf("the task is %s, %+v, %v", late.Status, late.Reason, err)
	}
	request(t, s, row, Resumption{})
	if agenda, err := e.Reconcile(ctx, row.ID); err != nil || len(agenda.Drive) != 2 {
		t.Errorf("%+v, %v; want two paths to drive", agenda, err)
	}
}

// The time of a join goes on when a thread that was forked by hand is driven again: it may have adopted paths that are
// older than it, so that its time runs from when it began.
func TestForkedJoinTimesOut(t *testing.T) {
	s, engine, row := setUpFlow(t, strings.Replace(needsAll, "TIMEOUT", ", timeout: 1h", 1), finish)
	ctx := t.Context()
	forked := row
	forked.ForkedFrom = &store.ForkedFrom{Thread: "01JD0000000000000000000009", Step: row.Head}
	if err := s.Forge(ctx, store.Batch{Threads: []store.ThreadChange{{Row: forked, From: row.State()}}}); err != nil {
		t.Fatal(err)
	}
	cfg, now := engine().cfg, time.UnixMilli(1)
	cfg.Now = func() time.Time { return now }
	if _, err := New(cfg).Drive(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	was, err := s.Thread(ctx, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	again := was
	again.UpdatedAt = now.UnixMilli()
	if err := s.Commit(ctx, store.Batch{Threads: []store.ThreadChange{{Row: again, From: was.State()}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg).Reconcile(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	late, err := s.Thread(ctx, row.ID)
	if err != nil || late.Status != store.Blocked {
		t.Errorf("the task is %s, %+v, %v; want it blocked: its join timed out", late.Status, late.Reason, err)
	}
}

// What an agent is told about its last answer is said until it answers.
func TestACorrectionIsSaidAgain(t *testing.T) {
	var prompts []string
	_, engine, row := setUp(t, "read", func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (
		agent.Result, error) {
		switch prompts = append(prompts, req.Prompt); len(prompts) {
		case 1:
			return agent.Result{Output: []byte(`{"$status":"done","why":"evidence:cmd-9"}`)}, nil
		case 2:
			return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "connection lost"}
		}
		return finish(ctx, req, emit)
	})
	after, err := engine().Step(t.Context(), row.ID, row.Head)
	if err != nil || after.Head == row.Head || len(prompts) < 3 {
		t.Fatalf("%+v, %v after %d prompts", after, err, len(prompts))
	}
	for i, want := range []bool{false, true, true} {
		if strings.Contains(prompts[i], "Your last answer could not be used") != want {
			t.Errorf("prompt %d speaks of the last answer: %v", i+1, !want)
		}
	}
}
