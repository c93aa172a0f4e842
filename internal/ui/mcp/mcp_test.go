package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

// byDefault is who answers if nothing is configured.
var byDefault = config.Answering{Questions: config.ByPerson, Approvals: config.ByNobody}

const two = `version: 1
name: two
description: One writes, one reviews.
roles:
  writer: {description: Writes.}
  reviewer:
    description: Reviews.
    frontmatter: {properties: {$status: {const: fine}, score: {type: integer}}, required: [$status, score]}
graph:
  $START: {new: {role: writer, prompt: "{{ prompt }}"}}
  writer: {done: {role: reviewer, prompt: "Review it."}}
  reviewer: {fine: {role: $END, prompt: "reviewed"}}
`

func says(text string) actor {
	return func(context.Context, agent.Request) (string, error) { return text, nil }
}

// TestATaskFromStartToResult follows a model that starts a team, step by step.
func TestATaskFromStartToResult(t *testing.T) {
	hold := make(chan struct{})
	h := newHouse(t, byDefault, map[string]actor{
		"writer": func(ctx context.Context, req agent.Request) (string, error) {
			if !strings.Contains(req.Prompt, "about rivers") {
				t.Errorf("the writer is not told what to do:\n%s", req.Prompt)
			}
			select {
			case <-hold:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			return "---\n$status: done\n---\nA poem about rivers.", nil
		},
		"reviewer": says("---\n$status: fine\nscore: 7\n---\nIt is a fine poem."),
	})
	h.flow("two", two)
	h.connect()
	var flows flowList
	h.must("list_flows", nil, &flows)
	names := map[string]string{}
	for _, f := range flows.Flows {
		names[f.Name] = f.From
	}
	if names["two"] != "registry" || names["orchestrate"] != "built-in" || names["worker"] != "" {
		t.Errorf("flows: %v", flows.Flows)
	}
	h.refused("task_status", nil, "no task was started here yet")
	var v taskStatus
	h.must("start_task", map[string]any{"flow": "two", "prompt": "Write about rivers"}, &v)
	if v.Task == "" || v.Title != "Write about rivers" || v.State != "queued" && v.State != "running" {
		t.Fatalf("started: %+v", v)
	}
	id := v.Task
	h.must("wait_task", map[string]any{"task": id, "seconds": 1}, &v)
	if v.State != "running" || v.Next != "call wait_task" {
		t.Errorf("while the writer writes: %+v", v)
	}
	close(hold)
	v = h.waited("") // the newest task
	if v.Task != id || v.State != "done" || len(v.Agents) != 2 || v.Tokens != 24 || v.Next != "call read_task for the result" {
		t.Errorf("at the end: %+v", v)
	}
	select {
	case line := <-h.heard:
		if !strings.Contains(line, " working") {
			t.Errorf("progress says %q", line)
		}
	case <-time.After(time.Minute):
		t.Error("nothing was heard of the progress")
	}
	var r reading
	h.must("read_task", map[string]any{"task": id}, &r)
	fields, _ := json.Marshal(r.Fields)
	if r.Text != "reviewed" || !strings.Contains(string(fields), `"score":7`) {
		t.Errorf("result: %+v", r)
	}
	h.must("read_task", map[string]any{"task": id, "part": "steps"}, &r)
	if len(r.Steps) != 3 || r.Steps[0].Role != "writer" || r.Steps[1].Status != "fine" {
		t.Errorf("steps: %+v", r.Steps)
	}
	h.must("read_task", map[string]any{"task": id, "part": "step", "step": 1}, &r)
	if r.Text != "A poem about rivers." {
		t.Errorf("step 1: %+v", r)
	}
	h.refused("read_task", map[string]any{"task": id, "part": "step", "step": 9}, "steps 1 to 3")
	h.refused("read_task", map[string]any{"task": id, "part": "all"}, "use result, steps, step or evidence")
	h.must("read_task", map[string]any{"task": id, "part": "evidence"}, &r)
}

// TestWhatMayNotBeStarted tries the ways in which a model could get more than it was given.
func TestWhatMayNotBeStarted(t *testing.T) {
	h := newHouse(t, byDefault, nil)
	file := write(t, h.cfg.Workspace, ".plait/flows/mine.yaml", strings.Replace(two, "name: two", "name: mine", 1))
	h.connect()
	h.refused("start_task", map[string]any{"prompt": "x", "flow": "mine"}, "nobody agreed to flow mine")
	for _, name := range []string{file, "../mine", "mine.yaml", "./mine", "-p"} {
		h.refused("start_task", map[string]any{"prompt": "x", "flow": name}, "is not the name of a flow")
	}
	h.refused("start_task", map[string]any{"prompt": " "}, "prompt is empty")
	for _, arg := range []string{"access", "trust", "approve", "agent", "limits", "workspace"} {
		h.refused("start_task", map[string]any{"prompt": "x", "flow": "solo", arg: "full"}, arg)
	}
	rows, err := h.cfg.Store.Threads(t.Context(), store.ThreadFilter{})
	if err != nil || len(rows) != 0 {
		t.Errorf("there are %d threads: %v", len(rows), err)
	}
}

const asks = `version: 1
name: asks
roles:
  writer: {description: Writes.}
gates:
  which: {kind: input, question: "Which colour?"}
  go: {kind: approval, question: "Publish it?"}
graph:
  $START: {new: {role: which, prompt: ""}}
  which: {answered: {role: go}}
  go: {approved: {role: writer, prompt: "Paint it {{ answer }}."}, rejected: {role: $END, prompt: "not published"}}
  writer: {done: {role: $END, prompt: "painted"}}
`

// start begins the flow that asks twice, and returns its first question.
func (h *house) start() (task string, q question) {
	h.t.Helper()
	h.flow("asks", asks)
	h.connect()
	var v taskStatus
	h.must("start_task", map[string]any{"flow": "asks", "prompt": "Paint"}, &v)
	if now := h.waited(v.Task); now.State != "needs you" || now.Next != "call open_questions" || now.Questions != 1 {
		h.t.Fatalf("it asks: %+v", now)
	}
	return v.Task, h.question(v.Task)
}

func (h *house) question(task string) question {
	h.t.Helper()
	var list questionList
	h.must("open_questions", map[string]any{"task": task}, &list)
	if len(list.Questions) != 1 {
		h.t.Fatalf("questions: %+v", list)
	}
	return list.Questions[0]
}

// TestThePersonAtTheClientAnswers checks that what the person wrote is what is recorded, and that approvals are not
// given through the client unless a person has configured that.
func TestThePersonAtTheClientAnswers(t *testing.T) {
	for _, approvals := range []config.Answerer{config.ByNobody, config.ByPerson} {
		h := newHouse(t, config.Answering{Questions: config.ByPerson, Approvals: approvals},
			map[string]actor{"writer": says("---\n$status: done\n---\npainted")})
		asked, reply := []string{}, map[string]any{"answer": "green"}
		h.elicit = func(p *sdk.ElicitParams) *sdk.ElicitResult {
			asked = append(asked, p.Message)
			return &sdk.ElicitResult{Action: "accept", Content: reply}
		}
		id, q := h.start()
		if q.Kind != "question" || q.Question != "Which colour?" || q.How != "call answer: your user is asked" {
			t.Errorf("question: %+v", q)
		}
		var a answered
		h.must("answer", map[string]any{"question": q.ID, "text": "red"}, &a)
		g, err := h.cfg.Store.Gate(t.Context(), q.ID)
		if err != nil || g.Text != "green" || g.By != "ann" || g.Via != store.ViaMCP || g.State != store.GateAnswered {
			t.Errorf("recorded: %+v, %v", g, err)
		}
		if len(asked) != 1 || !strings.Contains(asked[0], "Which colour?") {
			t.Errorf("asked: %q", asked)
		}
		h.refused("answer", map[string]any{"question": q.ID, "text": "blue"}, "already answered")
		h.waited(id)
		q = h.question(id)
		if q.Kind != "approval" || !strings.Contains(fmt.Sprint(q.Action), "Publish it?") {
			t.Errorf("approval: %+v", q)
		}
		reply = map[string]any{"answer": "approve"}
		if approvals == config.ByNobody {
			h.refused("answer", map[string]any{"question": q.ID, "text": "approve"}, "plait approve "+q.ID)
			if g, err = h.cfg.Store.Gate(t.Context(), q.ID); err != nil || g.State != store.GateOpen || len(asked) != 1 {
				t.Errorf("after a refusal: %+v, %v, asked %q", g, err, asked)
			}
			continue
		}
		reply = map[string]any{"answer": "yes, of course"}
		h.refused("answer", map[string]any{"question": q.ID, "text": "approve"}, "does not equal any of")
		if g, err = h.cfg.Store.Gate(t.Context(), q.ID); err != nil || g.State != store.GateOpen {
			t.Errorf("after words that decide nothing: %+v, %v", g, err)
		}
		reply = map[string]any{"answer": "approve"}
		h.must("answer", map[string]any{"question": q.ID}, &a)
		if v := h.waited(id); v.State != "done" {
			t.Errorf("after the approval: %+v", v)
		}
	}
}

// TestWhoDeclinesHasNotAnswered checks that closing a form answers nothing.
func TestWhoDeclinesHasNotAnswered(t *testing.T) {
	h := newHouse(t, byDefault, nil)
	h.elicit = func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "cancel"} }
	_, q := h.start()
	h.refused("answer", map[string]any{"question": q.ID, "text": "red"}, "did not answer", "plait answer "+q.ID)
	if g, err := h.cfg.Store.Gate(t.Context(), q.ID); err != nil || g.State != store.GateOpen {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestAClientThatCannotAsk checks that such a client is told which command its user can run.
func TestAClientThatCannotAsk(t *testing.T) {
	h := newHouse(t, byDefault, nil)
	_, q := h.start()
	h.refused("answer", map[string]any{"question": q.ID, "text": "red"}, "cannot ask your user", "plait answer "+q.ID)
}

// TestNameOfTheProgram checks that suggested commands begin with the name of another program.
func TestNameOfTheProgram(t *testing.T) {
	h := newHouse(t, byDefault, nil)
	h.cfg.Program = taskdir.Program{Name: "plaitd", Verbs: []string{"answer", "resume"}}
	_, q := h.start()
	h.refused("answer", map[string]any{"question": q.ID, "text": "red"}, "plaitd answer "+q.ID)
	h.cfg.Driver.(*driver).refuses = errors.New("no processes left")
	h.refused("start_task", map[string]any{"flow": "asks", "prompt": "x"}, "plaitd resume ")

	s := &Server{cfg: h.cfg}
	approval := store.Gate{ID: "g-1", Kind: store.GateApproval}
	s.cfg.Program.Verbs = append(s.cfg.Program.Verbs, "approve", "deny")
	if how := s.howToAnswer(approval); !strings.Contains(how, "plaitd approve g-1 (or: plaitd deny g-1)") {
		t.Errorf("it says %q", how)
	}
}

// TestAModelAnswersWhereItMay checks that a model's answer is recorded as the model's.
func TestAModelAnswersWhereItMay(t *testing.T) {
	h := newHouse(t, config.Answering{Questions: config.ByModel, Approvals: config.ByModel}, nil)
	id, q := h.start()
	h.must("answer", map[string]any{"question": q.ID, "text": "red"}, nil)
	if g, err := h.cfg.Store.Gate(t.Context(), q.ID); err != nil || g.Text != "red" || g.By != "model in a program" {
		t.Errorf("%+v, %v", g, err)
	}
	h.waited(id)
	h.refused("answer", map[string]any{"question": h.question(id).ID, "text": "approve"}, "for your user to decide")
}

// TestOtherTasksAreNotForIt checks that tasks that a person started can be neither read nor answered.
func TestOtherTasksAreNotForIt(t *testing.T) {
	h := newHouse(t, config.Answering{Questions: config.ByModel, Approvals: config.ByNobody}, nil)
	def, _ := parse.Parse(nil, "asks.yaml", []byte(asks))
	data, err := json.Marshal(def)
	if err != nil {
		t.Fatal(err)
	}
	row, err := h.person.Begin(t.Context(), control.Spec{Prompt: "a secret", Workspace: h.cfg.Workspace,
		Bundle: thread.Bundle{Name: "asks", Flows: map[string]json.RawMessage{"asks": data}}})
	if err == nil {
		_, err = h.person.Drive(t.Context(), row.ID, control.Resume{})
	}
	if err != nil {
		t.Fatal(err)
	}
	gates, err := h.cfg.Store.Gates(t.Context(), store.GateFilter{Task: row.ID})
	if err != nil || len(gates) != 1 {
		t.Fatalf("%d gates, %v", len(gates), err)
	}
	h.connect()
	for _, tool := range []string{"task_status", "wait_task", "open_questions", "read_task"} {
		for _, name := range []string{row.Short, row.ID, "last"} {
			h.refused(tool, map[string]any{"task": name}, "was not started here")
		}
	}
	h.refused("answer", map[string]any{"question": gates[0].ID, "text": "red"}, "was not started here")
	h.refused("answer", map[string]any{"question": "g-0000000000", "text": "red"}, "no question")
}

// TestATaskThatCannotBeDriven checks that the task exists anyway, and that the error names it.
func TestATaskThatCannotBeDriven(t *testing.T) {
	h := newHouse(t, byDefault, nil)
	h.flow("asks", asks)
	h.cfg.Driver.(*driver).refuses = errors.New("no processes left")
	h.connect()
	h.refused("start_task", map[string]any{"flow": "asks", "prompt": "x"}, "no processes left", "plait resume ")
}

// TestServe checks that a line that is no message does not end the session, and that the end of the input does not
// before what was received is answered.
func TestServe(t *testing.T) {
	h := newHouse(t, byDefault, nil)
	var out strings.Builder
	err := New(h.cfg).Serve(t.Context(), io.NopCloser(strings.NewReader("starting up...\n"+
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},`+
		`"clientInfo":{"name":"t","version":"1"}}}`+"\n[]\n"+
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"list_flows"}}`)), unclosed{&out})
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"id":null,"error":{"code":-32700`, `"id":null,"error":{"code":-32600`, `"id":0,"result"`,
		`"id":9007199254740993,"result"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
