package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// asks returns an agent that asks whether it may run a command, and then works for a minute
// of the bubble's time.
func asks(command string) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		ans, err := req.Ask(ctx,
			agent.Question{Text: "May I?",
				Action: agent.Action{Type: "command", Command: cmp.Or(command, "make "+req.Role)}})
		switch {
		case ctx.Err() != nil:
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		case err != nil:
			return agent.Result{}, err
		case !ans.Approved:
			return agent.Result{Output: []byte(status("done") + " ")}, nil
		}
		return works(ctx, req, emit)
	}
}

// asksBeside returns an agent that asks about two commands concurrently, while a third runs
// for a minute. An approved command runs for three.
func asksBeside(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	var mu sync.Mutex
	say := func(id, phase string) {
		mu.Lock()
		defer mu.Unlock()
		emit(agent.Event{Kind: agent.EventCommand, ID: id, Phase: phase, Text: id})
	}
	commands := map[string]time.Duration{"one": 3 * time.Minute, "two": 3 * time.Minute, "three": time.Minute}
	for id := range commands {
		say(id, "started")
	}
	var all sync.WaitGroup
	for id, runs := range commands {
		all.Go(func() {
			if id != "three" {
				if ans, err := req.Ask(ctx,
					agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: id}}); err != nil ||
					!ans.Approved {
					return
				}
			}
			select {
			case <-time.After(runs):
				say(id, "completed")
			case <-ctx.Done():
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
	return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, nil
}

// asksBefore returns an agent that leaves a command running in the background, and asks.
func asksBefore(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	for _, id := range []string{"serve", "make"} {
		if err := emit(agent.Event{Kind: agent.EventCommand, ID: id, Phase: "started", Text: id}); err != nil {
			return agent.Result{}, err
		}
	}
	return asks("make")(ctx, req, emit)
}

// works is an agent that works for a minute of the bubble's time.
func works(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	select {
	case <-time.After(time.Minute):
		return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, nil
	case <-ctx.Done():
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
}

// roleLines are the roles of a flow.
func roleLines(access string, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: {description: works, access: %s}\n", name, access)
	}
	return b.String()
}

const unattendedNested = `
forks:
  outer:
    forkPaths: [{pathId: x, childNodeId: x1}, {pathId: y, childNodeId: y1}]
  inner:
    forkPaths: [{pathId: p, childNodeId: p1}, {pathId: q, childNodeId: q1}]
joins:
  met: {forkPathIds: [x, y]}
  one: {forkPathIds: [p, q], joinStrategy: ANY_COMPLETED}
graph:
  $START: {new: {role: outer, prompt: go}}
  x1: {done: {role: met}}
  y1: {done: {role: inner, prompt: go}}
  p1: {done: {role: one}}
  q1: {done: {role: one}}
  one: {joined: {role: z1, prompt: go}}
  z1: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`

func unattendedFork(strategy string) string {
	return `
forks:
  all:
    forkStrategy: ` + strategy + `
    forkPaths: [{pathId: a, childNodeId: a1}, {pathId: b, childNodeId: b1}]
joins:
  met: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: all, prompt: go}}
  a1: {done: {role: met}}
  b1: {done: {role: b2, prompt: go}}
  b2: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`
}

// TestUnattendedRunEnds: a run that does not wait for answers stops its agents as soon as only
// their questions are left, and no earlier. The gates stay open, and once they are answered
// the outcome is that of a run that waited.
func TestUnattendedRunEnds(t *testing.T) {
	head := "version: 1\nname: test\nroles:\n"
	for _, tt := range []struct {
		name   string
		flows  []string
		agents map[string]scripted
		open   []string      // roles that ask when the first drive ends
		after  time.Duration // how long it works
		drives int           // until it is done, with all questions answered in between
	}{
		{"alone", []string{one("read", "")}, map[string]scripted{"work": asks("")}, []string{"work"}, 0, 2},
		{"what is asked is long", []string{one("write", "")},
			map[string]scripted{"work": asks(strings.Repeat("x", 200<<10))}, []string{"work"}, 0, 2},
		{"a command runs beside two questions", []string{one("read", "")}, map[string]scripted{"work": asksBeside},
			[]string{"work", "work"}, time.Minute, 2},
		{"a command never ends", []string{one("read", "")}, map[string]scripted{"work": asksBefore}, []string{"work"},
			5 * time.Minute, 2},
		{"others work", []string{head + roleLines("read", "a1", "b1", "b2") + unattendedFork("parallel")},
			map[string]scripted{"a1": asks(""), "b1": works, "b2": works}, []string{"a1"}, 2 * time.Minute, 2},
		{"two ask, one later", []string{head + roleLines("read", "a1", "b1", "b2") + unattendedFork("parallel")},
			map[string]scripted{"a1": asks(""), "b1": works, "b2": asks("")}, []string{"a1", "b2"}, time.Minute, 2},
		{"one after the other", []string{head + roleLines("read", "a1", "b1", "b2") + unattendedFork("serial")},
			map[string]scripted{"a1": asks(""), "b1": works, "b2": asks("")}, []string{"a1"}, 0, 3},
		{"one waits for the tree of the other", []string{head + roleLines("write", "a1", "b1", "b2") +
			unattendedFork("parallel")},
			map[string]scripted{"a1": asks(""), "b1": works, "b2": works}, []string{"a1"}, 2 * time.Minute, 2},
		{"both write and ask", []string{head + roleLines("write", "a1", "b1", "b2") + unattendedFork("parallel")},
			map[string]scripted{"a1": asks(""), "b1": asks(""), "b2": works}, []string{"a1", "b1"}, 0, 2},
		// The loser p is cancelled while it asks; x waits until what comes after that is done.
		{"one that asks loses", []string{head + roleLines("read", "x1", "y1", "p1", "q1", "z1") + unattendedNested},
			map[string]scripted{"x1": asks(""), "y1": works, "p1": asks(""), "q1": works, "z1": works}, []string{"x1"},
			3 * time.Minute, 2},
		{"in a call", []string{head + "  sub: {flow: inner}\ngraph:\n  $START: {new: {role: sub, prompt: go}}\n" +
			"  sub: {done: {role: $END, prompt: over}}\n",
			strings.Replace(one("read", ""), "name: test", "name: inner", 1)}, map[string]scripted{"work": asks("")},
			[]string{"work"}, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := ""
			synctest.Test(t, func(t *testing.T) { // a run that waits
				h, c, row := unattended(t, tt.flows, tt.agents)
				ended := make(chan store.Thread)
				go func() {
					row, err := c.Drive(context.Background(), row.ID, Resume{Wait: true})
					if err != nil {
						t.Error(err)
					}
					ended <- row
				}()
				for {
					time.Sleep(time.Hour)
					select {
					case row = <-ended:
						wantStatus(t, row, store.Completed, "")
						want = h.digest(row).String()
						return
					default:
					}
					if h.approveAll(row) == 0 {
						t.Fatal("it has not ended, and no question is open")
					}
				}
			})
			synctest.Test(t, func(t *testing.T) {
				h, c, row := unattended(t, tt.flows, tt.agents)
				began := time.Now()
				row = h.drive(c, row.ID, Resume{})
				if got := time.Since(began).Truncate(time.Minute); got != tt.after {
					t.Errorf("it ended after %s of work, want %s", got, tt.after)
				}
				if row.Status != store.Blocked {
					t.Fatalf("the task is %s", row.Status)
				}
				var asked []string
				for _, g := range h.openGates(row) {
					asked = append(asked, g.Node)
					a, err := h.store.Attempt(t.Context(), g.Attempt)
					if err != nil || a.Status != store.AttemptInterrupted ||
						!strings.Contains(a.Failure.Message, "does not wait") {
						t.Errorf("the attempt of %s is %s (%+v), %v", g.Node, a.Status, a.Failure, err)
					}
					named := func(why string) bool {
						return slices.ContainsFunc(h.openGates(row),
							func(o store.Gate) bool { return o.Thread == g.Thread && why == o.ID })
					}
					if owner, err := h.store.Thread(t.Context(), g.Thread); err != nil ||
						owner.Status != store.Blocked || owner.Reason.Kind != "gate" || !named(owner.Reason.Gate) {
						t.Errorf("the thread of %s is %s (%+v), %v", g.Node, owner.Status, owner.Reason, err)
					}
				}
				slices.Sort(asked)
				if diff := gocmp.Diff(tt.open, asked); diff != "" {
					t.Errorf("who asks: -want +got\n%s", diff)
				}
				// Nothing has changed: nothing is done.
				runs := len(h.attempts(row))
				if row = h.drive(h.controller(), row.ID, Resume{}); row.Status != store.Blocked ||
					len(h.attempts(row)) != runs {
					t.Errorf("without an answer the task is %s, with %d attempts in place of %d", row.Status,
						len(h.attempts(row)), runs)
				}
				for range tt.drives - 1 {
					h.approveAll(row)
					row = h.drive(h.controller(), row.ID, Resume{})
				}
				wantStatus(t, row, store.Completed, "")
				if got := h.digest(row).String(); got != want {
					t.Errorf("outcome digest %s; a run that waited has %s", got, want)
				}
			})
		})
	}
}

// unattended begins a task in a bubble; the first of flows is run.
func unattended(t *testing.T, flows []string, agents map[string]scripted) (*house, *Controller, store.Thread) {
	h := newHouse(t, agents)
	h.clock = time.Now
	c := h.controller()
	return h, c, h.beginFlows(c, Options{}, flows...)
}

func (h *house) openGates(row store.Thread) []store.Gate {
	h.t.Helper()
	open, err := h.controller().Gates().Gates(h.t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen})
	if err != nil {
		h.t.Fatal(err)
	}
	return open
}

