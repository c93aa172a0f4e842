package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// spent returns the number of attempts of all threads, and their tokens.
func (h *house) spent() (attempts int, tokens int64) {
	h.t.Helper()
	all, err := h.store.Attempts(h.t.Context(), store.AttemptFilter{})
	if err != nil {
		h.t.Fatal(err)
	}
	var used store.Usage
	for _, a := range all {
		used = used.Add(a.Usage)
	}
	return len(all), int64(used.Tokens())
}

// limited is a flow with limits.
func limited(yaml, limits string) string {
	return replaceOnce(yaml, "roles:\n", "limits: {"+limits+"}\nroles:\n")
}

// The time between a crash and the resume does not count as work; the time up to an
// agent's last sign does.
func TestAgentsTimeEndsWithACrash(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sign   time.Duration // the agent's last one; zero: none
		status store.Status
		reason store.ReasonKind
	}{
		{"no sign", 0, store.Completed, ""},
		{"a sign in time", 59 * time.Minute, store.Completed, ""},
		{"a sign after the time", time.Hour, store.Blocked, "limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, loopAgents())
			began := h.clock()
			row := h.begin(h.controller(), limited(loop, "timeout: 1h"))
			was := row
			row.Status, row.InFlight = store.Running, thread.AttemptID(row.ID, 1)
			left := store.Batch{
				Threads: []store.ThreadChange{{Row: row, From: was.State()}},
				Attempts: []store.AttemptChange{{Row: store.Attempt{
					ID: row.InFlight, Thread: row.ID, From: row.Head, Role: "plan", N: 1, Instance: "plan",
					Status: store.AttemptRunning, StartedAt: began.UnixMilli(),
				}}},
			}
			if tt.sign > 0 {
				by := store.Attempt{ID: row.InFlight}
				left.Events = append(left.Events, event.OfAttempt(row, by, began.Add(tt.sign).UnixMilli(),
					event.AgentItems{}))
			}
			if err := h.store.Commit(t.Context(), stated(row.Task, left)); err != nil {
				t.Fatal(err)
			}
			h.clock = func() time.Time { return began.Add(24 * time.Hour) }
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(t, row, tt.status, tt.reason)
			if tt.reason != "" && row.Reason.Limit != "time" {
				t.Errorf("it is the limit of %s: %s", row.Reason.Limit, row.Reason.Message)
			}
		})
	}
}

// However many paths ask for what is left concurrently, no more is given out.
func TestAttemptsAreNeverMoreThanAllowed(t *testing.T) {
	for _, tt := range []struct {
		most   int
		status store.Status
		reason store.ReasonKind
	}{
		{2, store.Blocked, "child"}, {3, store.Blocked, "child"}, {5, store.Blocked, "limit"}, {6, store.Completed, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, surveyAgents())
			inner := h.store
			// All paths reach their first attempt before any of them is recorded.
			h.store = noticed{Store: inner, before: func(b store.Batch) {
				for _, a := range b.Attempts {
					if a.From == "" && a.Row.Role != "plan" {
						time.Sleep(time.Minute)
					}
				}
			}}
			c := h.controller()
			row := h.beginWith(c, survey, Options{Limits: flow.Limits{MaxAttempts: tt.most}})
			row = h.drive(c, row.ID, Resume{})
			wantStatus(t, row, tt.status, tt.reason)
			if n, _ := h.spent(); n != tt.most {
				t.Errorf("%d attempts, want %d", n, tt.most)
			}
			h.noneRuns()
			// Nor is one missing afterwards.
			row = h.drive(h.controller(), row.ID, Resume{Options: Options{Limits: flow.Limits{MaxAttempts: 6}}})
			wantStatus(t, row, store.Completed, "")
			if n, _ := h.spent(); n != 6 {
				t.Errorf("%d attempts after the resume, want 6", n)
			}
		})
	}
}

