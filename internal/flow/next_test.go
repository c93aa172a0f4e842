package flow_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

const routed = `version: 1
name: routed
roles:
  plan:
    frontmatter:
      oneOf:
        - properties:
            $status: {const: ready}
            files: {type: array, items: {type: string}}
            n: {type: number}
            o: {type: object}
            opt: {type: string}
        - properties: {$status: {const: unclear}, question: {type: string}}
        - properties: {$status: {const: odd}, note: {type: string}}
  free: {}
graph:
  $START:
    new: {role: plan, prompt: "{{ prompt }}{{ nobody }}"}
    resume: {role: free, prompt: "more: {{ prompt }}", location: "sub/{{ nobody }}"}
  plan:
    ready:
      role: free
      prompt: "{{ files | join: ', ' }} | {{ files }} | {{ o }} | {{ n }} | {{ opt | default: 'none' }} | {{ status }} | {{ prompt }} | {{ _body }}"
      location: "{{ files[0] }}"
    unclear: {role: $END, code: 3, prompt: "asked: {{ question }}"}
    odd: {role: free, prompt: "{{ note }}"}
  free:
    again: {role: plan, prompt: "{% for kv in m %}{{ kv[0] }}={{ kv[1] }};{% endfor %}"}
    over: {role: $END}
    lost: {role: $END, prompt: "{{ nobody }}"}
`

