package control

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// solve calls develop, whose reviewer may send the coder back.
const solve = `
version: 1
name: solve
roles:
  preparer: {description: prepares}
  developer: {flow: develop}
  submitter: {description: submits}
graph:
  $START: {new: {role: preparer, prompt: "{{ prompt }}"}}
  preparer: {ready: {role: developer, prompt: "Work in {{ repoPath }}."}}
  developer: {done: {role: submitter, prompt: "Submit: {{ _body }}"}}
  submitter: {done: {role: $END, prompt: "over"}}
`

const develop = `
version: 1
name: develop
roles:
  planner: {description: plans}
  coder: {description: codes}
graph:
  $START: {new: {role: planner, prompt: "{{ prompt }}"}}
  planner: {ready: {role: coder, prompt: "code"}}
  coder:
    done: {role: $END, prompt: "coded"}
    gave-up: {role: $END, prompt: "no", code: 1}
`

func solveAgents() map[string]scripted {
	return map[string]scripted{
		"preparer":  say(`{"$status":"ready","repoPath":"/somewhere"}`),
		"planner":   say(status("ready")),
		"coder":     say("---\n$status: done\n---\nThe code."),
		"submitter": say(status("done")),
	}
}

func (h *house) beginFlows(c *Controller, o Options, yamls ...string) store.Thread {
	h.t.Helper()
	row, err := c.Begin(h.t.Context(), Spec{Bundle: housetest.Bundle(h.t, yamls...), Prompt: "do it", Workspace: h.dir,
		ID: rootID, Options: o})
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

func TestCall(t *testing.T) {
	var prompts []string
	agents := solveAgents()
	agents["planner"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		prompts = append(prompts, req.Prompt, strings.Join(req.Env, "\n"))
		return say(status("ready"))(ctx, req, emit)
	}
	h := newHouse(t, agents)
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, solve, develop).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"preparer", "developer", "submitter", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	child := h.below(row)["develop"]
	wantStatus(t, child, store.Completed, "")
	steps, err := c.Reader().Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	called := steps[1].State
	if called.ChildThread != child.Head {
		t.Errorf("childThread is %s, want the child's last step %s", called.ChildThread.Short(), child.Head.Short())
	}
	start, err := c.Reader().Start(t.Context(), child.Start)
	if err != nil {
		t.Fatal(err)
	}
	if start.ParentState != steps[0].Hash || start.Depth != 1 || start.Name != "develop" || start.Hash != row.Bundle {
		t.Errorf("the child's start: %+v", start)
	}
	if text, _ := c.Reader().Text(t.Context(), start.Prompt); text != "Work in /somewhere." {
		t.Errorf("the child's prompt is %q", text)
	}
	if text, _ := c.Reader().Text(t.Context(), called.Content); text != "The code." {
		t.Errorf("the call's text is %q", text)
	}
	if string(called.Meta) != `{"$status":"done","returnCode":0,"summary":"coded"}` {
		t.Errorf("the call's meta is %s", called.Meta)
	}
	detail, err := c.Reader().Detail(t.Context(), called.Detail)
	if err != nil || detail.Usage.InputTokens != 20 {
		t.Errorf("usage does not fold up: %+v: %v", detail, err)
	}
	for _, want := range []string{"# Parent context", "/somewhere", "caller's task", steps[0].Hash.String()} {
		if !strings.Contains(prompts[0], want) {
			t.Errorf("%q is not in the child's prompt:\n%s", want, prompts[0])
		}
	}
	if !strings.Contains(prompts[1], "PLAIT_PARENT_STATE="+steps[0].Hash.String()) {
		t.Errorf("the environment does not name the parent's state:\n%s", prompts[1])
	}
}

// A call that is the first step has the caller's start as its parent state.
func TestCallAtOnce(t *testing.T) {
	h := newHouse(t, solveAgents())
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, `
version: 1
name: atonce
roles: {developer: {flow: develop}}
graph:
  $START: {new: {role: developer, prompt: go}}
  developer: {done: {role: $END, prompt: over}}
`, develop).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	start, err := c.Reader().Start(t.Context(), h.below(row)["develop"].Start)
	if err != nil || start.ParentState != row.Start {
		t.Errorf("parentState is %s, want the caller's start: %v", start.ParentState.Short(), err)
	}
}

