package flow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

const branching = `version: 1
name: branching
roles:
  plan: {}
  api: {}
  db: {}
  web: {access: write}
  more: {}
  deep1: {}
  deep2: {}
  sum: {}
  sub: {flow: other}
forks:
  survey:
    forkPaths:
      - {pathId: p-api, childNodeId: api, prompt: "read {{ prompt }}"}
      - {pathId: p-db, childNodeId: db}
      - {pathId: p-web, childNodeId: web, prompt: "   "}
  inner: {forkStrategy: serial, forkPaths: [{pathId: d1, childNodeId: deep1, prompt: "d {{ deep }}"}, {pathId: d2, childNodeId: deep2}]}
joins:
  gathered: {forkPathIds: [p-api, p-db, p-web], joinStrategy: ANY_COMPLETED, mainPathId: p-db}
  inner-done: {forkPathIds: [d1, d2]}
graph:
  $START:
    new: {role: survey}
    resume: {role: plan, prompt: "{{ prompt }}"}
  plan:
    ready: {role: survey, prompt: "route {{ what }}", location: "sub"}
    bare: {role: survey}
    direct: {role: sub, prompt: "call {{ what }}", location: "x"}
  api: {done: {role: gathered}, deeper: {role: inner, prompt: "inner {{ _body }}"}}
  db: {done: {role: more, prompt: "more: {{ _body }}"}}
  more: {done: {role: gathered, prompt: "unused"}}
  web: {done: {role: gathered}}
  deep1: {done: {role: inner-done}}
  deep2: {done: {role: inner-done}}
  inner-done: {joined: {role: gathered}}
  gathered:
    joined: {role: sum, prompt: "{{ decidedBy }}: {{ paths.p-api.meta.n }} {{ paths.p-api.text }} {{ paths.p-db.status }}{% for p in paths %} {{ p[0] }}={{ p[1].status }}{% endfor %}"}
    failed: {role: survey, prompt: "again: {{ paths['p-db'].meta }}{{ paths.p-db.text }}"}
    timeout: {role: $END, code: 2, prompt: "late: {{ paths.p-db.meta.n }}"}
  sum: {again: {role: plan, prompt: p}, over: {role: $END}}
  sub: {done: {role: $END, prompt: "{{ summary }} {{ returnCode }}"}}
`

