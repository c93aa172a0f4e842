package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// survey forks into three paths, of which the first has two steps.
const survey = `
version: 1
name: test
roles:
  plan: {description: plans}
  api: {description: reads}
  more: {description: reads on}
  db: {description: reads}
  ui: {description: reads}
  report: {description: reports}
forks:
  look:
    forkPaths:
      - {pathId: a, childNodeId: api, prompt: "read {{ what }}"}
      - {pathId: b, childNodeId: db}
      - {pathId: c, childNodeId: ui}
joins:
  seen: {forkPathIds: [a, b, c]}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {ready: {role: look, prompt: "look"}}
  api: {done: {role: more, prompt: "go on"}}
  more: {done: {role: seen}}
  db: {done: {role: seen}}
  ui: {done: {role: seen}}
  seen:
    joined: {role: report, prompt: "{{ paths.b.meta.n }} {{ paths.c.text }} {{ decidedBy }}"}
  report: {done: {role: $END, prompt: "over"}}
`

func surveyAgents() map[string]scripted {
	return map[string]scripted{
		"plan":   say(`{"$status":"ready","what":"the API"}`),
		"api":    say("---\n$status: done\n---\nThe API."),
		"more":   say("---\n$status: done\n---\nMore of it."),
		"db":     say("---\n$status: done\nn: 7\n---\nThe database."),
		"ui":     say("---\n$status: done\n---\nThe page."),
		"report": say(status("done")),
	}
}

// joinOf returns the step of the join, and its meta.
func (h *house) joinOf(row store.Thread, node string) (thread.Step, map[string]any) {
	h.t.Helper()
	steps, err := h.controller().Reader().Steps(h.t.Context(), row.Head)
	if err != nil {
		h.t.Fatal(err)
	}
	i := slices.IndexFunc(steps, func(s thread.Step) bool { return s.State.Role == node })
	if i < 0 {
		h.t.Fatalf("no step of %s among %v", node, h.roles(row))
	}
	var meta map[string]any
	if err := json.Unmarshal(steps[i].State.Meta, &meta); err != nil {
		h.t.Fatal(err)
	}
	return steps[i], meta
}

// below returns the threads under a row by what they are: path ids and flows.
func (h *house) below(row store.Thread) map[string]store.Thread {
	h.t.Helper()
	rows, err := h.store.Threads(h.t.Context(), store.ThreadFilter{Task: row.Task})
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]store.Thread{}
	for _, r := range rows {
		switch {
		case r.Path != nil && r.Path.N > 1:
			out[r.Path.ID+"+"] = r
		case r.Path != nil:
			out[r.Path.ID] = r
		case r.Parent != nil:
			out[r.Flow] = r
		}
	}
	return out
}

func TestForkAndJoin(t *testing.T) {
	for _, strategy := range []string{"parallel", "serial"} {
		t.Run(strategy, func(t *testing.T) {
			var said sync.Map
			agents := surveyAgents()
			for role, a := range agents {
				agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
					error) {
					said.Store(role, req.Prompt)
					return a(ctx, req, emit)
				}
			}
			h := newHouse(t, agents)
			row := h.run(withStrategy(survey, strategy))
			wantStatus(t, row, store.Completed, "")
			// Walking back reads the main path once, then what was before the fork.
			if diff := cmp.Diff([]string{"plan", "api", "more", "seen", "report", "__end__"},
				h.roles(row)); diff != "" {
				t.Errorf("roles: -want +got\n%s", diff)
			}
			join, meta := h.joinOf(row, "seen")
			paths := h.below(row)
			want := []thread.PathHead{}
			for _, id := range []string{"a", "b", "c"} {
				want = append(want, thread.PathHead{ID: id, Thread: paths[id].ID, Head: paths[id].Head,
					Status: store.Completed})
			}
			if diff := cmp.Diff(want, join.State.Paths); diff != "" {
				t.Errorf("paths: -want +got\n%s", diff)
			}
			if join.State.Ancestors[0] != paths["a"].Head || join.State.Fork != paths["a"].Path.Fork {
				t.Error("the join does not follow the main path, or does not name its fork")
			}
			if meta["$status"] != "joined" || meta["decidedBy"] != nil {
				t.Errorf("meta: %v", meta)
			}
			text, err := h.controller().Reader().Text(t.Context(), join.State.Content)
			if err != nil || text != "## a\n\nMore of it.\n\n## b\n\nThe database.\n\n## c\n\nThe page.\n" {
				t.Errorf("text %q: %v", text, err)
			}
			prompt, _ := said.Load("api")
			if !contains(prompt, "read the API") {
				t.Errorf("the path's own prompt is not in:\n%s", prompt)
			}
			prompt, _ = said.Load("report")
			if !contains(prompt, "7 The page.") {
				t.Errorf("the join's variables are not in:\n%s", prompt)
			}
			if n := h.events(row.ID, "thread.joined"); n != 1 {
				t.Errorf("%d events thread.joined", n)
			}
		})
	}
}

