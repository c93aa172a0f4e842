package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
)

// plans is a planner that returns one plan after the other.
func plans(answers ...string) scripted { return say(answers...) }

const finish = `{"finish": {"summary": "All is well.", "report": "# Report\n\nIt is."}}`

// actions spells a plan; more follows its actions.
func actions(more string, list ...string) string {
	return fmt.Sprintf(`{"sessionGoal": "the goal", "actions": [%s]%s}`, strings.Join(list, ", "), more)
}

// act spells an action; more are further keys.
func act(id, more string) string {
	return fmt.Sprintf(`{"id": %q, "prompt": "do %s"%s}`, id, id, more)
}

// output is a worker's output.
func output(status, summary string) scripted {
	return say(fmt.Sprintf(`{"status": %q, "summary": %q}`, status, summary))
}

// orchestrate begins the built-in flow.
func (h *house) orchestrate(c *Controller) store.Thread {
	h.t.Helper()
	flows, ok := parse.LoadBuiltIn("orchestrate")
	if !ok {
		h.t.Fatal("the flow cannot be loaded")
	}
	found, err := Pack(flows[0], flows[1:]...)
	if err != nil {
		h.t.Fatal(err)
	}
	row, err := c.Begin(h.t.Context(), Spec{Bundle: found.Bundle, Prompt: "the whole goal", Workspace: h.dir,
		ID: rootID})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.sound(row) })
	return row
}

// sound fails the test unless the record of a task is right.
func (h *house) sound(row store.Thread) {
	h.t.Helper()
	r, err := verify.Thread(context.Background(), verify.Config{Store: h.store}, row.ID)
	if err != nil || !r.OK() {
		h.t.Errorf("verify: %+v, %v", r.Problems[:min(len(r.Problems), 3)], err)
	}
}

func (h *house) payloads(row store.Thread, typ string) (payloads []string) {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), 0, store.EventFilter{Task: row.Task})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, ev := range events {
		if ev.Type == typ {
			payloads = append(payloads, string(ev.Payload))
		}
	}
	return payloads
}

// states lists the states that the controller went through.
func (h *house) states(row store.Thread) (states []string) {
	for _, p := range h.payloads(row, "controller.state.changed") {
		var state struct{ State string }
		if err := json.Unmarshal([]byte(p), &state); err != nil {
			h.t.Fatal(err)
		}
		states = append(states, state.State)
	}
	return states
}

func TestPlanDispatchJoinFinish(t *testing.T) {
	var told, brief string
	h := newHouse(t, map[string]scripted{})
	h.agents = map[string]scripted{
		"planner": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			told = req.Prompt
			return plans(actions("", act("a", ""), act("b", `, "title": "the second"`)), finish)(ctx, req, emit)
		},
		"a": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			brief = req.Prompt
			return output("success", "A is done.")(ctx, req, emit)
		},
		"b": output("success", "B is done."),
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"planner", "__join__", "planner", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"init", "planning", "dispatching", "monitoring", "joining", "planning", "done"},
		h.states(row)); diff != "" {
		t.Errorf("states: -want +got\n%s", diff)
	}
	for _, want := range []string{"A is done.", "B is done.", "the whole goal"} {
		if n := strings.Count(told, want); n != 1 {
			t.Errorf("the planner is told %q %d times:\n%s", want, n, told)
		}
	}
	for _, want := range []string{"Action a", "the goal", "do a"} {
		if !strings.Contains(brief, want) {
			t.Errorf("the worker is not told %q:\n%s", want, brief)
		}
	}
	for _, not := range []string{"the second", "sessionGoal", "the whole goal"} {
		if strings.Contains(brief, not) {
			t.Errorf("the worker is told %q:\n%s", not, brief)
		}
	}
	below := h.below(row)
	for _, id := range []string{"a", "b"} {
		w := below[id]
		if w.Kind != store.KindWorker || w.Status != store.Completed || h.attempts(w)[0].Instance != id {
			t.Errorf("worker %s: %+v", id, w)
		}
		if diff := cmp.Diff([]string{id, "__end__"}, h.roles(w)); diff != "" {
			t.Errorf("roles of %s: -want +got\n%s", id, diff)
		}
	}
	steps, err := c.Reader().Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	join := steps[1].State
	if join.Ancestors[0] != steps[0].Hash || join.Fork != steps[0].Hash || len(join.Paths) != 2 {
		t.Errorf("the join is %+v", join)
	}
	text, _ := c.Reader().Text(t.Context(), join.Content)
	if want := "## a\n\nA is done.\n\n## b\n\nB is done.\n"; text != want {
		t.Errorf("the join says %q, want %q", text, want)
	}
}