func (h *house) approveAll(row store.Thread) int {
	open := h.openGates(row)
	for _, g := range open {
		h.answer(g.ID, true)
	}
	return len(open)
}

// TestAnswersWhileOthersWork: an agent that asks is not ended while others work, whether
// or not anyone waits: the answer reaches its turn.
func TestAnswersWhileOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := "version: 1\nname: test\nroles:\n" + roleLines("read", "a1", "b1", "b2") + unattendedFork("parallel")
		h, c, row := unattended(t, []string{flow}, map[string]scripted{"a1": asks(""), "b1": works, "b2": works})
		go func() {
			time.Sleep(90 * time.Second)
			h.approveAll(row)
		}()
		row = h.drive(c, row.ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if h.runs["a1"] != 1 {
			t.Errorf("a1 ran %d times", h.runs["a1"])
		}
	})
}

// TestWhatWasApprovedRuns: an agent is not ended while a command runs that a person approved,
// even if another of its questions is open.
func TestWhatWasApprovedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, row := unattended(t, []string{one("read", "")}, map[string]scripted{"work": asksBeside})
		began := time.Now()
		go func() {
			time.Sleep(30 * time.Second)
			h.answer(h.openGates(row)[0].ID, true)
		}()
		row = h.drive(c, row.ID, Resume{})
		wantStatus(t, row, store.Blocked, "gate")
		if got := time.Since(began).Round(time.Second); got != 3*time.Minute+30*time.Second {
			t.Errorf("it ended after %s", got)
		}
		if n := len(h.openGates(row)); n != 1 {
			t.Errorf("%d gates are open", n)
		}
	})
}

// TestAnExpiryIsWaitedFor: a question that expires gets an answer by itself, so its agent
// is not ended.
func TestAnExpiryIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{}
		h := newHouse(t, map[string]scripted{"work": a.run})
		h.clock = time.Now
		c := h.controller()
		began := time.Now()
		row := h.drive(c, h.beginFlows(c, Options{ApproveExpires: 3_600_000_000_000}, one("read", "")).ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if got := h.may(row); got != "no" || time.Since(began) < time.Hour {
			t.Errorf("after %s the agent was told %q", time.Since(began), got)
		}
	})
}

// TestAnAgentThatDoesWithoutTheAnswer ends its step anyway: the question is withdrawn.
func TestAnAgentThatDoesWithoutTheAnswer(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		req.Ask(ctx, agent.Question{Text: "May I?", Action: agent.Action{Type: "command", Command: "make"}})
		return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, nil
	}})
	row := h.run(one("read", ""))
	wantStatus(t, row, store.Completed, "")
	if g := h.gates(row.ID, 1)[0]; g.State != store.GateWithdrawn {
		t.Errorf("the gate is %s", g.State)
	}
}
