package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// A plan cannot take the system's names or another's rights.
func TestPlansThatReachTooFar(t *testing.T) {
	for name, tt := range map[string]struct{ plan, want string }{
		"an action named __end__":  {actions("", act("__end__", "")), "/actions/0/id"},
		"an action named __join__": {actions("", act("__join__", "")), "/actions/0/id"},
		"an action named $END":     {actions("", act("$END", "")), "/actions/0/id"},
		"full access":              {actions("", act("a", `, "access": "full"`)), "access"},
		"its own sandbox":          {actions("", act("a", `, "sandbox": "none"`)), "sandbox"},
		"its own command":          {actions("", act("a", `, "command": ["sh"]`)), "command"},
		"its own environment":      {actions("", act("a", `, "env": {"PLAIT_HOME": "/"}`)), "env"},
		"approval":                 {actions(`, "approve": "never"`, act("a", "")), "approve"},
		"the merge":                {actions(`, "merge": "auto"`, act("a", "")), "merge"},
		"an answer":                {`{"finish": {"summary": "x"}, "gate": "approved"}`, "gate"},
		"a status": {`{"$status": "finished", "actions": [` + act("a", "") + `], "sessionGoal": "x"}`,
			"not allowed"},
		"evidence of nobody":   {actions("", act("a", `, "inputs": ["evidence:b.cmd-1"]`)), "no evidence"},
		"evidence that climbs": {actions("", act("a", `, "inputs": ["evidence:../../x"]`)), "inputs"},
		"a report that cites it": {`{"finish": {"summary": "x", "report": "as evidence:b.cmd-1 shows"}}`,
			"no such entry"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"planner": plans(tt.plan)})
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			wantStatus(t, row, store.Blocked, "attempts")
			if len(h.below(row)) != 0 || !strings.Contains(row.Reason.Message, tt.want) {
				t.Errorf("the planner is told %q, want %q in it; below %v", row.Reason.Message, tt.want, h.below(row))
			}
		})
	}
}

// Two plans that call each other end at the depth that is allowed.
func TestPlansThatCallEachOther(t *testing.T) {
	one := `
version: 1
name: one
roles: {first: {plan: true, description: plans}, down: {flow: two}}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {finished: {role: down, prompt: deeper}}
  down: {done: {role: $END}}
`
	two := strings.NewReplacer("name: one", "name: two", "first", "second", "flow: two", "flow: one").Replace(one)
	plan := plans(actions("", act("a", "")), `{"finish": {"summary": "deeper"}}`)
	h := newHouse(t, map[string]scripted{"first": plan, "second": plan, "a": output("success", "x")})
	h.limits = flow.Limits{MaxDepth: 4}
	b := housetest.Bundle(t, one, two)
	worker, ok := parse.LoadBuiltIn("worker")
	if !ok {
		t.Fatal("there is no worker")
	}
	raw, err := json.Marshal(worker[0])
	if err != nil {
		t.Fatal(err)
	}
	b.Flows["worker"] = raw
	c := h.controller()
	row, err := c.Begin(t.Context(), Spec{Bundle: b, Prompt: "do it", Workspace: h.dir, ID: rootID})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a resume gets no further
		row = h.drive(h.controller(), row.ID, Resume{})
		if row.Status != store.Blocked {
			t.Fatalf("the task is %s: %+v", row.Status, row.Reason)
		}
	}
	rows, err := h.store.Threads(t.Context(), store.ThreadFilter{Task: row.Task})
	if err != nil {
		t.Fatal(err)
	}
	stopped, deepest := 0, 0
	for _, r := range rows {
		start, err := c.Reader().Start(t.Context(), r.Start)
		if err != nil {
			t.Fatal(err)
		}
		deepest = max(deepest, start.Depth)
		if r.Status == store.Blocked && r.Reason.Kind == "limit" && r.Reason.Limit == "depth" {
			stopped++
		}
	}
	if stopped != 1 || deepest != 4 {
		t.Errorf("%d threads are stopped by the depth, the deepest at %d", stopped, deepest)
	}
	h.noneRuns()
	h.sound(row)
}

// Answers that contain no work have no effect, and block no one else.
func TestUselessWorkers(t *testing.T) {
	for name, out := range map[string][]byte{
		"nothing":            nil,
		"a line feed":        []byte("\n"),
		"prose":              []byte("All is done, and well."),
		"a status alone":     []byte("success"),
		"not UTF-8":          []byte("{\"status\": \"success\", \"summary\": \"\xff\xfe\"}"),
		"100 MB":             []byte(`{"status": "success", "summary": "` + strings.Repeat("x", 100<<20) + `"}`),
		"half":               []byte(`{"status": "success", "summary": "x`),
		"two":                []byte(`{"status": "success", "summary": "x"}{"status": "failed", "summary": "y"}`),
		"two minds":          []byte(`{"$status": "success", "status": "failed", "summary": "y"}`),
		"doubled keys":       []byte(`{"status": "failed", "status": "success", "summary": "x"}`),
		"a number as status": []byte(`{"status": 1, "summary": "x"}`),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{
				"planner": plans(actions("", act("bad", ""), act("good", "")), finish),
				"good":    output("success", "fine"),
				"bad": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
					return agent.Result{Output: out, Sandbox: "none"}, nil
				},
			})
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			wantStatus(t, row, store.Blocked, "join")
			bad := h.below(row)["bad"]
			wantStatus(t, bad, store.Failed, "")
			if h.runs["bad"] != 3 || h.below(row)["good"].Status != store.Completed {
				t.Errorf("bad ran %d times, good is %s", h.runs["bad"], h.below(row)["good"].Status)
			}
			if last := h.attempts(bad)[2]; last.Failure == nil || last.Failure.Kind != agent.InvalidOutput ||
				len(last.Failure.Message) > 1<<16 {
				t.Errorf("the last attempt: %+v", last.Failure)
			}
			h.agents["bad"] = output("success", "now")
			wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
		})
	}
}