func TestStrategies(t *testing.T) {
	bad := func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
	}
	hangs := func(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
	good := say("---\n$status: done\n---\nYes.")
	var h *house
	// late is good once the first path has ended.
	late := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		for pos := int64(0); ; {
			rows, err := h.store.Threads(ctx, store.ThreadFilter{})
			if err != nil {
				return agent.Result{}, err
			}
			if slices.ContainsFunc(rows, func(r store.Thread) bool {
				return r.Path != nil && r.Path.ID == "a" &&
					r.Ended()
			}) {
				return good(ctx, req, emit)
			}
			if pos, err = h.store.Wait(ctx, pos); err != nil {
				return agent.Result{}, err
			}
		}
	}
	for _, tt := range []struct {
		name    string
		join    string
		a, b, c scripted
		outcome string
		by      any
		main    string // whose head the join follows, "" the fork
		states  [3]store.Status
	}{
		{"all, one fails", "joinStrategy: ALL_COMPLETED", hangs, bad, hangs, "failed", "b", "",
			[3]store.Status{"cancelled", "failed", "cancelled"}},
		{"any, the main one", "joinStrategy: ANY_COMPLETED", good, hangs, hangs, "joined", "a", "a",
			[3]store.Status{"completed", "cancelled", "cancelled"}},
		{"any, not the main one", "joinStrategy: ANY_COMPLETED", hangs, good, hangs, "joined", "b", "b",
			[3]store.Status{"cancelled", "completed", "cancelled"}},
		{"any, the first fails", "joinStrategy: ANY_COMPLETED", bad, hangs, late, "joined", "c", "c",
			[3]store.Status{"failed", "cancelled", "completed"}},
		{"any, none", "joinStrategy: ANY_COMPLETED", bad, bad, bad, "failed", nil, "",
			[3]store.Status{"failed", "failed", "failed"}},
		{"all failed", "joinStrategy: ALL_FAILED", bad, bad, bad, "joined", nil, "a",
			[3]store.Status{"failed", "failed", "failed"}},
		{"all failed, not so", "joinStrategy: ALL_FAILED", hangs, good, hangs, "failed", "b", "",
			[3]store.Status{"cancelled", "completed", "cancelled"}},
		{"any failed", "joinStrategy: ANY_FAILED", hangs, hangs, bad, "joined", "c", "c",
			[3]store.Status{"cancelled", "cancelled", "failed"}},
		{"any failed, none", "joinStrategy: ANY_FAILED", good, good, good, "failed", nil, "",
			[3]store.Status{"completed", "completed", "completed"}},
		{"threshold", "joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 2", hangs, good, good, "joined", "-", "-",
			[3]store.Status{"cancelled", "completed", "completed"}},
		{"threshold out of reach", "joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 2", bad, hangs, bad, "failed",
			"-", "", [3]store.Status{"failed", "cancelled", "failed"}},
		{"another main path", "joinStrategy: ALL_COMPLETED, mainPathId: c", good, good, good, "joined", nil, "c",
			[3]store.Status{"completed", "completed", "completed"}},
		{"time", "joinStrategy: ALL_COMPLETED, timeout: 300ms", good, hangs, hangs, "timeout", nil, "",
			[3]store.Status{"completed", "cancelled", "cancelled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agents := surveyAgents()
			agents["api"], agents["db"], agents["ui"] = tt.a, tt.b, tt.c
			h = newHouse(t, agents)
			row := h.run(withJoin(tt.join))
			wantStatus(t, row, store.Completed, "")
			join, meta := h.joinOf(row, "seen")
			if meta["$status"] != tt.outcome || tt.by != "-" && meta["decidedBy"] != tt.by {
				t.Errorf("meta: %v", meta)
			}
			after := join.State.Fork
			for i, p := range join.State.Paths {
				if p.Status != tt.states[i] {
					t.Errorf("path %s is %s, want %s", p.ID, p.Status, tt.states[i])
				}
				if p.ID == tt.main || tt.main == "-" && p.ID == meta["decidedBy"] {
					after = p.Head
				}
			}
			if join.State.Ancestors[0] != after {
				t.Errorf("the join follows %s, want %s", join.State.Ancestors[0].Short(), after.Short())
			}
			for id, p := range h.below(row) {
				if !p.Ended() {
					t.Errorf("path %s is %s after the join", id, p.Status)
				}
			}
		})
	}
}