func TestCallFails(t *testing.T) {
	gaveUp := say("---\n$status: gave-up\n---\nToo hard.")
	t.Run("with a route", func(t *testing.T) {
		agents := solveAgents()
		agents["coder"] = gaveUp
		h := newHouse(t, agents)
		c := h.controller()
		row := h.drive(c, h.beginFlows(c, Options{},
			replaceOnce(solve, "  developer: {done:", "  developer: {failed: {role: $END, code: 3, prompt: \"it "+
				"failed: {{ summary }}\"}, done:"), develop).ID, Resume{})
		wantStatus(t, row, store.Failed, "")
		child := h.below(row)["develop"]
		steps, err := c.Reader().Steps(t.Context(), row.Head)
		if err != nil || steps[1].State.ChildThread != child.Head || child.Status != store.Failed {
			t.Errorf("the failed child is not linked: %v", err)
		}
	})
	t.Run("without one", func(t *testing.T) {
		agents := solveAgents()
		bad := true
		agents["coder"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
			error) {
			if bad {
				return gaveUp(ctx, req, emit)
			}
			return say("---\n$status: done\n---\nThe code.")(ctx, req, emit)
		}
		h := newHouse(t, agents)
		c := h.controller()
		row := h.drive(c, h.beginFlows(c, Options{}, solve, develop).ID, Resume{})
		wantStatus(t, row, store.Blocked, "child")
		bad = false
		row = h.drive(h.controller(), row.ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if h.runs["preparer"] != 1 || h.runs["planner"] != 2 {
			t.Errorf("runs: %v", h.runs)
		}
	})
	t.Run("by running out of attempts", func(t *testing.T) {
		agents := solveAgents()
		agents["coder"] = fails(agent.Refused)
		h := newHouse(t, agents)
		c := h.controller()
		row := h.drive(c, h.beginFlows(c, Options{}, solve, develop).ID, Resume{})
		wantStatus(t, row, store.Blocked, "child")
		if child := h.below(row)["develop"]; child.Status != store.Blocked || child.Reason.Kind != "attempts" {
			t.Errorf("the child is %s %+v", child.Status, child.Reason)
		}
		h.agents["coder"] = solveAgents()["coder"]
		row = h.drive(h.controller(), row.ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if h.runs["planner"] != 1 {
			t.Errorf("runs: %v", h.runs)
		}
	})
}

// An endless recursion stops at the depth limit, and nothing else is written.
func TestRecursion(t *testing.T) {
	again := replaceOnce(replaceOnce(develop, "coder: {description: codes}", "coder: {flow: develop}"),
		"    gave-up: {role: $END, prompt: \"no\", code: 1}\n", "")
	h := newHouse(t, solveAgents())
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{Limits: flow.Limits{MaxDepth: 3}}, solve, again).ID, Resume{})
	wantStatus(t, row, store.Blocked, "child")
	if h.runs["planner"] != 3 {
		t.Errorf("runs: %v", h.runs)
	}
	deepest := 0
	rows, err := h.store.Threads(t.Context(), store.ThreadFilter{Task: row.Task})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		start, err := c.Reader().Start(t.Context(), r.Start)
		if err != nil {
			t.Fatal(err)
		}
		deepest = max(deepest, start.Depth)
		if r.Reason != nil && r.Reason.Kind == "limit" && r.Reason.Limit != "depth" {
			t.Errorf("reason: %+v", r.Reason)
		}
	}
	if deepest != 3 || len(rows) != 4 {
		t.Errorf("depth %d with %d threads, want 3 with 4", deepest, len(rows))
	}
}

// What a child uses counts against its caller.
func TestBudgetIsTheCallers(t *testing.T) {
	h := newHouse(t, solveAgents())
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{Limits: flow.Limits{MaxTokens: 30}}, solve, develop).ID, Resume{})
	wantStatus(t, row, store.Blocked, "limit") // 12 tokens each: the third attempt is the last
	if row.Reason.Limit != "tokens" || h.runs["coder"] != 1 || h.runs["submitter"] != 0 {
		t.Errorf("reason %+v, runs %v", row.Reason, h.runs)
	}
	row = h.drive(h.controller(), row.ID, Resume{Options: Options{Limits: flow.Limits{MaxTokens: 100}}})
	wantStatus(t, row, store.Completed, "")
}

