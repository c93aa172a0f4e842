package control

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
)

// interposed is a store that may refuse a commit.
type interposed struct {
	store.Store
	commit func(store.Batch) error
}

func (s *interposed) Commit(ctx context.Context, b store.Batch) error {
	if err := s.commit(b); err != nil {
		return err
	}
	return s.Store.Commit(ctx, b)
}

func (h *house) putGate(g, was store.Gate) {
	h.t.Helper()
	change := store.GateChange{Row: g, From: was.State, UsedAt: was.UsedAt}
	if err := h.store.Commit(h.t.Context(), stated(g.Task, store.Batch{Gates: []store.GateChange{change}})); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) gatesOf(task string, state store.GateState) []store.Gate {
	h.t.Helper()
	gates, err := h.store.Gates(h.t.Context(), store.GateFilter{Task: task, State: state})
	if err != nil {
		h.t.Fatal(err)
	}
	return gates
}

func (h *house) forget(id string) {
	h.t.Helper()
	if err := h.controller().Remove(h.t.Context(), []string{id}, func(store.Thread) error { return nil }); err != nil {
		h.t.Fatal(err)
	}
}

// cutPath has the path of consentPaths cut off once.
func cutPath(t *testing.T) (*house, string) {
	c := &cut{make(chan struct{}, 1), 1}
	h := newHouse(t, map[string]scripted{"work": c.run, "other": say(status("done"))})
	id := h.begin(h.controller(), consentPaths).ID
	c.whileAtWork(t, func(ctx context.Context) { h.controller().Drive(ctx, id, Resume{}) })
	h.drive(h.controller(), id, Resume{})
	return h, id
}

// A path that was denied twice is not repeated by a plain resume.
func TestDeniedTwice(t *testing.T) {
	h, id := cutPath(t)
	h.deny(id)
	h.drive(h.controller(), id, Resume{})
	h.drive(h.controller(), id, Resume{})
	h.deny(id)
	h.drive(h.controller(), id, Resume{})
	h.drive(h.controller(), id, Resume{})
	if n := h.runs["work"]; n != 1 {
		t.Errorf("the agent ran %d times, although a person said no twice", n)
	}
}

// Consent is used up by the attempt that repeats another one, not by a drive that reaches a limit or dies before it.
func TestConsentWaitsForTheAttempt(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		c := &cut{make(chan struct{}, 1), 1}
		h := newHouse(t, map[string]scripted{"work": c.run})
		id := h.beginWith(h.controller(), one("write", ""), Options{Limits: flow.Limits{MaxAttempts: 1}}).ID
		c.whileAtWork(t, func(ctx context.Context) { h.controller().Drive(ctx, id, Resume{}) })
		wantStatus(t, h.drive(h.controller(), id, Resume{Again: true}), store.Blocked, store.ReasonLimit)
		more := Options{Limits: flow.Limits{MaxAttempts: 5}}
		wantStatus(t, h.drive(h.controller(), id, Resume{Options: more}), store.Completed, "")
	})
	t.Run("crash", func(t *testing.T) {
		c := &cut{make(chan struct{}, 1), 1}
		h := newHouse(t, map[string]scripted{"work": c.run})
		id, mem := h.team(one("write", "")), h.store
		c.whileAtWork(t, func(ctx context.Context) { h.work(ctx, id) })
		h.work(t.Context(), id)
		h.request(id, Resume{Again: true})
		if _, err := h.worker().Reconcile(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		h.store = &interposed{Store: mem, commit: func(b store.Batch) error {
			if len(b.Attempts) > 0 {
				return errBroken
			}
			return nil
		}}
		h.worker().Drive(t.Context(), id, new(dispatch.Slot))
		h.store = mem
		h.work(t.Context(), id)
		wantStatus(t, h.row(id), store.Completed, "")
	})
}

