package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// Each test here checks one thing that joins elsewhere get wrong.

// hangs is an agent that works until it is stopped.
func hangs(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	<-ctx.Done()
	return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
}

// after is an agent that waits until something has happened.
func after(what <-chan struct{}, a scripted) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		select {
		case <-what:
			return a(ctx, req, emit)
		case <-ctx.Done():
			return hangs(ctx, req, emit)
		}
	}
}

func yes(text string) scripted { return say("---\n$status: done\n---\n" + text) }

// untilPaths returns when n paths have the status.
func (h *house) untilPaths(ctx context.Context, status store.Status, n int) {
	for pos := int64(0); ; {
		rows, err := h.store.Threads(ctx, store.ThreadFilter{Kind: store.KindPath, Statuses: []store.Status{status}})
		if err != nil || len(rows) >= n {
			return
		}
		if pos, err = h.store.Wait(ctx, pos); err != nil {
			return
		}
	}
}

// Defect 1: the main path's history already contains the parent's; appending it
// repeated everything before the fork.
func TestJoinReadsThePrefixOnce(t *testing.T) {
	var told string
	agents := surveyAgents()
	agents["plan"] = say("---\n$status: ready\nwhat: the API\n---\nThe plan.")
	agents["report"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		told = req.Prompt
		return say(status("done"))(ctx, req, emit)
	}
	h := newHouse(t, agents)
	row := h.run(survey)
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"plan", "api", "more", "seen", "report", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if row.Steps != 6 {
		t.Errorf("the row counts %d steps", row.Steps)
	}
	for _, said := range []string{"The plan.", "The API.", "More of it."} {
		if n := strings.Count(told, said); n != 1 {
			t.Errorf("%q stands %d times in the prompt after the join:\n%s", said, n, told)
		}
	}
}

// Defect 3: if another path decided while the main one was at work, the join failed.
func TestAnyWhileTheMainPathRuns(t *testing.T) {
	agents := surveyAgents()
	began := make(chan struct{})
	agents["api"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		close(began)
		return hangs(ctx, req, emit)
	}
	agents["db"], agents["ui"] = after(began, yes("The database.")), hangs
	h := newHouse(t, agents)
	row := h.run(withJoin("joinStrategy: ANY_COMPLETED"))
	wantStatus(t, row, store.Completed, "")
	join, meta := h.joinOf(row, "seen")
	if meta["decidedBy"] != "b" || join.State.Ancestors[0] != h.below(row)["b"].Head {
		t.Errorf("the join follows %s: %v", join.State.Ancestors[0].Short(), meta)
	}
	if diff := cmp.Diff([]string{"plan", "db", "seen", "report", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
}

// Defect 4: the losing paths kept working after the join.
func TestLosersAreCancelled(t *testing.T) {
	stopped := make(chan string, 2)
	agents := surveyAgents()
	began := make(chan struct{}, 2)
	loses := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		began <- struct{}{}
		r, err := hangs(ctx, req, emit)
		stopped <- req.Role
		return r, err
	}
	both := make(chan struct{})
	go func() { <-began; <-began; close(both) }()
	agents["api"], agents["db"], agents["ui"] = after(both, yes("Mine.")), loses, loses
	h := newHouse(t, agents)
	h.agents["report"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		if len(stopped) != 2 {
			t.Errorf("%d of 2 losers have stopped when the join's step is there", len(stopped))
		}
		return say(status("done"))(ctx, req, emit)
	}
	row := h.run(withJoin("joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 1"))
	wantStatus(t, row, store.Completed, "")
	join, _ := h.joinOf(row, "seen")
	for i, want := range []store.Status{store.Completed, store.Cancelled, store.Cancelled} {
		p := join.State.Paths[i]
		kept, err := h.store.Thread(t.Context(), p.Thread)
		if err != nil || p.Status != want || kept.Status != want || kept.EndedAt == 0 {
			t.Errorf("path %s is %s in the join and %s in the index, want %s: %v", p.ID, p.Status, kept.Status, want,
				err)
		}
	}
	attempts, err := h.store.Attempts(t.Context(), store.AttemptFilter{Task: row.Task, Status: store.AttemptCancelled})
	if err != nil || len(attempts) != 2 {
		t.Errorf("%d attempts were cancelled: %v", len(attempts), err)
	}
}

// nested forks inside a path, and calls a flow that forks.
const nested = `
version: 1
name: nested
roles:
  left: {description: works}
  deep: {description: works}
  deeper: {description: works}
  right: {flow: test}
  last: {description: ends}
forks:
  outer: {forkPaths: [{pathId: l, childNodeId: left}, {pathId: r, childNodeId: right}]}
  inner: {forkStrategy: serial, forkPaths: [{pathId: x, childNodeId: deep}, {pathId: y, childNodeId: deeper}]}
joins:
  out: {forkPathIds: [l, r]}
  in: {forkPathIds: [x, y], mainPathId: y}
graph:
  $START: {new: {role: outer, prompt: "{{ prompt }}"}}
  left: {done: {role: inner, prompt: "deeper"}}
  deep: {done: {role: in}}
  deeper: {done: {role: in}}
  in: {joined: {role: out}}
  right: {done: {role: out}}
  out: {joined: {role: last, prompt: "{{ paths.l.text | size }} {{ paths.r.status }}"}}
  last: {done: {role: $END, prompt: "over"}}
`

// Defect 5: forks could be written and checked, but never ran inside a graph.
func TestForksInsideAGraphRun(t *testing.T) {
	agents := surveyAgents()
	for _, role := range []string{"left", "deep", "deeper", "last"} {
		agents[role] = yes(role + " worked.")
	}
	h := newHouse(t, agents)
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, nested, survey).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"left", "deeper", "in", "out", "last", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	for _, role := range []string{"left", "deep", "deeper", "plan", "api", "more", "db", "ui", "report", "last"} {
		if h.runs[role] != 1 {
			t.Errorf("%s ran %d times", role, h.runs[role])
		}
	}
	threads, err := h.store.Threads(t.Context(), store.ThreadFilter{Task: row.Task})
	if err != nil || len(threads) != 9 { // the root, 2 paths, 2 in one, a call in the other, 3 in that
		t.Errorf("%d threads: %v", len(threads), err)
	}
	for _, p := range threads {
		if p.Status != store.Completed {
			t.Errorf("thread %s %+v is %s", p.ID, p.Path, p.Status)
		}
	}
}