// Input goes to the thread that asked.
func TestInputReachesTheChild(t *testing.T) {
	agents := solveAgents()
	agents["coder"] = say(`{"$status":"$SUSPEND","reason":"which port?"}`, "---\n$status: done\n---\nThe code.")
	h := newHouse(t, agents)
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, solve, develop).ID, Resume{})
	wantStatus(t, row, store.Blocked, "child")
	row = h.drive(h.controller(), row.ID, Resume{Prompt: "8080"})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"planner", "coder", "__input__", "coder", "__end__"},
		h.roles(h.below(row)["develop"])); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
}

// Input to a thread whose called flow failed is told to the next one.
func TestMoreInputForAFailedCall(t *testing.T) {
	agents := solveAgents()
	agents["coder"] = say("---\n$status: gave-up\n---\nToo hard.", "---\n$status: done\n---\nThe code.")
	h := newHouse(t, agents)
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, solve, develop).ID, Resume{})
	wantStatus(t, row, store.Blocked, "child")
	var said []string
	h.agents["planner"] = heard(&said, agents["planner"])
	h.agents["coder"] = say("---\n$status: done\n---\nThe code.")
	row = h.drive(h.controller(), row.ID, Resume{Prompt: "use the other library"})
	wantStatus(t, row, store.Completed, "")
	if len(said) != 1 || !strings.Contains(said[0], "use the other library") {
		t.Errorf("the called flow was told: %q", said)
	}
}

// A path that begins with a call finds its child again after a crash, even if the clock
// has advanced since its parent was made.
func TestCallsOfPathsAreFoundAgain(t *testing.T) {
	agents := solveAgents()
	agents["coder"] = fails(agent.Refused)
	h := newHouse(t, agents)
	now := int64(1_700_000_000_000)
	h.clock = func() time.Time { return time.UnixMilli(atomic.AddInt64(&now, 7)) }
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, `
version: 1
name: split
roles: {left: {flow: develop}, right: {flow: develop}}
forks: {both: {forkStrategy: serial, forkPaths: [{pathId: a, childNodeId: left}, {pathId: b, childNodeId: right}]}}
joins: {met: {forkPathIds: [a, b]}}
graph:
  $START: {new: {role: both, prompt: go}}
  left: {done: {role: met}}
  right: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`, develop).ID, Resume{})
	wantStatus(t, row, store.Blocked, "child")
	h.agents["coder"] = say("---\n$status: done\n---\nThe code.")
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
	if h.runs["planner"] != 2 {
		t.Errorf("runs: %v", h.runs)
	}
}

// The options a task was started with limit it: if they cannot be read, nothing is done.
func TestOptionsThatCannotBeRead(t *testing.T) {
	const calls = `
version: 1
name: calls
roles: {sub: {flow: called}}
graph: {$START: {new: {role: sub, prompt: go}}, sub: {done: {role: $END, prompt: over}}}
`
	const called = `
version: 1
name: called
roles: {work: {description: works}}
graph: {$START: {new: {role: work, prompt: go}}, work: {done: {role: $END, prompt: over}}}
`
	h := newHouse(t, map[string]scripted{"work": say(status("done"))})
	c := h.controller()
	row := h.beginFlows(c, Options{Limits: flow.Limits{MaxDepth: 1}}, calls, called)
	was := row.State()
	row.Options = json.RawMessage(`{"limits": {"maxDepth": "one"}}`)
	if err := h.store.Commit(t.Context(),
		stated(row.Task, store.Batch{Threads: []store.ThreadChange{{Row: row, From: was}}})); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Drive(t.Context(), row.ID, Resume{}); err == nil || !strings.Contains(err.Error(), "options") {
		t.Errorf("drive: %v", err)
	}
	if n := len(h.below(row)); n > 0 {
		t.Errorf("%d threads were made", n)
	}
}