// Consent is recorded once for an attempt of a path, although two threads of that path asked.
func TestConsentIsRecordedOnce(t *testing.T) {
	h, id := cutPath(t)
	h.deny(id)
	h.drive(h.controller(), id, Resume{})
	h.drive(h.controller(), id, Resume{}) // the second thread of the path asks
	wantStatus(t, h.drive(h.controller(), id, Resume{Again: true}), store.Completed, "")
	for _, g := range h.gatesOf(id, store.GateApproved) {
		if g.UsedAt == 0 {
			t.Errorf("consent %s for %s, given at %s, is never used", g.ID, g.Attempt, g.Thread)
		}
	}
}

// Input after a denial waits until the attempt may be repeated; it kept the task busy for ever.
func TestInputAfterADenial(t *testing.T) {
	c := &cut{make(chan struct{}, 1), 1}
	h := newHouse(t, map[string]scripted{"work": c.run})
	id := h.begin(h.controller(), one("write", "")).ID
	c.whileAtWork(t, func(ctx context.Context) { h.controller().Drive(ctx, id, Resume{}) })
	h.drive(h.controller(), id, Resume{})
	h.deny(id)
	h.drive(h.controller(), id, Resume{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	h.controller().Drive(ctx, id, Resume{Prompt: "more"})
	events, err := h.store.Events(t.Context(), 0, store.EventFilter{Task: id})
	if err != nil || len(events) > 100 {
		t.Errorf("%d events: %v", len(events), err)
	}
}

// asksInPath has a path that asks a person, and one to rejoin.
const asksInPath = `
version: 1
name: asksinpath
roles: {a: {description: d}, b: {description: d}, more: {description: d}}
gates: {ask: {kind: input, question: "which?"}}
forks: {both: {forkPaths: [{pathId: a, childNodeId: a}, {pathId: b, childNodeId: b}]}}
joins: {met: {forkPathIds: [a, b]}}
graph:
  $START: {new: {role: both, prompt: "{{ prompt }}"}}
  a: {done: {role: more, prompt: "more"}}
  more: {done: {role: met}}
  b: {done: {role: ask}}
  ask: {answered: {role: met}}
  met: {joined: {role: $END}}
`

func askingInPath(t *testing.T) (*house, store.Thread) {
	done := say(status("done"))
	h := newHouse(t, map[string]scripted{"a": done, "b": done, "more": done})
	return h, h.begin(h.controller(), asksInPath)
}

// answered drives a task of asksInPath to its end.
func (h *house) answered(id string) store.Thread {
	h.t.Helper()
	h.drive(h.controller(), id, Resume{})
	for _, g := range h.gatesOf(id, store.GateOpen) {
		a := gate.Answer{Text: "this", By: "ann", Via: store.ViaCLI}
		if _, err := h.controller().Gates().Answer(h.t.Context(), g.ID, a); err != nil {
			h.t.Fatal(err)
		}
	}
	row := h.drive(h.controller(), id, Resume{})
	wantStatus(h.t, row, store.Completed, "")
	return row
}

func (h *house) rejoined(from store.Thread) store.Thread {
	h.t.Helper()
	fork, err := h.controller().Fork(h.t.Context(), Fork{Thread: h.below(from)["a"].ID, At: "1", Rejoin: true})
	if err != nil {
		h.t.Fatal(err)
	}
	row := h.drive(h.controller(), fork.ID, Resume{})
	wantStatus(h.t, row, store.Completed, "")
	return row
}

// A path may be taken over from a fork that took it over from a task that is gone.
func TestVerifyAdoptedTwice(t *testing.T) {
	h, row := askingInPath(t)
	h.rejoined(h.rejoined(h.answered(row.ID)))
	h.wantVerdict("before", true)
	h.forget(row.ID)
	h.wantVerdict("without the origin", true)
}

// A permission for the session may be given after the step at which it was asked for, and used at a later one.
func TestVerifyQuestionLeftByACrash(t *testing.T) {
	q := agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: "make", Cwd: "/src"}}
	var mem store.Store
	h := newHouse(t, map[string]scripted{
		"work": func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			asking, giveUp := context.WithCancel(ctx)
			asked := make(chan struct{})
			go func() { // it does not wait for the answer
				req.Ask(asking, q)
				close(asked)
			}()
			for ctx.Err() == nil {
				if open, _ := mem.Gates(ctx, store.GateFilter{State: store.GateOpen}); len(open) > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			giveUp()
			<-asked
			return agent.Result{Output: []byte(status("done"))}, nil
		},
		"next": func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			if ans, err := req.Ask(ctx, q); err != nil || !ans.Approved {
				t.Errorf("asked again: %+v, %v", ans, err)
			}
			return agent.Result{Output: []byte(status("done"))}, nil
		},
	})
	mem = h.store
	h.store = &interposed{Store: mem, commit: func(b store.Batch) error { // withdrawals come after the crash
		if len(b.Gates) > 0 && b.Gates[0].Row.State == store.GateWithdrawn {
			return errBroken
		}
		return nil
	}}
	id := h.begin(h.controller(), `
version: 1
name: two
roles: {work: {description: d, access: write}, next: {description: d, access: write}}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work: {done: {role: next, prompt: n}}
  next: {done: {role: $END}}
`).ID
	h.controller().Drive(t.Context(), id, Resume{Wait: true})
	h.store = mem
	for _, g := range h.gatesOf(id, store.GateOpen) {
		yes := gate.Answer{Approve: true, Grant: store.GrantSession, By: "ann", Via: store.ViaCLI}
		if _, err := h.controller().Gates().Answer(t.Context(), g.ID, yes); err != nil {
			t.Fatal(err)
		}
	}
	h.wantVerdict("before it is used", true)
	wantStatus(t, h.drive(h.controller(), id, Resume{}), store.Completed, "")
	h.wantVerdict("after it was used", true)
}

