package engine

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A listener is an agent that hears, in its first attempt, what a person says. Its first three answers are unusable.
type listener struct {
	runs *int
	say  func() error
}

func (listener) Steers() bool { return true }

func (l listener) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	*l.runs++
	if *l.runs == 1 {
		if err := l.say(); err != nil {
			return agent.Result{}, err
		}
		more := <-req.Additions
		more.Delivered()
	}
	if *l.runs <= 3 {
		return agent.Result{Output: []byte("?"), Sandbox: "none"}, nil
	}
	return finish(ctx, req, emit)
}

// What an agent heard while it worked becomes one step, also if its answers cannot be used, and every attempt ends.
func TestHeardOnce(t *testing.T) {
	s, engine, row := setUp(t, "read", finish)
	runs := 0
	say := func() error {
		w := store.Request{ID: "01JD0000000000000000000009", Task: row.ID, Kind: store.RequestInput, Text: "hear", By: "p",
			Via: store.ViaCLI, At: 1}
		return s.Commit(t.Context(), store.Batch{Requests: []store.RequestChange{{Row: w}},
			Events: []store.Event{event.New(row, 1, event.TaskUpdated{Intent: "input"})}})
	}
	cfg := engine().cfg
	cfg.Agents = doing(listener{&runs, say})
	now, err := New(cfg).Run(t.Context(), row.ID)
	if err != nil || now.Status != store.Completed {
		t.Fatalf("the task is %s, %+v, %v", now.Status, now.Reason, err)
	}
	attempts, err := s.Attempts(t.Context(), store.AttemptFilter{Task: row.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts {
		if a.Status == store.AttemptRunning {
			t.Errorf("attempt %s runs for ever", a.ID)
		}
	}
	var roles []string
	for st, err := range thread.NewReader(s).Walk(t.Context(), now.Head) {
		if err != nil {
			t.Fatal(err)
		}
		roles = append(roles, st.State.Role)
	}
	if diff := cmp.Diff([]string{"__end__", "second", "first", thread.RoleInput}, roles); diff != "" {
		t.Errorf("steps, newest first: -want +got\n%s", diff)
	}
	if runs != 5 { // three bad answers, and two steps
		t.Errorf("the agent worked %d times, want 5", runs)
	}
}

// TestCommentIsNoAnswer checks that a comment on lines leaves a question open, and is read once that is answered.
func TestCommentIsNoAnswer(t *testing.T) {
	s, engine, row := setUpFlow(t, `
version: 1
name: asks
roles: {work: {description: works}}
gates: {port: {kind: input, question: "which?"}}
graph:
  $START: {new: {role: port}}
  port: {answered: {role: work, prompt: "on {{ answer }}"}}
  work: {done: {role: $END, prompt: over}}
`, finish)
	now, err := engine().Run(t.Context(), row.ID)
	if err != nil || now.Status != store.Blocked {
		t.Fatalf("the task is %s, %+v: %v", now.Status, now.Reason, err)
	}
	if err := engine().CheckInput(t.Context(), row.ID, "", true, false); !errors.Is(err, attempt.ErrUsage) {
		t.Errorf("a comment is taken while a question is open: %v", err)
	}
	if err := engine().CheckInput(t.Context(), row.ID, "", false, false); err != nil {
		t.Errorf("an answer is refused: %v", err)
	}
	about, err := json.Marshal(Resumption{About: &thread.Comment{File: "a.go", Line: 1, EndLine: 1}})
	if err != nil {
		t.Fatal(err)
	}
	w := store.Request{ID: "01JD0000000000000000000009", Task: row.ID, Kind: store.RequestInput, Text: "About a.go:1", By: "p",
		Options: about, Via: thread.SourceComment, At: 1}
	if err := s.Commit(t.Context(), store.Batch{Requests: []store.RequestChange{{Row: w}},
		Events: []store.Event{event.New(row, 1, event.TaskUpdated{Intent: "input"})}}); err != nil {
		t.Fatal(err)
	}
	if now, err = engine().Run(t.Context(), row.ID); err != nil || now.Status != store.Blocked {
		t.Fatalf("with a comment, the task is %s: %v", now.Status, err)
	}
	open, err := s.Gates(t.Context(), store.GateFilter{Task: row.ID, State: store.GateOpen})
	if err != nil || len(open) != 1 {
		t.Fatalf("%d open questions: %v", len(open), err)
	}
	if _, err := engine().gates.Answer(t.Context(), open[0].ID, gate.Answer{Text: "80", By: "p", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	if now, err = engine().Run(t.Context(), row.ID); err != nil || now.Status != store.Completed {
		t.Fatalf("the task is %s, %+v: %v", now.Status, now.Reason, err)
	}
	var roles []string
	for st, err := range thread.NewReader(s).Walk(t.Context(), now.Head) {
		if err != nil {
			t.Fatal(err)
		}
		roles = append(roles, st.State.Role)
	}
	if diff := cmp.Diff([]string{"__end__", "work", thread.RoleInput, "port"}, roles); diff != "" {
		t.Errorf("steps, newest first: -want +got\n%s", diff)
	}
}
