package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// one is a flow with a single role, of the given access and schema.
func one(access, extra string) string {
	return `
version: 1
name: test
roles:
  work:
    description: works
    access: ` + access + extra + `
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}, resume: {role: work, prompt: "more: {{ prompt }}"}}
  work: {done: {role: $END, prompt: "over"}}
`
}

const schema = `
    frontmatter: {properties: {$status: {const: done}, n: {type: integer}}, required: [$status, n]}`

func fails(kinds ...string) scripted {
	return func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		if req.Try <= len(kinds) && kinds[req.Try-1] != "" {
			return agent.Result{}, &agent.Failure{Kind: kinds[req.Try-1], Message: "as told"}
		}
		return agent.Result{Output: []byte(status("done"))}, nil
	}
}

func TestFailuresAndRetries(t *testing.T) {
	const infra, timeout, refused, limit = agent.Infra, agent.TimedOut, agent.Refused, agent.Limit
	for _, tt := range []struct {
		name     string
		agent    scripted
		status   store.Status
		reason   store.ReasonKind
		attempts int
	}{
		{"two faults are retried", fails(infra, infra), store.Completed, "", 3},
		{"three faults are too many", fails(infra, infra, infra), store.Blocked, "attempts", 3},
		{"a timeout is retried once", fails(timeout), store.Completed, "", 2},
		{"two timeouts are too many", fails(timeout, timeout), store.Blocked, "attempts", 2},
		{"a refusal is final", fails(refused), store.Blocked, "attempts", 1},
		{"a vendor's limit waits for a person", fails(limit), store.Blocked, "limit", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"work": tt.agent})
			row := h.run(one("read", ""))
			wantStatus(t, row, tt.status, tt.reason)
			if got := len(h.attempts(row)); got != tt.attempts {
				t.Errorf("%d attempts, want %d", got, tt.attempts)
			}
			if tt.status == store.Blocked {
				return
			}
			step, _, err := h.controller().Reader().Find(t.Context(), row.Head, "1")
			if err != nil {
				t.Fatal(err)
			}
			d, err := h.controller().Reader().Detail(t.Context(), step.State.Detail)
			if err != nil || len(d.Attempts) != tt.attempts-1 {
				t.Errorf("detail names %d earlier attempts, want %d (%v)", len(d.Attempts), tt.attempts-1, err)
			}
		})
	}
}

func TestInvalidOutputGoesBackTwice(t *testing.T) {
	answers := []string{"prose", `{"$status":"done","n":"x"}`, `{"$status":"done","n":3}`}
	var prompts []string
	h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		prompts = append(prompts, req.Prompt)
		return agent.Result{Output: []byte(answers[req.Try-1])}, nil
	}})
	row := h.run(one("read", schema))
	wantStatus(t, row, store.Completed, "")
	if len(prompts) != 3 || !strings.Contains(prompts[1], "front matter") || !strings.Contains(prompts[2], "/n") &&
		!strings.Contains(prompts[2], "n:") {
		t.Errorf("the corrections do not say what was wrong:\n%s", strings.Join(prompts[1:], "\n=====\n"))
	}
	answers = []string{"prose", "prose", "prose", "prose"}
	prompts = nil
	h.store = mem.New(mem.Config{Proven: true})
	row = h.run(one("read", schema))
	wantStatus(t, row, store.Blocked, "attempts")
	if len(prompts) != 3 {
		t.Errorf("asked %d times, want 3", len(prompts))
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits flow.Limits
		want   string
	}{
		{"rounds", flow.Limits{MaxRounds: 3}, "rounds"},
		{"tokens", flow.Limits{MaxTokens: 30}, "tokens"},
		{"attempts", flow.Limits{MaxAttempts: 2}, "attempts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, loopAgents())
			h.limits = tt.limits
			row := h.run(loop)
			wantStatus(t, row, store.Blocked, "limit")
			if row.Reason.Limit != tt.want {
				t.Errorf("limit %q, want %q", row.Reason.Limit, tt.want)
			}
			before := len(h.attempts(row))
			if row = h.drive(h.controller(), row.ID, Resume{}); row.Status != store.Blocked ||
				len(h.attempts(row)) != before {
				t.Errorf("resumed within the same limit: %s, %d attempts", row.Status, len(h.attempts(row)))
			}
			more := flow.Limits{MaxRounds: 10, MaxTokens: 1000, MaxAttempts: 100}
			row = h.drive(h.controller(), row.ID, Resume{Options: Options{Limits: more}})
			wantStatus(t, row, store.Completed, "")
		})
	}
}