// Defect 6: a timeout of 0 became 30 seconds.
func TestTimeoutZeroIsForEver(t *testing.T) {
	for _, tt := range []struct{ timeout, outcome string }{{"0", "joined"}, {"1h", "timeout"}} {
		synctest.Test(t, func(t *testing.T) {
			agents := surveyAgents()
			agents["db"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				select {
				case <-time.After(3 * time.Hour):
					return yes("At last.")(ctx, req, emit)
				case <-ctx.Done():
					return hangs(ctx, req, emit)
				}
			}
			agents["api"], agents["ui"] = yes("Soon."), yes("Soon.")
			h := newHouse(t, agents)
			h.clock = time.Now
			began := time.Now()
			row := h.run(withJoin("timeout: " + tt.timeout))
			wantStatus(t, row, store.Completed, "")
			_, meta := h.joinOf(row, "seen")
			if meta["$status"] != tt.outcome {
				t.Errorf("timeout %s: the join came to %v after %s", tt.timeout, meta["$status"], time.Since(began))
			}
			if late := time.Since(began) > 2*time.Hour; late != (tt.outcome == "joined") {
				t.Errorf("timeout %s: it took %s", tt.timeout, time.Since(began))
			}
		})
	}
}

// Defect 7: one failure made ALL_COMPLETED wait forever, and ALL_FAILED waited for
// paths to complete.
func TestOneFailureEndsAllAtOnce(t *testing.T) {
	agents := surveyAgents()
	agents["api"], agents["db"], agents["ui"] = hangs, fails(agent.Refused), hangs
	h := newHouse(t, agents)
	row := h.run(withJoin("joinStrategy: ALL_COMPLETED"))
	wantStatus(t, row, store.Completed, "")
	if _, meta := h.joinOf(row, "seen"); meta["$status"] != "failed" || meta["decidedBy"] != "b" {
		t.Errorf("ALL_COMPLETED: %v", meta)
	}
	agents["api"], agents["ui"] = fails(agent.Refused), fails(agent.Refused)
	h = newHouse(t, agents)
	row = h.run(withJoin("joinStrategy: ALL_FAILED"))
	wantStatus(t, row, store.Completed, "")
	if _, meta := h.joinOf(row, "seen"); meta["$status"] != "joined" {
		t.Errorf("ALL_FAILED: %v", meta)
	}
}

// Defect 9: paths that had ended before anyone waited at the join were missed.
func TestPathsThatEndedBeforeTheJoinCount(t *testing.T) {
	// A process dies when two of three paths have ended; only the next one begins to
	// wait.
	agents := surveyAgents()
	agents["api"], agents["db"], agents["ui"] = yes("One."), yes("Two."), hangs
	h := newHouse(t, agents)
	c := h.controller()
	flow := withJoin("joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 3")
	row := h.begin(c, flow)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { h.untilPaths(ctx, store.Completed, 2); cancel() }()
	if _, err := c.Drive(ctx, row.ID, Resume{}); err == nil {
		t.Fatal("it was not interrupted")
	}
	h.agents["ui"] = yes("Three.")
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	join, meta := h.joinOf(row, "seen")
	ended := func(p int) string { return fmt.Sprint(join.State.Paths[p].ID, " ", join.State.Paths[p].Status) }
	if got := []string{ended(0), ended(1), ended(2)}; meta["$status"] != "joined" ||
		!slices.Equal(got, []string{"a completed", "b completed", "c completed"}) {
		t.Errorf("the join came to %v with %v", meta["$status"], got)
	}
	if h.runs["api"] != 1 || h.runs["db"] != 1 {
		t.Errorf("what had ended was run again: %v", h.runs)
	}
}