// A join that is not met and has no route for that blocks; a resume continues only the
// paths that did not complete.
func TestResumeOfAJoin(t *testing.T) {
	fail := true
	agents := surveyAgents()
	agents["db"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if fail {
			return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
		}
		return say("---\n$status: done\nn: 7\n---\nThe database.")(ctx, req, emit)
	}
	h := newHouse(t, agents)
	row := h.run(withStrategy(survey, "serial"))
	wantStatus(t, row, store.Blocked, "join")
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "join")
	fail = false
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.runs["api"] != 1 || h.runs["more"] != 1 || h.runs["db"] != 3 || h.runs["ui"] != 1 {
		t.Errorf("runs: %v", h.runs)
	}
	whole := newHouse(t, surveyAgents())
	if h.digest(row) != whole.digest(whole.run(withStrategy(survey, "serial"))) {
		t.Error("the outcome differs from that of an undisturbed run")
	}
}

func TestCancelReachesPaths(t *testing.T) {
	agents := surveyAgents()
	begun := make(chan struct{}, 3)
	for _, role := range []string{"api", "db", "ui"} {
		agents[role] = func(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}
	}
	h := newHouse(t, agents)
	c := h.controller()
	row := h.begin(c, survey)
	told := make(chan error)
	go func() {
		for range 3 {
			<-begun
		}
		_, err := h.controller().Cancel(context.Background(), row.ID)
		told <- err
	}()
	row = h.drive(c, row.ID, Resume{})
	if err := <-told; err != nil {
		t.Error(err)
	}
	wantStatus(t, row, store.Cancelled, "")
	for id, p := range h.below(row) {
		if p.Status != store.Cancelled {
			t.Errorf("path %s is %s", id, p.Status)
		}
	}
}

func TestInterruptedPathsGoOn(t *testing.T) {
	begun := make(chan struct{}, 3)
	block := true
	agents := surveyAgents()
	for _, role := range []string{"db", "ui"} {
		whole := agents[role]
		agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
			error) {
			if !block {
				return whole(ctx, req, emit)
			}
			begun <- struct{}{}
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}
	}
	h := newHouse(t, agents)
	c := h.controller()
	row := h.begin(c, survey)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; <-begun; cancel() }()
	if _, err := c.Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
		t.Fatal(err)
	}
	block = false
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.runs["plan"] != 1 || h.runs["db"] != 2 || h.runs["ui"] != 2 || h.runs["api"] > 2 {
		t.Errorf("runs: %v", h.runs)
	}
}

func withStrategy(yaml, strategy string) string {
	return replaceOnce(yaml, "  look:\n", "  look:\n    forkStrategy: "+strategy+"\n")
}

// withJoin is survey with one step in each path, another join, and a route for
// every outcome.
func withJoin(join string) string {
	yaml := replaceOnce(survey, "api: {done: {role: more, prompt: \"go on\"}}", "api: {done: {role: seen}}")
	yaml = replaceOnce(yaml, "  more: {description: reads on}\n", "")
	yaml = replaceOnce(yaml, "  more: {done: {role: seen}}\n", "")
	yaml = replaceOnce(yaml, "[a, b, c]}", "[a, b, c], "+join+"}")
	return replaceOnce(yaml, `    joined: {role: report, prompt: "{{ paths.b.meta.n }} {{ paths.c.text }} {{ `+
		`decidedBy }}"}`, `    joined: {role: report, prompt: "yes"}
    failed: {role: report, prompt: "no"}
    timeout: {role: report, prompt: "late"}`)
}