func TestResumeOfACompletedThreadForks(t *testing.T) {
	var prompts []string
	h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		prompts = append(prompts, req.Prompt)
		return agent.Result{Output: []byte(status("done"))}, nil
	}})
	row := h.run(one("read", ""))
	if again := h.drive(h.controller(), row.ID, Resume{}); again.Head != row.Head {
		t.Error("resuming a completed thread without a prompt changed it")
	}
	next := h.drive(h.controller(), row.ID, Resume{Prompt: "the docs too"})
	wantStatus(t, next, store.Completed, "")
	if next.ID == row.ID || next.ForkedFrom == nil || next.ForkedFrom.Thread != row.ID {
		t.Errorf("not a fork: %+v", next.ForkedFrom)
	}
	if diff := cmp.Diff([]string{"work", "__input__", "work", "__end__"}, h.roles(next)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if len(prompts) != 2 || !strings.Contains(prompts[1], "more: the docs too") {
		t.Errorf("the resume route was not taken: %q", prompts)
	}
}

func TestForkSharesSteps(t *testing.T) {
	h := newHouse(t, loopAgents())
	row := h.run(loop)
	c := h.controller()
	objects := count(t, h.store)
	fork, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: "2"})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, h.store); n != objects {
		t.Errorf("forking wrote %d objects", n-objects)
	}
	before := h.runs["plan"]
	end := h.drive(c, fork.ID, Resume{})
	wantStatus(t, end, store.Completed, "")
	if h.runs["plan"] != before {
		t.Error("a step before the fork point was run again")
	}
	for _, bad := range []string{"99", "abcdef123456", "6"} {
		if _, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: bad}); err == nil {
			t.Errorf("forked at %s", bad)
		}
	}
	if _, err := c.Fork(t.Context(),
		Fork{Thread: row.ID, At: "2", Options: Options{Roles: map[string]string{"nobody": "other"}}}); !errors.Is(err,
		ErrUsage) {
		t.Errorf("an agent for a role that is not there: %v", err)
	}
	other, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: "1", Prompt: "shorter",
		Options: Options{Roles: map[string]string{"work": "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	h.drive(c, other.ID, Resume{})
	if h.runs["work@other"] == 0 {
		t.Error("--set work.agent=other had no effect")
	}
}

func count(t *testing.T, s store.Store) int {
	n := 0
	for _, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestInterruptedAttempts(t *testing.T) {
	for _, tt := range []struct {
		name, flow string
		again      bool
		want       store.Status
	}{
		{"a reader runs again", one("read", ""), false, store.Completed},
		{"a writer asks", one("write", ""), false, store.Blocked},
		{"a writer told to", one("write", ""), true, store.Completed},
		{"a writer that may", one("write", "\n    retry: {interrupted: true}"), false, store.Completed},
		{"a reader that may not", one("read", "\n    retry: {interrupted: false}"), false, store.Blocked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			started := make(chan struct{})
			first := true
			h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
				_ func(agent.Event) error) (agent.Result, error) {
				if first {
					first = false
					close(started)
					<-ctx.Done()
					return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
				}
				return agent.Result{Output: []byte(status("done"))}, nil
			}})
			c := h.controller()
			row := h.begin(c, tt.flow)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-started; cancel() }()
			if _, err := c.Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
				t.Fatalf("drive: %v", err)
			}
			if a := h.attempts(row); len(a) != 1 || a[0].Status != store.AttemptInterrupted {
				t.Fatalf("attempts: %+v", a)
			}
			row = h.drive(h.controller(), row.ID, Resume{Again: tt.again})
			reason := store.ReasonKind("")
			if tt.want == store.Blocked {
				reason = "gate"
			}
			wantStatus(t, row, tt.want, reason)
			if tt.want == store.Blocked {
				wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
				wantStatus(t, h.drive(h.controller(), row.ID, Resume{Again: true}), store.Completed, "")
			}
		})
	}
}

