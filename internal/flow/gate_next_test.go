package flow_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

const gated = `version: 1
name: gated
roles:
  plan:
    frontmatter:
      oneOf:
        - properties: {$status: {const: ready}, what: {type: string}, answer: {type: string}, status: {type: string}}
        - properties: {$status: {const: unclear}, question: {type: string}}
        - properties: {$status: {const: blank}, what: {type: string}, gone: {type: string}}
        - properties: {$status: {const: done}, what: {type: string}}
  api: {}
  db: {}
  sum: {}
  first: {}
forks:
  survey: {forkPaths: [{pathId: p-api, childNodeId: api, prompt: "{{ answer }} of {{ what }}"}, {pathId: p-db, childNodeId: db}]}
joins:
  gathered: {forkPathIds: [p-api, p-db]}
gates:
  go-ahead: {question: "Do {{ what }}?\n", timeout: 24h, onTimeout: late}
  ask: {kind: input, question: "{{ question }}", options: [red, blue]}
  sure: {kind: approval, question: "{{ answer }}: sure of {{ what }}?", timeout: 90}
  mid: {kind: input, question: "In the path: {{ _body }}"}
  after: {question: "{{ paths.p-api.text }}, {{ decidedBy }}"}
  hello: {kind: input, question: "Who asks for {{ prompt }}? {{ nobody }}"}
  again: {question: "More? {{ prompt }}"}
  empty: {question: "{{ what }}"}
graph:
  $START:
    new: {role: hello}
    resume: {role: again}
  hello: {answered: {role: first, prompt: "{{ answer }} ({{ status }}): {{ prompt }}{{ nobody }}{{ _body }}"}}
  again: {approved: {role: sum, prompt: "{{ prompt }}"}, rejected: {role: $END}}
  first: {ok: {role: plan, prompt: p}}
  plan:
    ready: {role: go-ahead, prompt: "For {{ prompt }}.\n"}
    unclear: {role: ask, prompt: "  "}
    blank: {role: empty}
    done: {role: $END, prompt: "all of {{ what }}"}
  ask: {answered: {role: plan, prompt: "{{ question }} {{ answer }} {{ status }} {{ _body }}"}}
  go-ahead:
    approved: {role: sure, prompt: "{{ status }}"}
    rejected: {role: plan, prompt: "no to {{ what }}: {{ answer }}", location: "{{ what }}"}
    late: {role: $END, code: 7, prompt: "{{ what }} is {{ status }}{{ answer }}"}
  sure: {approved: {role: survey, prompt: "{{ what }} {{ status }}"}, rejected: {role: $END}}
  empty: {approved: {role: sum, prompt: "{{ gone }}"}, rejected: {role: $END}}
  api: {done: {role: mid}}
  mid: {answered: {role: gathered}}
  db: {done: {role: gathered}}
  gathered: {joined: {role: after, prompt: "both"}, failed: {role: after}}
  after: {approved: {role: sum, prompt: "{{ paths.p-api.meta.n }} {{ paths.p-db.status }} {{ decidedBy }} {{ answer }} {{ prompt }}"}, rejected: {role: $END}}
  sum: {over: {role: $END}}
`