// The action that was approved, and what was approved instead, are those of the digests.
func TestActionsCannotBeForged(t *testing.T) {
	a := &asking{inside: true}
	h := newHouse(t, map[string]scripted{"work": a.run})
	id := h.beginWith(h.controller(), one("write", ""), Options{Approve: record.ApproveSandboxed}).ID
	wantStatus(t, h.drive(h.controller(), id, Resume{}), store.Completed, "")
	h.wantVerdict("before", true)
	was := h.gatesOf(id, "")[0]
	for name, forge := range map[string]func(*store.Gate){
		"action": func(g *store.Gate) {
			g.Action = bytes.ReplaceAll(g.Action, []byte("make install"), []byte("rm -rf /"))
		},
		"edited action": func(g *store.Gate) { g.Edited = []byte(`{"type":"command"}`) },
	} {
		g := was
		forge(&g)
		h.putGate(g, was)
		h.wantVerdict("another "+name, false)
		h.putGate(was, g)
	}
}

// Consent given at one thread of a path is named by the step of the thread that continues it.
func TestConsentOfAPathCannotBeForged(t *testing.T) {
	h, id := cutPath(t)
	h.deny(id)
	h.drive(h.controller(), id, Resume{})
	wantStatus(t, h.drive(h.controller(), id, Resume{Again: true}), store.Completed, "")
	h.wantVerdict("before", true)
	for _, g := range h.gatesOf(id, store.GateApproved) {
		forged := g
		forged.By = "mallory"
		h.putGate(forged, g)
		h.wantVerdict("another author of used consent", false)
	}
}

// An answer at a path of a fork cannot be withdrawn unseen, whether the origin is there or not.
func TestAnswerOfAForkCannotBeWithdrawn(t *testing.T) {
	h, row := askingInPath(t)
	fork, err := h.controller().Fork(t.Context(), Fork{Thread: row.ID, At: "0"})
	if err != nil {
		t.Fatal(err)
	}
	h.answered(fork.ID)
	for _, g := range h.gatesOf(fork.ID, "") {
		gone := g
		gone.State = store.GateWithdrawn
		h.putGate(gone, g)
	}
	h.wantVerdict("with the origin", false)
	r, err := verify.Thread(t.Context(), verify.Config{Store: h.store}, fork.ID)
	if err != nil || r.OK() {
		t.Errorf("the fork alone: %v, %v", r.Integrity, err)
	}
	h.forget(row.ID)
	h.wantVerdict("without the origin", false)
}