func TestPlanWithAForkAsMainPath(t *testing.T) {
	var told string
	h := newHouse(t, nil)
	h.agents = map[string]scripted{
		"planner": plans(actions(`, "join": {"mainPathId": "main"}`, act("main", `, "mode": "fork"`), act("side", "")),
			finish),
		"main": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			told = req.Prompt
			return output("success", "Main is done.")(ctx, req, emit)
		},
		"side": output("success", "Side is done."),
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"planner", "main", "__join__", "planner", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if w := h.below(row)["main"]; w.Kind != store.KindPath {
		t.Errorf("the forked action is a %s", w.Kind)
	}
	if !strings.Contains(told, "the whole goal") || strings.Contains(told, "sessionGoal") {
		t.Errorf("a forked action is told:\n%s", told)
	}
}

func TestPlanDependencies(t *testing.T) {
	var order []string
	done := func(id string) scripted {
		return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			order = append(order, id)
			return output("success", id)(ctx, req, emit)
		}
	}
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("c", `, "dependsOn": ["b"]`), act("b", `, "dependsOn": ["a"]`), act("a", "")),
			finish),
		"a": done("a"), "b": done("b"), "c": done("c"),
	})
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"a", "b", "c"}, order); diff != "" {
		t.Errorf("order: -want +got\n%s", diff)
	}
}

func TestPlanThenEnd(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions(`, "then": "end"`, act("a", ""))), "a": output("success", "fine"),
	})
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if diff := cmp.Diff([]string{"planner", "__join__", "__end__"}, h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
}

// answers answers every open input gate of the task.
func (h *house) answers(c *Controller, row store.Thread, text string) (n int) {
	h.t.Helper()
	open, err := c.Gates().Gates(h.t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, g := range open {
		if _, err := c.Gates().Answer(h.t.Context(), g.ID,
			gate.Answer{Text: text, By: "me", Via: store.ViaCLI}); err != nil {
			h.t.Fatal(err)
		}
	}
	return len(open)
}

func TestPlannerAndWorkerAsk(t *testing.T) {
	var planner, worker string
	h := newHouse(t, nil)
	h.agents = map[string]scripted{
		"planner": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			planner = req.Prompt
			return plans(`{"ask": {"question": "Which way?"}}`, actions("", act("a", ""), act("b", "")), finish)(ctx,
				req, emit)
		},
		"a": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			worker = req.Prompt
			return say(`{"status": "blocked", "summary": "I need a port.", "questions": ["Which port?"]}`,
				`{"status": "success", "summary": "Port 8080."}`)(ctx, req, emit)
		},
		"b": output("success", "fine"),
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "input")
	if n := h.answers(c, row, "to the left"); n != 1 {
		t.Fatalf("%d gates are open", n)
	}
	row = h.drive(h.controller(), row.ID, Resume{})
	if !strings.Contains(planner, "to the left") {
		t.Errorf("the planner is not told the answer:\n%s", planner)
	}
	wantStatus(t, row, store.Blocked, "child")
	if h.below(row)["b"].Status != store.Completed {
		t.Error("the sibling of the one that asks did not go on")
	}
	open, err := c.Gates().Gates(t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen})
	if err != nil || len(open) != 1 || !strings.HasPrefix(open[0].Question, "- Which port?") ||
		!strings.Contains(open[0].Question, "I need a port.") {
		t.Fatalf("open gates: %+v, %v", open, err)
	}
	if g := open[0]; g.Node != "a" || g.Instance != "a" || g.Source != store.SourceWorker {
		t.Errorf("asked by %s, instance %q, source %s", g.Node, g.Instance, g.Source)
	}
	h.answers(c, row, "use port 8080")
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if !strings.Contains(worker, "use port 8080") {
		t.Errorf("the worker is not told the answer:\n%s", worker)
	}
}