func TestNextThroughGates(t *testing.T) {
	d := parsed(t, gated)
	step := func(role, status string, kv ...any) flow.Step {
		m := map[string]any{"$status": status}
		for i := 0; i+1 < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return flow.Step{Role: role, Meta: m, Body: "body of " + role}
	}
	answer := func(gate, status, text string) flow.Step {
		return flow.Step{Role: gate, Meta: map[string]any{"$status": status, "answer": text}, Body: text}
	}
	input := func(text string) flow.Step { return flow.Step{Role: "__input__", Body: text} }
	blocked := func(reason string) flow.Decision { return flow.Blocked{Kind: "route", Reason: reason} }
	day, seconds := flow.Duration(24*time.Hour), flow.Duration(90*time.Second)
	goAhead := func(question string) flow.Decision {
		return flow.Gate{Node: "go-ahead", Kind: "approval", Question: question, Timeout: day, OnTimeout: "late"}
	}
	more := func(question string) flow.Decision {
		return flow.Gate{Node: "again", Kind: "approval", Question: question, OnTimeout: "rejected"}
	}
	ready := step("plan", "ready", "what", "it", "answer", "own", "status", "own")
	unclear := step("plan", "unclear", "question", "Which?")
	finished := step("plan", "done", "what", "it")
	yes, sure := answer("go-ahead", "approved", "yes"), answer("sure", "approved", "quite")
	joined := step("gathered", "joined", "decidedBy", "p-db")
	joined.Paths = map[string]flow.PathResult{
		"p-api": {Status: "completed", Meta: map[string]any{"n": 3.0}, Text: "text"}, "p-db": {Status: "cancelled"},
	}
	steps := func(s ...flow.Step) []flow.Step { return s }
	tests := []struct {
		name, path string
		last       []flow.Step
		want       flow.Decision
	}{
		{"from $START", "", nil, flow.Gate{Node: "hello", Kind: "input", Question: "Who asks for whole? "}},
		{"from $START, with input", "", steps(input("also")),
			flow.Gate{Node: "hello", Kind: "input", Question: "Who asks for whole? \n\nalso"}},
		{"answered after $START", "", steps(answer("hello", "answered", "me")),
			flow.Run{Role: "first", Prompt: "me (answered): whole"}},
		{"input before a gate after $START is used up", "", steps(input("also"), answer("hello", "answered", "me")),
			flow.Run{Role: "first", Prompt: "me (answered): whole"}},
		{"input after a gate after $START", "", steps(answer("hello", "answered", "me"), input("also")),
			flow.Run{Role: "first", Prompt: "me (answered): whole\n\nalso"}},
		{"a role leaves the gates before it behind", "", steps(answer("hello", "answered", "me"), unclear),
			flow.Gate{Node: "ask", Kind: "input", Question: "Which?", Options: []string{"red", "blue"}}},

		{"after a role", "", steps(ready), goAhead("Do it?\n\nFor whole.\n")},
		{"after a role, with input", "", steps(ready, input("also"), input("that")),
			goAhead("Do it?\n\nFor whole.\n\nalso\n\nthat")},
		{"a blank prompt adds nothing", "", steps(unclear), flow.Gate{Node: "ask", Kind: "input", Question: "Which?",
			Options: []string{"red", "blue"}}},
		{"answered, in a loop", "", steps(unclear, answer("ask", "answered", "red")),
			flow.Run{Role: "plan", Prompt: "Which? red answered body of plan"}},
		{"an empty answer", "", steps(unclear, answer("ask", "answered", "")),
			flow.Run{Role: "plan", Prompt: "Which?  answered body of plan"}},
		{"rejected, with a location", "", steps(ready, answer("go-ahead", "rejected", "why")),
			flow.Run{Role: "plan", Prompt: "no to it: why", Location: "it"}},
		{"input before a gate is used up", "", steps(ready, input("also"), answer("go-ahead", "rejected", "why")),
			flow.Run{Role: "plan", Prompt: "no to it: why", Location: "it"}},
		{"input after a gate", "", steps(ready, input("also"), answer("go-ahead", "rejected", "why"), input("that")),
			flow.Run{Role: "plan", Prompt: "no to it: why\n\nthat", Location: "it"}},
		{"nobody answered", "", steps(ready, answer("go-ahead", "late", "")), flow.End{Code: 7, Summary: "it is late"}},
		{"a compaction is passed over", "", steps(ready, flow.Step{Role: "__compact__", Body: "x"},
			answer("go-ahead", "late", "")), flow.End{Code: 7, Summary: "it is late"}},

		{"gate to gate: the last one's answer", "", steps(ready, yes),
			flow.Gate{Node: "sure", Kind: "approval", Question: "yes: sure of it?\n\napproved", Timeout: seconds,
				OnTimeout: "rejected"}},
		{"gate to gate, with input", "", steps(ready, yes, input("also")),
			flow.Gate{Node: "sure", Kind: "approval", Question: "yes: sure of it?\n\napproved\n\nalso",
				Timeout: seconds, OnTimeout: "rejected"}},
		{"two gates, then a fork", "", steps(ready, yes, sure), flow.Fork{Node: "survey", ForkSpec: d.Forks["survey"]}},
		{"two gates, then a path's own prompt", "p-api", steps(ready, yes, sure),
			flow.Run{Role: "api", Prompt: "quite of it"}},
		{"two gates, then the route's prompt", "p-db", steps(ready, yes, input("lost"), sure, input("also")),
			flow.Run{Role: "db", Prompt: "it approved\n\nalso"}},
		{"the end after gates has the role's first line", "", steps(ready, yes, answer("sure", "rejected", "no")),
			flow.End{Summary: "body of plan", Default: true}},

		{"in a path", "p-api", steps(step("api", "done")),
			flow.Gate{Node: "mid", Kind: "input", Question: "In the path: body of api"}},
		{"in a path, to the join", "p-api", steps(step("api", "done"), answer("mid", "answered", "x")),
			flow.AtJoin{Join: "gathered"}},
		{"not to the join from the main line", "", steps(step("api", "done"), answer("mid", "answered", "x")),
			blocked("graph.mid.answered leads to the join gathered from outside its paths")},
		{"not to the end from a path", "p-api", steps(ready, answer("go-ahead", "late", ""), input("also")),
			blocked("graph.go-ahead.late leads out of path p-api to the end")},
		{"after a join", "", steps(joined), flow.Gate{Node: "after", Kind: "approval", Question: "text, p-db\n\nboth",
			OnTimeout: "rejected"}},
		{"answered after a join", "", steps(joined, answer("after", "approved", "fine")),
			flow.Run{Role: "sum", Prompt: "3 cancelled p-db fine whole"}},

		{"past the end, to a gate", "", steps(finished, input("go"), input("on")), more("More? go\n\non")},
		{"past the end and a gate: the added text is the prompt", "",
			steps(finished, input("go"), input("on"), answer("again", "approved", "ok")),
			flow.Run{Role: "sum", Prompt: "go\n\non"}},
		{"past the end and a gate, with input", "", steps(finished, input("go"), answer("again", "approved", "ok"),
			input("there")), flow.Run{Role: "sum", Prompt: "go\n\nthere"}},
		{"past an end that a gate led to", "", steps(ready, answer("go-ahead", "late", ""), input("go")),
			more("More? go")},
		{"past two ends", "", steps(finished, input("go"), answer("again", "rejected", ""), input("on"),
			answer("again", "approved", "")), flow.Run{Role: "sum", Prompt: "on"}},
		{"ended by a gate after $START", "", steps(finished, input("go"), answer("again", "rejected", "no")),
			flow.End{Default: true}},

		{"an empty question", "", steps(step("plan", "blank", "what", " ")),
			blocked("the question of gate empty is empty when rendered")},
		{"an empty question helped by input", "", steps(step("plan", "blank", "what", " "), input("this")),
			flow.Gate{Node: "empty", Kind: "approval", Question: "this", OnTimeout: "rejected"}},
		{"a question without its variable", "", steps(step("plan", "blank")),
			blocked("the question of gate empty: undefined variable in {{ what }}")},
		{"a route without its variable", "", steps(step("plan", "blank", "what", "x"), answer("empty", "approved", "")),
			blocked("graph.empty.approved.prompt: undefined variable in {{ gone }}")},
		{"no route for a status", "", steps(ready, answer("go-ahead", "answered", "x")),
			blocked(`graph.go-ahead has no route for status "answered"`)},
		{"a gate does not suspend itself", "", steps(ready, answer("go-ahead", "$SUSPEND", "x"), input("y")),
			blocked(`graph.go-ahead has no route for status "$SUSPEND"`)},
		{"a gate step without a status", "", steps(ready, flow.Step{Role: "go-ahead", Body: "x"}),
			blocked("the step of go-ahead has no $status")},
		{"no route after $START", "", steps(answer("hello", "approved", "")),
			blocked(`graph.hello has no route for status "approved"`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := flow.At{Flow: "gated", Prompt: "whole", Path: tt.path}
			got := flow.Next(d, at, tt.last)
			if f, ok := tt.want.(flow.Fork); ok {
				f.Rule = d.Joins[f.Join]
				tt.want = f
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, flow.Next(d, at, tt.last)); diff != "" {
				t.Errorf("decided again (-first +second):\n%s", diff)
			}
		})
	}
	roundTrip(t, d)
	if diff := cmp.Diff([]string{"api"}, d.Inside("p-api")); diff != "" {
		t.Errorf("inside p-api:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"approved", "late", "rejected"}, d.Statuses("go-ahead")); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}