func TestCancelReachesTheAgent(t *testing.T) {
	started := make(chan struct{})
	h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, _ agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		close(started)
		<-ctx.Done()
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}})
	c := h.controller()
	row := h.begin(c, one("write", ""))
	told := make(chan error)
	go func() {
		<-started
		_, err := h.controller().Cancel(context.Background(), row.ID)
		told <- err
	}()
	end := h.drive(c, row.ID, Resume{})
	wantStatus(t, end, store.Cancelled, "")
	if err := <-told; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"__end__"}, h.roles(end)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if a := h.attempts(end); a[0].Status != store.AttemptCancelled {
		t.Errorf("attempt is %s", a[0].Status)
	}
}

func TestCancelOfWhatNobodyDrives(t *testing.T) {
	for _, tt := range []struct {
		name  string
		agent scripted
	}{
		{"pending", nil}, {"blocked", fails(agent.Refused)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"work": tt.agent})
			c := h.controller()
			row := h.begin(c, one("read", ""))
			if tt.agent != nil {
				row = h.drive(c, row.ID, Resume{})
			}
			row, err := c.Cancel(t.Context(), row.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, row, store.Cancelled, "")
			again, err := c.Cancel(t.Context(), row.ID)
			if err != nil || again.Head != row.Head {
				t.Errorf("cancelled twice: %v", err)
			}
		})
	}
}

func TestTwoDriversOfOneTask(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	h := newHouse(t, map[string]scripted{"work": func(context.Context, agent.Request,
		func(agent.Event) error) (agent.Result, error) {
		close(started)
		<-finish
		return agent.Result{Output: []byte(status("done"))}, nil
	}})
	c := h.controller()
	row := h.begin(c, one("read", ""))
	done := make(chan store.Thread)
	go func() { r, _ := c.Drive(context.Background(), row.ID, Resume{}); done <- r }()
	<-started
	var held *store.HeldError
	if _, err := h.controller().Drive(t.Context(), row.ID, Resume{}); !errors.As(err, &held) || held.Owner == "" {
		t.Errorf("the second driver got %v", err)
	}
	gone := func(row store.Thread) error { t.Errorf("a running task was removed: %s", row.ID); return nil }
	if err := h.controller().Remove(t.Context(), []string{row.ID}, gone); !errors.As(err, &held) {
		t.Errorf("a running task was removed: %v", err)
	}
	close(finish)
	wantStatus(t, <-done, store.Completed, "")
}

func TestViewsMatchTheIndex(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": fails(agent.Refused)})
	row := h.run(one("read", ""))
	dir := filepath.Join(h.home, "bundles", row.Bundle.String())
	data, err := os.ReadFile(filepath.Join(dir, "threads.json"))
	if err != nil || !strings.Contains(string(data), row.Head.String()) || !strings.Contains(string(data), rootID) {
		t.Fatalf("threads.json: %s %v", data, err)
	}
	row, err = h.controller().Cancel(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if data, _ = os.ReadFile(filepath.Join(dir, "threads.json")); string(data) != "{}\n" {
		t.Errorf("an ended thread is active: %s", data)
	}
	data, err = os.ReadFile(filepath.Join(dir, "history", "2023-11-14.jsonl"))
	want := `{"threadId":"` + rootID + `","head":"` + row.Head.String() + `","start":"` + row.Start.String() +
		`","completedAt":1700000000000}` + "\n"
	if err != nil || string(data) != want {
		t.Errorf("history: got %s, want %s (%v)", data, want, err)
	}
}

func TestPromptIsKeptExactly(t *testing.T) {
	sent := map[string]string{}
	h := newHouse(t, nil)
	h.agents = map[string]scripted{}
	for role, a := range loopAgents() {
		h.agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
			error) {
			sent[req.Attempt] = req.Prompt
			return a(ctx, req, emit)
		}
	}
	row := h.run(loop)
	r := h.controller().Reader()
	steps, err := r.Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps[:len(steps)-1] {
		d, err := r.Detail(t.Context(), s.State.Detail)
		if err != nil {
			t.Fatal(err)
		}
		text, err := prompt.Read(t.Context(), r, d.Prompt)
		if err != nil || text != sent[d.Attempt] {
			t.Errorf("%s: the prompt on record is not the one sent (%v)", s.State.Role, err)
		}
		for _, u := range d.Context {
			if u.Form != thread.FormFull {
				t.Errorf("%s: %s in form %s, want full", s.State.Role, u.To.Short(), u.Form)
			}
		}
	}
}