func TestNext(t *testing.T) {
	d := parsed(t, routed)
	meta := func(status string, kv ...any) map[string]any {
		m := map[string]any{"$status": status}
		for i := 0; i+1 < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	input := flow.Step{Role: "__input__", Body: "also this"}
	more := flow.Step{Role: "__input__", Body: "and that"}
	ready := meta("ready", "files", []any{"a.go", "b.go"}, "n", 1234567.0, "o", map[string]any{"k": "<v>"})
	tests := []struct {
		name string
		last []flow.Step
		want flow.Decision
	}{
		{"start", nil, flow.Run{Role: "plan", Prompt: "do it"}},
		{"start with input", []flow.Step{input, more},
			flow.Run{Role: "plan", Prompt: "do it\n\nalso this\n\nand that"}},
		{
			"fields", []flow.Step{{Role: "plan", Meta: ready, Body: "text"}},
			flow.Run{Role: "free", Location: "a.go", Prompt: `a.go, b.go | ["a.go","b.go"] | {"k":"<v>"} | 1234567 | ` +
				`none | ready | do it | text`},
		},
		{
			"input joins the next prompt", []flow.Step{{Role: "plan", Meta: meta("odd", "note", "go\n")}, input},
			flow.Run{Role: "free", Prompt: "go\n\nalso this"},
		},
		{
			"a compaction is passed over", []flow.Step{{Role: "plan", Meta: meta("odd", "note", "go")},
				{Role: "__compact__", Body: "x"}},
			flow.Run{Role: "free", Prompt: "go"},
		},
		{"end with a code", []flow.Step{{Role: "plan", Meta: meta("unclear", "question", "why?")}},
			flow.End{Code: 3, Summary: "asked: why?"}},
		{"end without prompt", []flow.Step{{Role: "free", Meta: meta("over"), Body: "\n first \nsecond"}},
			flow.End{Summary: "first", Default: true}},
		{"end without anything", []flow.Step{{Role: "free", Meta: meta("over")}}, flow.End{Default: true}},
		{
			"past the end", []flow.Step{{Role: "plan", Meta: meta("unclear", "question", "why?")}, input, more},
			flow.Run{Role: "free", Prompt: "more: also this\n\nand that", Location: "sub/"},
		},
		{"suspended", []flow.Step{{Role: "plan", Meta: meta("$SUSPEND", "reason", "need a key")}},
			flow.Gate{Node: "plan", Kind: flow.GateInput, Question: "need a key", Input: true}},
		{"suspended with more said", []flow.Step{{Role: "plan", Meta: meta("$SUSPEND", "reason", "need a key"),
			Body: "There are two."}},
			flow.Gate{Node: "plan", Kind: flow.GateInput, Question: "need a key\n\nThere are two.", Input: true}},
		{"suspended without a reason", []flow.Step{{Role: "plan", Meta: meta("$SUSPEND")}},
			flow.Gate{Node: "plan", Kind: flow.GateInput, Input: true,
				Question: "plan waits for a person, and does not say for what."}},
		{"suspended and answered", []flow.Step{{Role: "plan", Meta: meta("$SUSPEND", "reason", "r")}, input},
			flow.Run{Role: "plan", Prompt: "also this"}},
		{
			"maps are walked in order",
			[]flow.Step{{Role: "free", Meta: meta("again", "m", map[string]any{"b": 2.0, "a": []any{1.0}, "c": "x"})}},
			flow.Run{Role: "plan", Prompt: "a=[1];b=2;c=x;"},
		},
		{"empty prompt", []flow.Step{{Role: "plan", Meta: meta("odd", "note", " ")}},
			flow.Blocked{Kind: "route", Reason: "graph.plan.odd.prompt is empty when rendered"}},
		{"empty prompt helped by input", []flow.Step{{Role: "plan", Meta: meta("odd", "note", " ")}, input},
			flow.Run{Role: "free", Prompt: "also this"}},
		{"missing field", []flow.Step{{Role: "plan", Meta: meta("odd")}},
			flow.Blocked{Kind: "route", Reason: "graph.plan.odd.prompt: undefined variable in {{ note }}"}},
		{"missing field at the end", []flow.Step{{Role: "free", Meta: meta("lost")}},
			flow.Blocked{Kind: "route", Reason: "graph.free.lost.prompt: undefined variable in {{ nobody }}"}},
		{"no route", []flow.Step{{Role: "plan", Meta: meta("gone")}},
			flow.Blocked{Kind: "route", Reason: `graph.plan has no route for status "gone"`}},
		{"no status", []flow.Step{{Role: "plan"}},
			flow.Blocked{Kind: "route", Reason: "the step of plan has no $status"}},
		{"unknown role", []flow.Step{{Role: "x", Meta: meta("ok")}},
			flow.Blocked{Kind: "route", Reason: `graph.x has no route for status "ok"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := flow.Next(d, flow.At{Flow: "routed", Prompt: "do it"}, tt.last)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestContinuedWithoutResumeTakesNew(t *testing.T) {
	d := parsed(t, strings.Replace(edited(0, ""), "prompt: go", `prompt: "go: {{ prompt }}"`, 1))
	got := flow.Next(d, flow.At{Prompt: "old"}, []flow.Step{
		{Role: "a", Meta: map[string]any{"$status": "ok"}},
		{Role: "__input__", Body: "new"},
	})
	if want := (flow.Run{Role: "a", Prompt: "go: new"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A template that would take too long is an error that names the route and the line.
func TestNextEndsWithoutLimit(t *testing.T) {
	d := parsed(t, strings.Replace(edited(0, ""), "prompt: go", `prompt: "{% for i in (1..20000) %}x{% endfor %}\n`+
		`{% for i in (1..999999999999) %}x{% endfor %}"`, 1))
	want := flow.Blocked{Kind: "route", Reason: "graph.$START.new.prompt: line 2: over the limit of 1000000 elements " +
		"of lists in {% for i in (1..999999999999) %}"}
	if got := flow.Next(d, flow.At{}, nil); got != flow.Decision(want) {
		t.Errorf("got %.200v", got)
	}
}

// A template that would render differently the next time is refused when it is rendered.
func TestNextKnowsNoClock(t *testing.T) {
	d := parsed(t, strings.Replace(edited(0, ""), "prompt: go", `prompt: "{{ 'now' | date: '%s' }}"`, 1))
	got, ok := flow.Next(d, flow.At{}, nil).(flow.Blocked)
	if !ok || !strings.Contains(got.Reason, "would change between renderings") {
		t.Errorf("got %+v", got)
	}
}

func TestValidate(t *testing.T) {
	d := parsed(t, `version: 1
name: v
roles:
  r:
    frontmatter:
      oneOf:
        - properties: {$status: {const: ok}, n: {type: integer}, s: {type: string}}
          required: [$status, n, s]
          additionalProperties: false
        - properties: {$status: {const: no}}
          required: [$status]
          additionalProperties: false
  free: {}
graph:
  $START: {new: {role: r, prompt: p}}
  r: {ok: {role: free, prompt: p}, no: {role: $END}}
  free: {done: {role: $END}}
`)
	tests := []struct {
		name, role string
		meta       map[string]any
		want       string // parts of the error; empty for none
	}{
		{"right", "r", map[string]any{"$status": "ok", "n": 1, "s": "x"}, ""},
		{"right with float", "r", map[string]any{"$status": "ok", "n": 1.0, "s": "x"}, ""},
		{"the chosen variant only", "r", map[string]any{"$status": "ok", "n": "x", "s": "y"},
			`/n: "x"; it must be of type integer`},
		{"missing", "r", map[string]any{"$status": "ok", "n": 1}, "missing property 's'"},
		{"another status", "r", map[string]any{"$status": "maybe"}, `/$status: "maybe"; it must be "no" or "ok"`},
		{"suspend", "r", map[string]any{"$status": "$SUSPEND", "reason": "wait"}, ""},
		{"suspend with odd reason", "r", map[string]any{"$status": "$SUSPEND", "reason": 1}, "reason must be text"},
		{"no schema", "free", map[string]any{"anything": true}, ""},
		{"no role", "nobody", nil, `no role "nobody"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := d.Validate(tt.role, tt.meta)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q in it", err, tt.want)
			case tt.name == "the chosen variant only" && strings.Contains(err.Error(), "\n"):
				t.Errorf("the other variant's errors are in it: %v", err)
			}
		})
	}
}

// TestValidateSaysWhatItGot checks that an error shows the wrong value, shortened, wherever it is and whatever rule of
// a schema it breaks.
func TestValidateSaysWhatItGot(t *testing.T) {
	d := parsed(t, `version: 1
name: v
roles:
  r:
    frontmatter:
      properties:
        $status: {enum: [more, enough]}
        n: {type: [integer, "null"], minimum: 3}
        c: {const: {a: 1}}
        p: {type: string, pattern: "^x", maxLength: 200}
        in: {type: object, properties: {list: {type: array, items: {type: string, minLength: 2}, minItems: 1}}}
        never: false
        names: {propertyNames: {pattern: "^[a-z]+$"}, type: object}
        nameless: {propertyNames: false}
      required: [$status]
graph:
  $START: {new: {role: r, prompt: p}}
  r: {more: {role: r, prompt: p}, enough: {role: $END}}
`)
	long := strings.Repeat("é", 300)
	for _, tt := range []struct{ meta, want string }{
		{`{"$status": ""}`, `/$status: ""; it must be "more" or "enough"`},
		{`{"$status": "more", "n": "x"}`, `/n: "x"; it must be of type null or integer`},
		{`{"$status": "more", "names": {"ok": 1, "A1": 2}}`, `key "A1"; it must match the pattern ^[a-z]+$`},
		{`{"$status": "more", "nameless": {"a": 1}}`, `key "a" is not allowed`},
		{`{"$status": "more", "n": 2}`, `/n: 2; minimum: got 2, want 3`},
		{`{"$status": "more", "c": 1}`, `/c: 1; it must be {"a":1}`},
		{`{"$status": "more", "c": {"a": [1, 2]}}`, `/c: {"a":[1,2]}; it must be {"a":1}`},
		{`{"$status": "more", "p": "y<z"}`, `/p: "y<z"; it must match the pattern ^x`},
		{`{"$status": "more", "p": "x` + long + `"}`,
			`/p: "x` + strings.Repeat("é", 77) + `…; maxLength: got 301, want 200`},
		{`{"$status": "more", "in": {"list": ["ab", "c"]}}`, `/in/list/1: "c"; minLength: got 1, want 2`},
		{`{"$status": "more", "in": {"list": []}}`, `/in/list: minItems: got 0, want 1`},
		{`{"$status": "more", "in": []}`, `/in: []; it must be of type object`},
		{`{"$status": "more", "never": true}`, `/never: true is not allowed`},
	} {
		if err := d.Validate("r", fields(t, tt.meta)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.meta, err, tt.want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	d := parsed(t, routed)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				last := []flow.Step{{Role: "plan", Meta: map[string]any{"$status": "unclear", "question": "q"}}}
				if got := flow.Next(d, flow.At{}, last); got != flow.Decision(flow.End{Code: 3, Summary: "asked: q"}) {
					t.Errorf("got %+v", got)
				}
				if err := d.Validate("plan", last[0].Meta); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
