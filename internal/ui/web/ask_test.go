package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

const askingPaths = `version: 1
name: asking
roles:
  one: {description: asks}
  two: {description: asks}
forks: {split: {forkPaths: [{pathId: a, childNodeId: one}, {pathId: b, childNodeId: two}]}}
joins: {met: {forkPathIds: [a, b]}}
graph:
  $START: {new: {role: split, prompt: "{{ prompt }}"}}
  one: {done: {role: met}}
  two: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`

// suspends returns an agent that asks which one, and continues once its prompt contains the answer.
func suspends(answer string) scripted {
	return func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		if strings.Contains(req.Prompt, answer) {
			return agent.Result{Output: []byte("---\n$status: done\n---\n")}, nil
		}
		return agent.Result{Output: []byte("---\n$status: $SUSPEND\nreason: which " + req.Role + "?\n---\nI looked.")}, nil
	}
}

// TestQuestionsOfRoles answers the questions of two paths of a task that is not driven: one in the
// inbox, the other in its notes. Both resume it.
func TestQuestionsOfRoles(t *testing.T) {
	h := newHouse(t, map[string]scripted{"one": suspends("the blue one"), "two": suspends("the second")})
	row := h.run(askingPaths, "do it")
	s := h.open("")
	page := s.get("/").body
	for _, want := range []string{"which one?", "which two?"} {
		if !strings.Contains(page, want) {
			t.Errorf("the inbox is without %q", want)
		}
	}
	gates := map[string]store.Gate{}
	open, err := h.store.Gates(t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen})
	if err != nil || len(open) != 2 {
		t.Fatalf("%+v, %v", open, err)
	}
	for _, g := range open {
		gates[g.Node] = g
	}
	if res := s.post("/api/v1/tasks/"+row.ID+"/resume", `{"text":"the blue one"}`); res.code != 400 ||
		!strings.Contains(res.body, "several threads wait for input") {
		t.Errorf("words for nobody in particular: %d %s", res.code, res.body)
	}
	s.asks("/api/v1/gates/"+gates["one"].ID+"/answer", `{"text":"the blue one"}`)
	eventually(t, "the path that was answered", func() error {
		if path, err := h.store.Thread(t.Context(), gates["one"].Thread); err != nil || !path.Ended() {
			return fmt.Errorf("%s, %v", path.Status, err)
		}
		return nil
	})
	s.asks("/api/v1/tasks/"+row.ID+"/stop", `{}`) // it is waiting for the other answer; now it is not driven
	eventually(t, "that nobody drives it", func() error {
		if s.srv.work.drives(row.ID) {
			return fmt.Errorf("it is driven")
		}
		return nil
	})
	file := filepath.Join(row.Workspace, ".plait", "tasks", row.ID, "shared", "human-notes.md")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "the second")
	f.Close()
	eventually(t, "the end", func() error {
		if now, err := h.store.Thread(t.Context(), row.ID); err != nil || now.Status != store.Completed {
			return fmt.Errorf("%s, %v", now.Status, err)
		}
		return nil
	})
}

// TestApprovalsPending looks at a task of two agents that wait for approvals: they are shown as waiting, not as
// running, and both are counted.
func TestApprovalsPending(t *testing.T) {
	ask := func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		_, err := req.Ask(ctx, agent.Question{Text: "May I?",
			Action: agent.Action{Type: "command", Command: "make " + req.Role}})
		return agent.Result{Output: []byte("---\n$status: done\n---\n")}, err
	}
	h := newHouse(t, map[string]scripted{"one": ask, "two": ask})
	row := h.begin(askingPaths, "do it")
	s := h.open("")
	s.asks("/api/v1/tasks/"+row.ID+"/resume", `{}`)
	var open []store.Gate
	eventually(t, "both approvals", func() (err error) {
		open, err = h.store.Gates(t.Context(), store.GateFilter{Task: row.ID, State: store.GateOpen})
		if err == nil && len(open) != 2 {
			err = fmt.Errorf("%d gates are open", len(open))
		}
		return err
	})
	page := s.get("/tasks/" + row.ID).body
	if n := strings.Count(page, `class="item bar running waiting`); n != 2 {
		t.Errorf("%d bars wait", n)
	}
	if n := strings.Count(page, `class="title lane needs-you"`); n != 2 {
		t.Errorf("%d lanes wait", n)
	}
	if n := strings.Count(page, `<section class="strip`); n != 2 || !strings.Contains(page, "needs you · 2") {
		t.Errorf("%d approvals are shown", n)
	}
	if n := strings.Count(page, `<section class="card asked" id="gate-`); n != 1 {
		t.Errorf("%d approvals can be decided", n)
	}
	for _, g := range open {
		s.asks("/api/v1/gates/"+g.ID+"/approve", `{}`)
	}
	h.ends(row.ID, store.Completed)
}

// TestTellMore sends text to a task that is being driven: it is recorded and passed on.
func TestTellMore(t *testing.T) {
	begun, let := make(chan string, 2), make(chan struct{})
	work := func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		if req.Visit == 0 {
			begun <- req.Thread
			<-let
		}
		return agent.Result{Output: []byte("---\n$status: done\n---\n")}, nil
	}
	h := newHouse(t, map[string]scripted{"one": work, "two": work})
	row := h.begin(askingPaths, "do it")
	s := h.open("")
	s.asks("/api/v1/tasks/"+row.ID+"/resume", `{}`)
	<-begun
	<-begun
	if page := s.get("/tasks/" + row.ID).body; !strings.Contains(page, "Message to the agents") {
		t.Error("the page has no place for it")
	}
	res := s.post("/api/v1/tasks/"+row.ID+"/resume", `{"text":"mind the roof"}`)
	if res.code != 200 || !strings.Contains(res.body, `"recorded":true`) {
		t.Errorf("%d %s", res.code, res.body)
	}
	close(let)
	eventually(t, "what was said", func() error {
		if roles := h.roles(row.ID); !slices.Contains(roles, thread.RoleInput) {
			return fmt.Errorf("%v", roles)
		}
		return nil
	})
}

// TestQuestionOfCodex answers, in a real browser, a question that the real Codex asks in its answer: the same
// session continues, driven by the page, and remembers what was said.
func TestQuestionOfCodex(t *testing.T) {
	h := newHouse(t, nil)
	h.useCodex(scenarioFile(t, `
turns:
- when: {contains: [the second], nth: 2}
  steps:
  - items: [{answer: {auto: true, text: It is the second.}}]
- steps:
  - items: [{answer: "---\n$status: $SUSPEND\nreason: which one?\n---\n"}]
`))
	row := h.run(`
version: 1
name: asks
roles: {one: {description: asks which one}}
graph: {$START: {new: {role: one, prompt: "{{ prompt }}"}}, one: {done: {role: $END, prompt: "{{ _body }}"}}}
`, "Ask me")
	if g := h.gate(row.ID); g.Kind != store.GateInput || g.Instance != "one" {
		t.Fatalf("the question is %+v", g)
	}
	b := h.open("").browse()
	b.visit("/")
	b.shows("which one?")
	b.visit("/tasks/" + row.ID)
	b.do(chromedp.SetValue(chromedp.CSS(".strip input[name=text]"), "the second"),
		chromedp.Click(chromedp.CSS(".strip form button.yes")))
	b.shows("It is the second.")
	h.ends(row.ID, store.Completed)
}

// scenarioFile writes a scenario for the scripted model to a file.
func scenarioFile(t *testing.T, yaml string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