func TestActionIDsAreUsedOnce(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("a", "")), actions("", act("a", "")), actions("", act("b", "")), finish),
		"a":       output("success", "x"), "b": output("success", "y"),
	})
	h.agents["planner"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		if strings.Contains(req.Prompt, "an id is used once") {
			req.Visit++
		}
		return plans(actions("", act("a", "")), actions("", act("a", "")), actions("", act("b", "")), finish)(ctx, req,
			emit)
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	if h.runs["a"] != 1 {
		t.Errorf("runs: %v", h.runs)
	}
	if row.Status != store.Blocked && h.runs["b"] != 1 {
		t.Errorf("%s, runs: %v", row.Status, h.runs)
	}
}

// Two agents of 102 break: a resume runs exactly these two again.
func TestTwoOfManyFail(t *testing.T) {
	list := make([]string, 102)
	h := newHouse(t, map[string]scripted{})
	for i := range list {
		id := fmt.Sprintf("w%03d", i)
		list[i] = act(id, "")
		h.agents[id] = output("success", id)
	}
	h.agents["planner"] = plans(actions("", list...), finish)
	broken := func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "broken", Final: true}
	}
	h.agents["w017"], h.agents["w101"] = broken, broken
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID,
		Resume{Options: Options{Limits: flow.Limits{MaxActions: 200, MaxConcurrent: 16}}})
	if row.Status != store.Blocked {
		t.Fatalf("the task is %s: %+v", row.Status, row.Reason)
	}
	h.agents["w017"], h.agents["w101"] = output("success", "now"), output("success", "now")
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	for id, n := range h.runs {
		want := 1
		switch {
		case strings.Contains(id, "@"):
			continue
		case id == "planner", id == "w017", id == "w101":
			want = 2
		}
		if n != want {
			t.Errorf("%s ran %d times, want %d", id, n, want)
		}
	}
}

func TestPlanOutputSchema(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("",
			act("a", `, "outputSchema": {"type": "object", "properties": {"port": {"type": "integer"}}, `+
				`"required": ["port"]}`)), finish),
		"a": say(`{"status": "success", "summary": "x"}`),
	})
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "join")
	if !strings.Contains(row.Reason.Message, "result") {
		t.Errorf("blocked by %q", row.Reason.Message)
	}
	h.agents["a"] = say(`{"status": "success", "summary": "x", "result": {"port": 1}}`)
	wantStatus(t, h.drive(c, row.ID, Resume{}), store.Completed, "")
}

func TestCancelledPlan(t *testing.T) {
	began := make(chan struct{}, 3)
	busy := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		began <- struct{}{}
		return hangs(ctx, req, emit)
	}
	h := newHouse(t, map[string]scripted{"planner": plans(actions("", act("a", ""), act("b", ""))), "a": busy,
		"b": busy})
	c := h.controller()
	id := h.orchestrate(c).ID
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		<-began
		<-began
		if _, err := h.controller().Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
	}()
	row := h.drive(c, id, Resume{})
	<-asked
	wantStatus(t, row, store.Cancelled, "")
	for name, w := range h.below(row) {
		if w.Status != store.Cancelled {
			t.Errorf("%s is %s", name, w.Status)
		}
	}
	if states := h.states(row); !slices.Contains(states, "cancelled") {
		t.Errorf("states: %v", states)
	}
}
