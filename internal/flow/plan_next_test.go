package flow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

func workers(t testing.TB) *flow.Definition {
	t.Helper()
	w, ok := parse.BuiltIn(flow.WorkerFlow)
	if !ok {
		t.Fatal("there is no flow of workers")
	}
	return w
}

const twoActions = `{"id": "a", "prompt": "do a"}, {"id": "b", "mode": "fork", "prompt": "do b"}`

func TestNextOfPlans(t *testing.T) {
	d := parsed(t, planningFlow)
	boss := func(meta string) flow.Step { return flow.Step{Role: "boss", Meta: fields(t, meta), Body: "the plan"} }
	input := func(text string) flow.Step { return flow.Step{Role: flow.InputRole, Body: text} }
	joined := func(status, by string) flow.Step {
		return flow.Step{Role: flow.JoinRole, Meta: map[string]any{"$status": status, "decidedBy": by},
			Body: "## a\n\nA.", Paths: map[string]flow.PathResult{
				"a": {Status: "completed", Meta: fields(t, `{"summary": "A is done.", "evidence": [{"id": "e-1"}]}`),
					Text: "A is done. (evidence:a.e-1)"},
				"b": {Status: "failed"},
			}}
	}
	plans, ends, again := boss(planned(twoActions, "")), boss(planned(twoActions, `, "then": "end"`)),
		boss(planned(twoActions, `, "onFailed": "plan"`))
	fork := func(meta string) flow.Fork {
		p := readPlan(t, d, meta)
		f := flow.Fork{Node: "boss", Plan: p, ForkSpec: flow.ForkSpec{Strategy: flow.Parallel, Join: flow.JoinRole}}
		f.Paths = []flow.BranchPath{{ID: "a", Child: "a"}, {ID: "b", Child: "b"}}
		f.Rule = flow.JoinSpec{PathIDs: []string{"a", "b"}, Strategy: p.Join.Strategy, Threshold: p.Join.Threshold,
			Main: p.Join.Main, Losers: p.Join.Losers,
			Timeout: flow.Duration(p.Join.Timeout * float64(time.Second))}
		return f
	}
	index := func(status string) string {
		return "The actions of your plan have ended: " + status + ". Plan again, finish, or ask."
	}
	blocked := func(reason string) flow.Decision { return flow.Blocked{Kind: flow.BlockedRoute, Reason: reason} }
	finish := boss(`{"$status": "finished", "finish": {"summary": "S", "report": "R"}}`)
	short := boss(`{"$status": "finished", "finish": {"summary": "S"}}`)
	ask := boss(`{"$status": "ask", "ask": {"question": "Which?"}}`)
	approved := flow.Step{Role: "sure", Meta: map[string]any{"$status": "approved", "answer": ""}}
	sure := func(question string) flow.Gate {
		return flow.Gate{Node: "sure", Kind: flow.GateApproval, Question: question, OnTimeout: ""}
	}
	timed := planned(twoActions, `, "join": {"timeout": 1.5}`)
	for _, tt := range []struct {
		name string
		last []flow.Step
		want flow.Decision
	}{
		{"a plan", []flow.Step{plans}, fork(planned(twoActions, ""))},
		{"a plan whose time is bounded", []flow.Step{boss(timed)}, fork(timed)},
		{"a person says something of a plan", []flow.Step{plans, input("no"), input("please")},
			flow.Run{Role: "boss", Prompt: "A person says of your plan:\n\nno\n\nplease"}},
		{"joined", []flow.Step{plans, joined("joined", "")}, flow.Run{Role: "boss", Prompt: index("joined")}},
		{"joined, and a person adds something", []flow.Step{plans, joined("joined", ""), input("hurry")},
			flow.Run{Role: "boss", Prompt: index("joined") + "\n\nhurry"}},
		{"something that was added before the join is over", []flow.Step{plans, input("early"), joined("joined", "")},
			flow.Run{Role: "boss", Prompt: index("joined")}},
		{"failed", []flow.Step{plans, joined("failed", "b")}, blocked("the join of the plan of boss: failed")},
		{"failed and planned again", []flow.Step{again, joined("failed", "b")},
			flow.Run{Role: "boss", Prompt: index("failed")}},
		{"late and planned again", []flow.Step{again, joined("timeout", "")},
			flow.Run{Role: "boss", Prompt: index("timeout")}},
		{"joined and ended", []flow.Step{ends, joined("joined", "")}, sure("Sure of the goal?\n\n## a\n\nA.")},
		{"joined and ended, and a person adds something", []flow.Step{ends, joined("joined", ""), input("hurry")},
			sure("Sure of the goal?\n\n## a\n\nA.\n\nhurry")},
		{"failed where it would end", []flow.Step{ends, joined("failed", "b")},
			blocked("the join of the plan of boss: failed")},
		{"finished", []flow.Step{finish}, sure("Sure of S?\n\nR")},
		{"finished without a report", []flow.Step{short}, sure("Sure of S?")},
		{"the gate behind", []flow.Step{finish, approved}, flow.Run{Role: "writer", Prompt: "S {}"}},
		{"asked", []flow.Step{ask}, flow.Gate{Node: "boss", Kind: flow.GateInput, Question: "Which?", Input: true}},
		{"answered", []flow.Step{ask, input("that one")},
			flow.Run{Role: "boss", Prompt: "A person answers:\n\nthat one"}},
		{"suspended", []flow.Step{boss(`{"$status": "$SUSPEND", "reason": "tired"}`)},
			flow.Gate{Node: "boss", Kind: flow.GateInput, Question: "tired\n\nthe plan", Input: true}},
		{"resumed", []flow.Step{boss(`{"$status": "$SUSPEND"}`), input("up")}, flow.Run{Role: "boss", Prompt: "up"}},
		{"no plan", []flow.Step{boss(`{"$status": "else"}`)},
			blocked(`the step of boss is no plan: its $status is "else"`)},
		{"a plan that may not be", []flow.Step{boss(planned(`{"id": "a", "prompt": ""}`, ""))},
			blocked("the plan of boss: /actions/0/prompt: it is empty")},
		{"a role of the flow",
			[]flow.Step{plans, joined("joined", ""), {Role: "writer", Meta: map[string]any{"$status": "done"},
				Body: "Written."}}, flow.End{Summary: "Written.", Default: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := flow.Next(d, flow.At{Flow: "planning", Prompt: "the task"}, tt.last)
			if g, ok := got.(flow.Gate); ok && g.Node == "sure" {
				g.OnTimeout = ""
				got = g
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// If a plan ends the planning, the next node sees the plan's join as the planner's final output.
func TestNextAfterAPlanThatEnds(t *testing.T) {
	d := parsed(t, strings.Replace(planningFlow, "{{ report }}", "{{ paths.a.status }} {{ paths.a.meta.n }} {{ "+
		"paths.a.text }} {{ status }} {{ prompt }}", 1))
	last := []flow.Step{
		{Role: "boss", Meta: fields(t, planned(twoActions, `, "then": "end"`))},
		{Role: flow.JoinRole, Meta: map[string]any{"$status": "joined", "decidedBy": "a"},
			Paths: map[string]flow.PathResult{
				"a": {Status: "completed", Meta: map[string]any{"n": 7.0}, Text: "A."}, "b": {Status: "cancelled"},
			}},
	}
	want := flow.Gate{Node: "sure", Kind: flow.GateApproval, Question: "Sure of the goal?\n\n" +
		"completed 7 A. joined the task", OnTimeout: "rejected"}
	if diff := cmp.Diff(flow.Decision(want), flow.Next(d, flow.At{Prompt: "the task"}, last)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// An action follows the worker flow: to an end if it was spawned, to the join of the plan if it
// inherits the conversation.
func TestNextOfActions(t *testing.T) {
	d := parsed(t, planningFlow)
	p := readPlan(t, d, planned(twoActions, ""))
	step := func(role, meta string) flow.Step { return flow.Step{Role: role, Meta: fields(t, meta)} }
	said := func(id, status string) flow.Step {
		return step(id, fmt.Sprintf(`{"$status": %q, "status": %q, "summary": "S", "questions": ["Which?"]}`, status,
			status))
	}
	boss := step("boss", planned(twoActions, ""))
	answered := flow.Step{Role: "question", Meta: fields(t, `{"$status": "answered", "answer": "that"}`), Body: "that"}
	input := flow.Step{Role: flow.InputRole, Body: "hurry"}
	asked := flow.Gate{Node: "question", Kind: flow.GateInput, Question: "- Which?\n\nS\n"}
	w := workers(t)
	a, b := w.SpawnedAction(p, "a"), d.ForkedAction(w, p, "b")
	if a.ActionID() != "a" || b.ActionID() != "b" || d.ActionID() != "" || w.ActionID() != "" {
		t.Errorf("they act %q %q %q %q", a.ActionID(), b.ActionID(), d.ActionID(), w.ActionID())
	}
	if diff := cmp.Diff([][]string{nil, {"boss"}, {"boss"}}, [][]string{a.Plans(), b.Plans(), d.Plans()}); diff != "" {
		t.Errorf("who plans: -want +got\n%s", diff)
	}
	spawned, path := flow.At{Flow: "worker", Prompt: p.Brief("a")}, flow.At{Flow: "planning", Prompt: "the task",
		Path: "b"}
	for _, tt := range []struct {
		name string
		def  *flow.Definition
		at   flow.At
		last []flow.Step
		want flow.Decision
	}{
		{"spawned", a, spawned, nil, flow.Run{Role: "a", Prompt: "Do the action."}},
		{"spawned, and more is said", a, spawned, []flow.Step{input},
			flow.Run{Role: "a", Prompt: "Do the action.\n\nhurry"}},
		{"spawned, done", a, spawned, []flow.Step{said("a", "success")}, flow.End{Summary: "S"}},
		{"spawned, failed", a, spawned, []flow.Step{said("a", "failed")}, flow.End{Code: 1, Summary: "S"}},
		{"spawned, blocked", a, spawned, []flow.Step{said("a", "blocked")}, asked},
		{"spawned, answered", a, spawned, []flow.Step{said("a", "blocked"), answered},
			flow.Run{Role: "a", Prompt: "A person answers:\n\nthat\n\nGo on."}},
		{"forked", b, path, []flow.Step{boss}, flow.Run{Role: "b", Prompt: p.Brief("b")}},
		{"forked, and more is said", b, path, []flow.Step{boss, input},
			flow.Run{Role: "b", Prompt: strings.TrimSpace(p.Brief("b")) + "\n\nhurry"}},
		{"forked, done", b, path, []flow.Step{said("b", "success")}, flow.AtJoin{Join: flow.JoinRole}},
		{"forked, failed", b, path, []flow.Step{said("b", "failed")}, flow.End{Code: 1, Summary: "S"}},
		{"forked, blocked", b, path, []flow.Step{said("b", "blocked")}, asked},
		{"forked, answered", b, path, []flow.Step{said("b", "blocked"), answered},
			flow.Run{Role: "b", Prompt: "A person answers:\n\nthat\n\nGo on."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := flow.Next(tt.def, tt.at, tt.last)
			ignore := cmpopts.IgnoreFields(flow.Gate{}, "OnTimeout", "Timeout", "Options")
			trimmed := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Question" },
				cmp.Comparer(func(x, y string) bool {
					return strings.Join(strings.Fields(x), " ") == strings.Join(strings.Fields(y), " ")
				}))
			if diff := cmp.Diff(tt.want, got, ignore, trimmed); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(workers(t), w, sameDefinition); diff != "" {
		t.Errorf("the worker's flow was changed: -want +got\n%s", diff)
	}
}

// An action's agent, access, timeout and output are those in the plan.
func TestSpawned(t *testing.T) {
	d, w := parsed(t, planningFlow), workers(t)
	p := readPlan(t, d, planned(`{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x", "agent": "codex", "access": `+
		`"write", "timeout": 1.5}, {"id": "c", "prompt": "x", "timeout": 1e300}`, ""))
	for id, want := range map[string]struct {
		agent   string
		access  flow.Access
		timeout time.Duration
	}{
		"a": {"", flow.Read, 0}, "b": {"codex", flow.Write, 1500 * time.Millisecond},
		"c": {"", flow.Read, 100 * 365 * 24 * time.Hour},
	} {
		role := w.SpawnedAction(p, id).Roles[id]
		agent := ""
		if role.Agent != nil {
			agent = role.Agent.Name
		}
		if agent != want.agent || role.Access != want.access || time.Duration(role.Timeout) != want.timeout {
			t.Errorf("%s: %q %s %v", id, agent, role.Access, time.Duration(role.Timeout))
		}
		if string(role.Frontmatter) != string(w.Roles["worker"].Frontmatter) {
			t.Errorf("%s: its output is another one's", id)
		}
	}
}

// The schema of the output of workers is compiled once, not for each action.
func TestActionsShareASchema(t *testing.T) {
	d, w := parsed(t, planningFlow), workers(t)
	p := readPlan(t, d, planned(`{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x", "outputSchema": {}}`, ""))
	allocated := func(id, output string) float64 {
		meta := fields(t, output)
		return testing.AllocsPerRun(3, func() {
			if err := w.SpawnedAction(p, id).Validate(id, meta); err != nil {
				t.Error(err)
			}
		})
	}
	plain := allocated("a", `{"$status": "failed", "status": "failed", "summary": "S"}`)
	if own := allocated("b", `{"$status": "failed", "status": "failed", "summary": "S"}`); plain > own/4 {
		t.Errorf("%.0f allocations for an action like the others, %.0f for one with a schema of its own", plain, own)
	}
}

// An action's own schema applies to the property result, which is required on success.
func TestResultOfAnAction(t *testing.T) {
	d, w := parsed(t, planningFlow), workers(t)
	for _, tt := range []struct{ name, schema, good, bad, says string }{
		{"plain", `{"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}`,
			`{"port": 1}`, `{"port": "x"}`, "/result/port: "},
		{"with definitions", `{"$ref": "#/$defs/p", "$defs": {"p": {"type": "array", "items": {"$ref": ` +
			`"#/$defs/n"}}, "n": {"type": "integer"}}}`, `[1, 2]`, `[1, "x"]`, "/result/1: "},
		{"that refers to itself", `{"type": "object", "properties": {"next": {"$ref": "#"}}, ` +
			`"additionalProperties": false}`, `{"next": {"next": {}}}`, `{"next": {"n": 1}}`, "/result"},
		{"with a name", `{"$id": "https://example.com/port", "$ref": "#/$defs/p", "$defs": {"p": {"type": "integer"}}}`,
			`1`, `"x"`, "/result: "},
		{"of an older draft", `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": ` +
			`[{"type": "integer"}], "additionalItems": false}`, `[1]`, `[1, 2]`, "/result"},
		{"with a large number", `{"const": 9007199254740991}`, `9007199254740991`, `9007199254740990`, "/result: "},
		{"of anything", `{}`, `null`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := readPlan(t, d, planned(fmt.Sprintf(`{"id": "a", "prompt": "x", "outputSchema": %s}`, tt.schema), ""))
			def := w.SpawnedAction(p, "a")
			data := mustJSON(t, def)
			stored := new(flow.Definition)
			if err := json.Unmarshal(data, stored); err != nil {
				t.Fatal(err)
			}
			for _, def := range []*flow.Definition{def, stored} {
				with := func(status, result string) error {
					return def.Validate("a",
						fields(t, fmt.Sprintf(`{"$status": %q, "status": %q, "summary": "S", "questions": ["Q"]%s}`,
							status, status, result)))
				}
				if err := with("success", `, "result": `+tt.good); err != nil {
					t.Errorf("a good result: %v", err)
				}
				if err := with("success", ""); err == nil || !strings.Contains(err.Error(), "result") {
					t.Errorf("no result: %v", err)
				}
				if tt.bad != "" {
					if err := with("success", `, "result": `+tt.bad); err == nil ||
						!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "is not allowed") {
						t.Errorf("a bad result: %v, want %q", err, tt.says)
					}
				}
				for _, status := range []string{"blocked", "failed"} {
					if err := with(status, ""); err != nil {
						t.Errorf("%s without a result: %v", status, err)
					}
				}
			}
		})
	}
}