func TestNextThroughForks(t *testing.T) {
	d := parsed(t, branching)
	step := func(role, status string, kv ...any) flow.Step {
		m := map[string]any{"$status": status}
		for i := 0; i+1 < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return flow.Step{Role: role, Meta: m, Body: "body of " + role}
	}
	survey := flow.Fork{Node: "survey", ForkSpec: d.Forks["survey"]}
	if survey.Join != "gathered" || len(survey.Paths) != 3 {
		t.Fatalf("fork = %+v", survey)
	}
	input := flow.Step{Role: "__input__", Body: "also"}
	ready := step("plan", "ready", "what", "it")
	joined := step("gathered", "joined", "decidedBy", "p-api", "paths", map[string]any{"p-api": "not this"})
	joined.Paths = map[string]flow.PathResult{
		"p-api": {Status: "completed", Meta: map[string]any{"n": 3.0}, Text: "the text"},
		"p-db":  {Status: "cancelled"}, "p-web": {Status: "failed"},
	}
	again := step("gathered", "failed", "decidedBy", nil)
	again.Paths = joined.Paths
	everyPath := step("gathered", "joined", "decidedBy", nil)
	everyPath.Paths = joined.Paths
	late := step("gathered", "timeout")
	late.Paths = map[string]flow.PathResult{"p-db": {Status: "completed", Meta: map[string]any{"n": 4.0}}}
	lost := step("gathered", "timeout")
	lost.Paths = joined.Paths
	tests := []struct {
		name, path string
		last       []flow.Step
		want       flow.Decision
	}{
		{"a fork from $START", "", nil, survey},
		{"a fork from $START with input", "", []flow.Step{input}, survey},
		{"a fork", "", []flow.Step{ready}, survey},
		{"still the fork", "", []flow.Step{ready, input}, survey},
		{"a fork in a loop", "", []flow.Step{again}, survey},

		{"first of a path, from $START: own prompt", "p-api", nil, flow.Run{Role: "api", Prompt: "read whole"}},
		{"first of a path, from $START: the thread's", "p-db", nil, flow.Run{Role: "db", Prompt: "whole"}},
		{"own prompt before the route's", "p-api", []flow.Step{ready},
			flow.Run{Role: "api", Prompt: "read whole", Location: "sub"}},
		{"the route's before the thread's", "p-db", []flow.Step{ready},
			flow.Run{Role: "db", Prompt: "route it", Location: "sub"}},
		{"a blank prompt is none", "p-web", []flow.Step{ready},
			flow.Run{Role: "web", Prompt: "route it", Location: "sub"}},
		{"the thread's last", "p-db", []flow.Step{step("plan", "bare")}, flow.Run{Role: "db", Prompt: "whole"}},
		{"input joins the path's prompt", "p-db", []flow.Step{ready, input},
			flow.Run{Role: "db", Prompt: "route it\n\nalso", Location: "sub"}},
		{"own prompt with a variable", "d1", []flow.Step{step("api", "deeper", "deep", "it")},
			flow.Run{Role: "deep1", Prompt: "d it"}},
		{"own prompt without its variable", "d1", []flow.Step{step("api", "deeper")},
			flow.Blocked{Kind: "route", Reason: "fork inner: the prompt of path d1: undefined variable in {{ deep }}"}},
		{"inside a path", "p-db", []flow.Step{step("db", "done")}, flow.Run{Role: "more", Prompt: "more: body of db"}},
		{"at the join", "p-db", []flow.Step{step("more", "done")}, flow.AtJoin{Join: "gathered"}},
		{"at the join from another path", "p-api", []flow.Step{step("api", "done")}, flow.AtJoin{Join: "gathered"}},
		{"suspended in a path", "p-api", []flow.Step{step("api", "$SUSPEND", "reason", "a key")},
			flow.Gate{Node: "api", Kind: flow.GateInput, Question: "a key\n\nbody of api", Input: true}},
		{"answered in a path", "p-api", []flow.Step{step("api", "$SUSPEND", "reason", "a key"), input},
			flow.Run{Role: "api", Prompt: "also"}},

		{"a nested fork", "p-api", []flow.Step{step("api", "deeper")},
			flow.Fork{Node: "inner", ForkSpec: d.Forks["inner"]}},
		{"a nested path", "d2", []flow.Step{step("api", "deeper")},
			flow.Run{Role: "deep2", Prompt: "inner body of api"}},
		{"at the nested join", "d2", []flow.Step{step("deep2", "done")}, flow.AtJoin{Join: "inner-done"}},
		{"on from the nested join, at the outer", "p-api", []flow.Step{step("inner-done", "joined")},
			flow.AtJoin{Join: "gathered"}},
		{"a nested path does not reach the outer join", "d1", []flow.Step{step("inner-done", "joined")},
			flow.Blocked{Kind: "route", Reason: "graph.inner-done.joined leads to the join gathered from " +
				"outside its paths"}},
		{"the main line does not reach a join", "", []flow.Step{step("more", "done")},
			flow.Blocked{Kind: "route", Reason: "graph.more.done leads to the join gathered from outside its paths"}},

		{"variables of a join", "", []flow.Step{joined},
			flow.Run{Role: "sum", Prompt: "p-api: 3 the text cancelled p-api=completed p-db=cancelled p-web=failed"}},
		{"a join that every path decided", "", []flow.Step{everyPath},
			flow.Run{Role: "sum", Prompt: ": 3 the text cancelled p-api=completed p-db=cancelled p-web=failed"}},
		{"a cancelled path's meta is empty", "p-db", []flow.Step{again}, flow.Run{Role: "db", Prompt: "again: {}"}},
		{"a late join", "", []flow.Step{late}, flow.End{Code: 2, Summary: "late: 4"}},
		{"a late join without the field", "", []flow.Step{lost},
			flow.Blocked{Kind: "route", Reason: "graph.gathered.timeout.prompt: undefined variable in {{ " +
				"paths.p-db.meta.n }}"}},

		{"a path comes to the end", "p-api", []flow.Step{step("sum", "over")},
			flow.Blocked{Kind: "route", Reason: "graph.sum.over leads out of path p-api to the end"}},
		{"a path comes to the end, with input", "p-api", []flow.Step{step("sum", "over"), input},
			flow.Blocked{Kind: "route", Reason: "graph.sum.over leads out of path p-api to the end"}},

		{"a call", "", []flow.Step{step("plan", "direct", "what", "it")},
			flow.Call{Role: "sub", Flow: "other", Prompt: "call it", Location: "x"}},
		{"after a call", "", []flow.Step{step("sub", "done", "summary", "well", "returnCode", 0.0)},
			flow.End{Summary: "well 0"}},
		{"a call that asked", "", []flow.Step{step("sub", "$SUSPEND", "reason", "r"), input},
			flow.Call{Role: "sub", Flow: "other", Prompt: "also"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := flow.Next(d, flow.At{Flow: "branching", Prompt: "whole", Path: tt.path}, tt.last)
			if f, ok := tt.want.(flow.Fork); ok {
				f.Rule = d.Joins[f.Join]
				tt.want = f
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	roundTrip(t, d)
	if diff := cmp.Diff([]string{"api", "deep1", "deep2"}, d.Inside("p-api")); diff != "" {
		t.Errorf("inside p-api:\n%s", diff)
	}
}