// An attempt that was not begun after all uses up nothing.
func TestWhatDidNotBeginIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := surveyAgents()
		for _, role := range []string{"api", "db", "ui"} {
			agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				<-ctx.Done()
				time.Sleep(time.Minute) // until the others that wait for the slot have been told too
				return hangs(ctx, req, emit)
			}
		}
		h := newHouse(t, agents)
		// The plan, the path that gets the slot, the report.
		row := h.run(limited(withJoin("joinStrategy: ALL_COMPLETED, timeout: 10m"), "maxConcurrent: 1, maxAttempts: 3"))
		wantStatus(t, row, store.Completed, "")
		if n, _ := h.spent(); n != 3 {
			t.Errorf("%d attempts, want 3", n)
		}
	})
}

// Usage from while an attempt waited for a slot is counted before it begins.
func TestLimitsHoldAfterTheWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := surveyAgents()
		for _, role := range []string{"api", "db", "ui"} {
			works := agents[role]
			agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				time.Sleep(time.Minute) // meanwhile the others wait
				return works(ctx, req, emit)
			}
		}
		h := newHouse(t, agents)
		row := h.run(limited(survey, "maxConcurrent: 1, maxTokens: 20"))
		wantStatus(t, row, store.Blocked, "child")
		if n, tokens := h.spent(); n != 2 || tokens != 24 {
			t.Errorf("%d attempts used %d tokens, want 2 that use 24: the second one is over 20", n, tokens)
		}
		for id, p := range h.below(row) {
			if p.Status == store.Blocked && (p.Reason.Kind != "limit" || p.Reason.Limit != "tokens") {
				t.Errorf("path %s is blocked: %+v", id, p.Reason)
			}
		}
		h.noneRuns()
	})
}

// An attempt that was recorded along with the step before it, but may not begin because
// a limit has been reached since, has ended too.
func TestALimitEndsWhatHasNotBegun(t *testing.T) {
	h := newHouse(t, surveyAgents())
	inner := h.store
	limits := 0
	h.store = noticed{Store: inner, before: func(b store.Batch) {
		for _, a := range b.Attempts {
			if a.Row.Role != "more" || a.From != "" {
				continue
			}
			if limits++; limits > 1 {
				return
			}
			path, err := inner.Thread(t.Context(), a.Row.Thread)
			if err != nil {
				t.Error(err)
				return
			}
			root, err := inner.Thread(t.Context(), path.Root)
			if err != nil {
				t.Error(err)
				return
			}
			next := root // a person limits the task
			next.Options = []byte(`{"limits":{"maxTokens":1}}`)
			b := stated(root.Task, store.Batch{Threads: []store.ThreadChange{{Row: next, From: root.State()}}})
			if err := inner.Commit(t.Context(), b); err != nil {
				t.Error(err)
			}
		}
	}}
	row := h.run(survey)
	wantStatus(t, row, store.Blocked, "child")
	a := h.below(row)["a"]
	wantStatus(t, a, store.Blocked, "limit")
	if h.runs["more"] != 0 {
		t.Errorf("an attempt began over the limit: %v", h.runs)
	}
	h.noneRuns()
	for _, of := range h.attempts(a) {
		if of.Role == "more" && of.Status != store.AttemptCancelled {
			t.Errorf("the attempt that did not begin is %s", of.Status)
		}
	}
	row = h.drive(h.controller(), row.ID, Resume{Options: Options{Limits: flow.Limits{MaxTokens: 1000}}})
	wantStatus(t, row, store.Completed, "")
}

// A resume calls no further child when a limit is used up.
func TestCallingAgainObeysLimits(t *testing.T) {
	agents := solveAgents()
	agents["coder"] = say("---\n$status: gave-up\n---\nNo.")
	h := newHouse(t, agents)
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{Limits: flow.Limits{MaxAttempts: 3}}, solve, develop).ID, Resume{})
	wantStatus(t, row, store.Blocked, "child")
	children := func() int {
		rows, err := h.store.Threads(t.Context(), store.ThreadFilter{Task: row.Task})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows) - 1
	}
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Blocked, "limit")
	if n, _ := h.spent(); n != 3 || children() != 1 {
		t.Errorf("%d attempts in %d children, want 3 in 1", n, children())
	}
	agents["coder"] = yes("The code.")
	row = h.drive(h.controller(), row.ID, Resume{Options: Options{Limits: flow.Limits{MaxAttempts: 9}}})
	wantStatus(t, row, store.Completed, "")
	if children() != 2 {
		t.Errorf("%d children, want 2", children())
	}
}