// jumpy is a clock that a test sets.
type jumpy struct{ off atomic.Int64 }

func (j *jumpy) now() time.Time {
	return time.UnixMilli(1_700_000_000_000).Add(time.Duration(j.off.Load()))
}

// The clock jumps while a task is at work, and while it is not driven: the outcome is
// the same, in the same order.
func TestClocksThatJump(t *testing.T) {
	want := ""
	for _, jump := range []time.Duration{0, -time.Hour, 24 * time.Hour, -20 * 365 * 24 * time.Hour,
		200 * 365 * 24 * time.Hour} {
		for _, resume := range []bool{false, true} {
			t.Run(fmt.Sprint(jump, " ", resume), func(t *testing.T) {
				var clock jumpy
				h := newHouse(t, nil)
				h.clock = clock.now
				jumps := func(a scripted) scripted {
					return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
						error) {
						clock.off.Add(int64(jump))
						return a(ctx, req, emit)
					}
				}
				h.agents = map[string]scripted{
					"planner": plans(actions(`, "join": {"timeout": 172800}`, act("a", ""),
						act("b", `, "dependsOn": ["a"]`)), `{"ask": {"question": "well?"}}`, finish),
					"a": jumps(output("success", "A is done.")),
					"b": output("success", "B is done."),
				}
				c := h.controller()
				row := h.drive(c, h.orchestrate(c).ID, Resume{})
				wantStatus(t, row, store.Blocked, "input")
				if resume {
					clock.off.Add(-int64(jump))
				}
				if n := h.answers(c, row, "yes"); n != 1 {
					t.Fatalf("%d gates are open", n)
				}
				row = h.drive(h.controller(), row.ID, Resume{})
				wantStatus(t, row, store.Completed, "")
				if got := h.digest(row).String(); want == "" {
					want = got
				} else if got != want {
					t.Errorf("the outcome is %s, want %s", got, want)
				}
				if h.runs["a"] != 1 || h.runs["b"] != 1 || h.runs["planner"] != 3 {
					t.Errorf("runs: %v", h.runs)
				}
				h.ordered(row)
			})
		}
	}
}

// ordered fails the test unless each event of a task comes after those that it follows from.
func (h *house) ordered(row store.Thread) {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), 0, store.EventFilter{Task: row.Task})
	if err != nil {
		h.t.Fatal(err)
	}
	began := map[string]bool{}
	for i, ev := range events {
		if i > 0 && ev.Pos <= events[i-1].Pos {
			h.t.Errorf("event %d comes after %d", ev.Pos, events[i-1].Pos)
		}
		if ev.Type == "attempt.started" {
			began[ev.Attempt] = true
		}
		if ev.Type == "attempt.finished" && !began[ev.Attempt] {
			h.t.Errorf("attempt %s ends before it begins", ev.Attempt)
		}
	}
	for _, at := range h.attempts(row) {
		if at.Waited < 0 {
			h.t.Errorf("attempt %s waited %d ms", at.ID, at.Waited)
		}
	}
}

// A jump forward counts as elapsed time for whatever the clock decides: a gate that
// expires is a no, never a yes, and a join times out at the next resume. A jump back
// changes neither.
func TestJumpsAndDeadlines(t *testing.T) {
	for jump, want := range map[time.Duration]store.GateState{-time.Hour: store.GateOpen,
		24 * time.Hour: store.GateExpired} {
		var clock jumpy
		h := newHouse(t, map[string]scripted{
			"planner": plans(actions(`, "join": {"timeout": 600}`, act("a", "")), finish),
			"a": say(`{"status": "blocked", "summary": "I need a port.", "questions": ["Which port?"]}`,
				`{"status": "success", "summary": "8080"}`),
		})
		h.clock = clock.now
		c := h.controller()
		row := h.drive(c, h.orchestrate(c).ID, Resume{})
		wantStatus(t, row, store.Blocked, "child")
		g, err := c.Gates().Open(t.Context(), store.Gate{Kind: store.GateApproval, Source: store.SourceWorker,
			Task: row.Task, Thread: row.ID, From: row.Head,
			Action: []byte(`{"type":"command","command":"x"}`), ExpiresAt: clock.now().Add(time.Hour).UnixMilli()})
		if err != nil {
			t.Fatal(err)
		}
		clock.off.Add(int64(jump))
		if g, err = c.Gates().Gate(t.Context(), g.ID); err != nil || g.State != want {
			t.Errorf("after %s the gate is %s: %v", jump, g.State, err)
		}
		if want == store.GateExpired {
			if _, err := c.Gates().Answer(t.Context(), g.ID,
				gate.Answer{Approve: true, By: "me", Via: store.ViaCLI}); err == nil {
				t.Error("an expired gate is approved")
			}
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(t, row, store.Blocked, "join")
			if a := h.below(row)["a"]; a.Status != store.Cancelled {
				t.Errorf("after %s the action is %s", jump, a.Status)
			}
			h.noneRuns()
			continue
		}
		for _, q := range h.open(2) {
			if q.Kind == store.GateInput {
				_, err = c.Gates().Answer(t.Context(), q.ID, gate.Answer{Text: "8080", By: "me", Via: store.ViaCLI})
			} else {
				_, err = c.Gates().Answer(t.Context(), q.ID, gate.Answer{Approve: true, By: "me", Via: store.ViaCLI})
			}
			if err != nil {
				t.Error(err)
			}
		}
		wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
	}
}
