package parse_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// asking is a valid flow with two gates; each row of the tables replaces some of its lines, counted
// from 1, or adds some.
var asking = []string{
	"version: 1",
	"name: f",
	"roles: {a: {frontmatter: {properties: {$status: {const: ok}, x: {type: string}}}}, b: {}}",
	"gates:",
	"  yes: {question: q, timeout: 1h}",
	"  how: {kind: input, question: q, timeout: 60, onTimeout: late}",
	"graph:",
	"  $START: {new: {role: a, prompt: go}}",
	"  a: {ok: {role: yes}}",
	"  yes: {approved: {role: how}, rejected: {role: $END}}",
	"  how: {answered: {role: b, prompt: p}, late: {role: a, prompt: p}}",
	"  b: {ok: {role: $END}}",
}

func askingWith(edits map[int]string) string {
	lines := append([]string{}, asking...)
	for n, text := range edits {
		for n > len(lines) {
			lines = append(lines, "")
		}
		lines[n-1] = text
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestGateDefaultsAndKeys(t *testing.T) {
	d := parsed(t, askingWith(map[int]string{6: `  how: {kind: input, question: "{{ x }}", timeout: 60, onTimeout: ` +
		`late, options: [red, 7, "on"]}`}))
	want := map[string]flow.GateSpec{
		"yes": {Kind: flow.GateApproval, Question: "q", Timeout: 3600e9, OnTimeout: flow.Rejected},
		"how": {Kind: flow.GateInput, Question: "{{ x }}", Options: []string{"red", "7", "on"}, Timeout: 60e9,
			OnTimeout: "late"},
	}
	if diff := cmp.Diff(want, d.Gates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	roundTrip(t, d)
	d = parsed(t, askingWith(map[int]string{
		5:  "  yes: {kind: null, question: q, timeout: 0, onTimeout: rejected, options: }",
		6:  "  how: {kind: input, question: q, options: []}",
		11: "  how: {answered: {role: b, prompt: p}}",
	}))
	want = map[string]flow.GateSpec{
		"yes": {Kind: flow.GateApproval, Question: "q", OnTimeout: flow.Rejected},
		"how": {Kind: flow.GateInput, Question: "q", Options: []string{}},
	}
	if diff := cmp.Diff(want, d.Gates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	roundTrip(t, d)
	for role, want := range map[string]string{"yes": "approved rejected", "how": "answered"} {
		if got := strings.Join(d.Statuses(role), " "); got != want {
			t.Errorf("statuses of %s = %q, want %q", role, got, want)
		}
	}
}

type askingRow struct {
	name  string
	edits map[int]string
	want  string
}

func checkAsking(t *testing.T, tests []askingRow) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := askingWith(tt.edits)
			d, problems := parse.Parse(nil, "flow.yaml", []byte(text))
			if got := strings.Join(show(problems), ", "); got != tt.want {
				t.Errorf("\n got %s\nwant %s\n%v\n%s", got, tt.want, problems, text)
			}
			if (d == nil) != flow.Failed(problems) {
				t.Errorf("definition %v with problems %v", d != nil, problems)
			}
			schemaAgrees(t, text, problems)
			if d != nil {
				roundTrip(t, d)
			}
		})
	}
}

func TestGateChecks(t *testing.T) {
	yes := func(text string) map[int]string { return map[int]string{5: "  yes: " + text} }
	how := func(text string) map[int]string { return map[int]string{6: "  how: " + text} }
	checkAsking(t, []askingRow{
		{"right", nil, ""},
		{"unknown key", yes("{question: q, onTimout: rejected}"), "5:22 UNKNOWN_KEY"},
		{"unknown kind", yes("{kind: aproval, question: q}"), "5:15 BAD_GATE"},
		{"unknown kind says nothing of routes", how("{kind: x, question: q}"), "6:15 BAD_GATE"},
		{"kind is a list", yes("{kind: [x], question: q}"), "5:15 WRONG_TYPE"},
		{"no question", yes("{kind: approval}"), "5:3 MISSING_KEY"},
		{"nothing", yes(""), "5:3 MISSING_KEY"},
		{"blank question", yes("{question: ' '}"), "5:19 MISSING_KEY"},
		{"question is a number", yes("{question: 1}"), "5:19 WRONG_TYPE"},
		{"gate is text", yes("q"), "5:8 WRONG_TYPE"},
		{"gate is missing elsewhere", yes("!include nope.yaml"), "5:8 BAD_INCLUDE"},
		{"gates is a list", map[int]string{4: "gates: [x]", 5: "", 6: ""},
			"4:8 WRONG_TYPE, 9:18 UNKNOWN_ROLE, 10:3 UNKNOWN_ROLE, 10:26 UNKNOWN_ROLE, 11:3 UNKNOWN_ROLE"},
		{"options", yes("{question: q, options: [a, b, a, '']}"), "5:38 BAD_GATE, 5:41 BAD_GATE"},
		{"options is text", yes("{question: q, options: a}"), "5:31 WRONG_TYPE"},
		{"an option is a list", yes("{question: q, options: [[a]]}"), "5:32 WRONG_TYPE"},
		{"timeout", yes("{question: q, timeout: soon}"), "5:31 BAD_DURATION"},
		{"negative timeout", how("{kind: input, question: q, timeout: -1, onTimeout: late}"), "6:44 BAD_DURATION"},
		{"input with a timeout and nothing then", how("{kind: input, question: q, timeout: 60}"), "6:35 MISSING_KEY"},
		{"input that waits for ever", map[int]string{6: "  how: {kind: input, question: q}",
			11: "  how: {answered: {role: b, prompt: p}}"}, ""},
		{"onTimeout without a timeout", how("{kind: input, question: q, onTimeout: late}"), "6:35 BAD_GATE"},
		{"onTimeout with a timeout of 0", how("{kind: input, question: q, timeout: 0, onTimeout: late}"), ""},
		{"onTimeout is no status", yes("{question: q, timeout: 1, onTimeout: $SUSPEND}"), "5:45 BAD_GATE"},
		{"onTimeout approves", yes("{question: q, timeout: 1, onTimeout: approved}"), "5:45 BAD_GATE"},
		{"onTimeout is empty", yes("{question: q, timeout: 1, onTimeout: ''}"), "5:45 BAD_GATE"},
		{"onTimeout is a list", yes("{question: q, timeout: 1, onTimeout: [late]}"), "5:45 WRONG_TYPE"},
		{"onTimeout is not routed", yes("{question: q, timeout: 1, onTimeout: late}"), "10:3 MISSING_ROUTE"},
		{"onTimeout is the usual answer",
			map[int]string{6: "  how: {kind: input, question: q, timeout: 1, onTimeout: answered}",
				11: "  how: {answered: {role: b, prompt: p}}"}, ""},

		{"approval without approved", map[int]string{10: "  yes: {rejected: {role: how}}"}, "10:3 MISSING_ROUTE"},
		{"approval without rejected", map[int]string{10: "  yes: {approved: {role: how}}"}, "10:3 MISSING_ROUTE"},
		{"approval with answered",
			map[int]string{10: "  yes: {approved: {role: how}, rejected: {role: $END}, answered: {role: $END}}"},
			"10:56 EXTRA_ROUTE"},
		{"input without answered", map[int]string{11: "  how: {late: {role: b, prompt: p}}"}, "11:3 MISSING_ROUTE"},
		{"input with approved",
			map[int]string{11: "  how: {answered: {role: b, prompt: p}, late: {role: $END}, approved: {role: $END}}"},
			"11:61 EXTRA_ROUTE"},
		{"suspend", map[int]string{11: "  how: {answered: {role: b, prompt: p}, late: {role: $END}, $SUSPEND: " +
			"{role: $END}}"}, "11:61 SUSPEND_AS_NODE"},
		{"a list of routes", map[int]string{11: "  how: [{role: b}]"}, "11:3 OLD_FORMAT"},
		{"a route to a role without a prompt", map[int]string{11: "  how: {answered: {role: b}, late: {role: $END}}"},
			"11:19 PROMPT_MISSING"},
		{"a route to a gate with a prompt", map[int]string{9: "  a: {ok: {role: yes, prompt: \"{{ x }}\"}}"}, ""},
		{"a route to a gate with a location", map[int]string{9: "  a: {ok: {role: yes, location: sub}}"},
			"9:33 BAD_GATE"},
		{"a route to a gate with a code", map[int]string{9: "  a: {ok: {role: yes, code: 1}}"}, "9:29 BAD_CODE"},
		{"a route of a gate with a code and a location",
			map[int]string{11: "  how: {answered: {role: b, prompt: p, location: sub}, late: {role: $END, code: 3}}"},
			""},

		{"named like a role", map[int]string{5: "  b: {question: q}", 9: "  a: {ok: {role: how}}", 10: ""},
			"5:3 DUPLICATE_KEY, 12:3 MISSING_ROUTE, 12:3 MISSING_ROUTE, 12:7 EXTRA_ROUTE"},
		{"reserved name", map[int]string{5: "  __yes__: {question: q}", 9: "  a: {ok: {role: __yes__}}",
			10: "  __yes__: {approved: {role: how}, rejected: {role: $END}}"}, "5:3 RESERVED_ROLE"},
		{"name of an input", map[int]string{5: "  __input__: {question: q}", 9: "  a: {ok: {role: how}}", 10: ""},
			"5:3 RESERVED_ROLE, 5:3 ROLE_NOT_IN_GRAPH"},
		{"dollar name", map[int]string{5: "  $yes: {question: q}", 9: "  a: {ok: {role: $yes}}",
			10: "  $yes: {approved: {role: how}, rejected: {role: $END}}"}, "5:3 RESERVED_ROLE, 10:3 UNKNOWN_ROLE"},
		{"odd name", map[int]string{5: "  y s: {question: q}", 9: "  a: {ok: {role: y s}}",
			10: "  y s: {approved: {role: how}, rejected: {role: $END}}"}, "5:3 BAD_NAME"},
		{"not in the graph", map[int]string{10: "", 9: "  a: {ok: {role: how}}"}, "5:3 ROLE_NOT_IN_GRAPH"},
		{"led to but not in the graph",
			map[int]string{10: "", 11: "  how: {answered: {role: b, prompt: p}, late: {role: yes}}"},
			"5:3 ROLE_NOT_IN_GRAPH, 11:3 UNREACHABLE_NODE, 12:3 UNREACHABLE_NODE"},
		{"unreachable", map[int]string{9: "  a: {ok: {role: how}}"}, "10:3 UNREACHABLE_NODE"},
		{"unreachable but by itself",
			map[int]string{9: "  a: {ok: {role: how}}", 10: "  yes: {approved: {role: yes}, rejected: {role: $END}}"},
			"10:3 UNREACHABLE_NODE"},
		{"cannot end", map[int]string{11: "  how: {answered: {role: how}, late: {role: how}}"},
			"11:3 CANNOT_END, 12:3 UNREACHABLE_NODE"},
		{"at the start", map[int]string{8: "  $START: {new: {role: yes}, resume: {role: how}}",
			11: "  how: {answered: {role: a, prompt: p}, late: {role: $END}}", 9: "  a: {ok: {role: b, prompt: p}}"},
			""},
		{"pinned", map[int]string{13: "context: {pin: [yes]}"}, "13:17 UNKNOWN_ROLE"},
		{"two problems at once", yes("{kind: x, question: q, timeout: y}"), "5:15 BAD_GATE, 5:40 BAD_DURATION"},
	})
}

func TestGatesOnPaths(t *testing.T) {
	const gates = "gates: {y: {question: q}, z: {question: q}}\n"
	roles := "roles: {a: {}, r1: {}, r2: {}, r3: {}, m: {}}\n" + gates + "x-n: 1"
	// Lines of forked are two lower: r1 is line 13, r3 15, g 16, m 17, and y and z 18 and 19.
	with := func(y, z string, edits map[int]string) map[int]string {
		all := map[int]string{3: roles, 15: "  m: {ok: {role: $END}}\n  y: " + y + "\n  z: " + z,
			10: "  a: {ok: {role: z}}"}
		for n, text := range edits {
			all[n] = text
		}
		return all
	}
	const toFork, toJoin = "{approved: {role: s}, rejected: {role: $END}}",
		"{approved: {role: g}, rejected: {role: r3, prompt: p}}"
	inPath := map[int]string{11: "  r1: {ok: {role: y}}"}
	checkForked(t, []struct {
		name  string
		edits map[int]string
		want  string
	}{
		{"before the fork and in a path", with(toJoin, toFork, inPath), ""},
		{"after the join", with("{approved: {role: m, prompt: p}, rejected: {role: a, prompt: p}}", toFork,
			map[int]string{14: "  g: {joined: {role: y}}"}), ""},
		{"back to the fork after the join", with("{approved: {role: m, prompt: p}, rejected: {role: s}}", toFork,
			map[int]string{14: "  g: {joined: {role: y}}"}), ""},
		{"in a loop of a path", with("{approved: {role: g}, rejected: {role: r1, prompt: p}}", toFork,
			map[int]string{11: "  r1: {ok: {role: y}, on: {role: r3, prompt: p}}"}), ""},
		{"out of a path to the end", with("{approved: {role: g}, rejected: {role: $END}}", toFork,
			map[int]string{11: "  r1: {ok: {role: y}, on: {role: r3, prompt: p}}"}), "18:45 PATH_ESCAPES"},
		{"out of a path to the main line", with("{approved: {role: r3, prompt: p}, rejected: {role: m, prompt: p}}",
			toFork, inPath), "18:57 PATH_ESCAPES"},
		{"out of a path to its fork", with("{approved: {role: r3, prompt: p}, rejected: {role: s}}", toFork, inPath),
			"18:57 PATH_ESCAPES"},
		{"a path leads to a gate outside",
			with(toJoin, toFork, map[int]string{11: "  r1: {ok: {role: y}, no: {role: z}}"}), "13:34 PATH_ESCAPES"},
		{"into a path", with(toJoin, "{approved: {role: s}, rejected: {role: y}}", inPath), "19:45 PATH_ESCAPES"},
		{"to a join from outside", with(toJoin, "{approved: {role: s}, rejected: {role: g}}", inPath),
			"19:45 PATH_ESCAPES"},
		{"as a path's child",
			with(toJoin, toFork, map[int]string{5: "  s: {forkPathIds: [api, db], childNodeIds: [r1, y]}", 12: "",
				3: "roles: {a: {}, r1: {}, r3: {}, m: {}}\n" + gates + "x-n: 1"}), "7:50 INVALID_FORK_PATH_ITEM"},
		{"named like a fork",
			with(toJoin, toFork, map[int]string{3: strings.Replace(roles, "{y:", "{s: {question: q}, y:", 1),
				11: inPath[11]}), "4:9 DUPLICATE_KEY, 4:9 ROLE_NOT_IN_GRAPH"},
		{"named like a join",
			with(toJoin, toFork, map[int]string{3: strings.Replace(roles, "{y:", "{g: {question: q}, y:", 1),
				11: inPath[11]}), "4:9 DUPLICATE_KEY, 16:3 MISSING_ROUTE, 16:3 MISSING_ROUTE, 16:7 EXTRA_ROUTE"},
	})
}

func TestGateVariablesAreChecked(t *testing.T) {
	question := func(text string) map[int]string {
		return map[int]string{5: fmt.Sprintf("  yes: {question: %q}", text)}
	}
	second := func(text string) map[int]string {
		return map[int]string{11: fmt.Sprintf("  how: {answered: {role: b, prompt: %q}, late: {role: $END}}", text)}
	}
	merge := func(a, b map[int]string) map[int]string {
		for n, text := range b {
			a[n] = text
		}
		return a
	}
	const twice = "  $START: {new: {role: a, prompt: go}, resume: {role: how}}"
	other := map[int]string{
		3: "roles: {a: {frontmatter: {oneOf: [{properties: {$status: {const: ok}, x: {}}}, {properties: {$status: " +
			"{const: no}, w: {}}}]}}, b: {}}",
		9: "  a: {ok: {role: yes}, no: {role: how}}",
	}
	checkAsking(t, []askingRow{
		{"a question sees what the route sees", question("{{ x }} {{ _body }} {{ prompt }} {{ status }}"), ""},
		{"a question with an unknown variable", question("{{ y }}"), "5:23 UNKNOWN_VARIABLE"},
		{"a question before any answer", question("{{ answer }}"), "5:23 UNKNOWN_VARIABLE"},
		{"a question in bad Liquid", question("{% if %}"), "5:19 BAD_TEMPLATE"},
		{"a question after an answer",
			map[int]string{6: "  how: {kind: input, question: '{{ answer }} {{ x }} {{ z }}', timeout: 1, " +
				"onTimeout: late}"}, "6:57 UNKNOWN_VARIABLE"},
		{"routes of a gate",
			map[int]string{10: "  yes: {approved: {role: how, prompt: '{{ x }} {{ answer }} {{ status }} {{ _body " +
				"}}'}, rejected: {role: $END, prompt: '{{ y }}'}}"}, "10:124 UNKNOWN_VARIABLE"},
		{"routes of a second gate", second("{{ x }} {{ answer | upcase }} {{ status }} {{ prompt }} {{ y }}"),
			"11:97 UNKNOWN_VARIABLE"},
		{"a location", map[int]string{11: "  how: {answered: {role: b, prompt: p, location: '{{ x }}/{{ y }}'}, " +
			"late: {role: $END}}"}, "11:62 UNKNOWN_VARIABLE"},
		{"from $START: only prompt, answer and status", merge(second("{{ prompt }} {{ answer }} {{ status }}"),
			map[int]string{8: twice}), ""},
		{"from $START: the rest is empty", merge(second("{{ x }} {{ _body }}"), map[int]string{8: twice}),
			"11:41 UNKNOWN_VARIABLE warning, 11:49 UNKNOWN_VARIABLE warning"},
		{"a field that one way has not", merge(second("{{ x | default: w }}"), other),
			"11:41 UNKNOWN_VARIABLE, 11:54 UNKNOWN_VARIABLE"},
		{"what all ways have", merge(second("{{ answer }} {{ _body }}"), other), ""},
		{"a gate nothing leads to",
			merge(question("{{ anything }}{% frob %}"), map[int]string{9: "  a: {ok: {role: how}}"}),
			"5:19 BAD_TEMPLATE, 10:3 UNREACHABLE_NODE"},
		{"in a circle of gates",
			map[int]string{10: "  yes: {approved: {role: how, prompt: '{{ x }}'}, rejected: {role: $END}}",
				11: "  how: {answered: {role: yes, prompt: '{{ answer }} {{ v }}'}, late: {role: b, prompt: '{{ x " +
					"}} {{ z }}'}}"}, "11:56 UNKNOWN_VARIABLE, 11:100 UNKNOWN_VARIABLE"},
	})
}

// The path prompts of a fork see the same data through gates.
func TestPathPromptsBehindGates(t *testing.T) {
	checkForked(t, []struct {
		name  string
		edits map[int]string
		want  string
	}{
		{"a path prompt and a join's", map[int]string{
			3: "roles: {a: {frontmatter: {properties: {$status: {const: ok}, x: {}}}}, r1: {}, r2: {}, r3: {}, m: " +
				"{}}\ngates: {y: {question: '{{ x }}'}, z: {question: '{{ paths.db.text }}{{ paths.no }}'}}",
			5: "  s: {forkPaths: [{pathId: api, childNodeId: r1, prompt: '{{ answer }} {{ x }} {{ w }}'}, {pathId: " +
				"db, childNodeId: r2}]}",
			10: "  a: {ok: {role: y}}\n  y: {approved: {role: s}, rejected: {role: $END}}",
			14: "  g: {joined: {role: z}}\n  z: {approved: {role: m, prompt: '{{ paths.api.meta.n }} {{ decidedBy }} " +
				"{{ answer }} {{ x }}'}, rejected: {role: $END}}",
		}, "4:72 UNKNOWN_VARIABLE, 6:83 UNKNOWN_VARIABLE, 17:91 UNKNOWN_VARIABLE"},
	})
}

func ExampleNext_gate() {
	d, _ := parse.Parse(nil, "ask.yaml", []byte(`
version: 1
name: ask
roles:
  asker: {frontmatter: {properties: {$status: {const: unclear}, about: {type: string}}}}
  worker: {}
gates:
  which: {kind: input, question: "Which {{ about }}?"}
graph:
  $START: {new: {role: asker, prompt: "{{ prompt }}"}}
  asker: {unclear: {role: which}}
  which: {answered: {role: worker, prompt: "The {{ about }} is {{ answer }}."}}
  worker: {done: {role: $END}}
`))
	at := flow.At{Flow: "ask", Prompt: "Start the server."}
	last := []flow.Step{{Role: "asker", Meta: map[string]any{"$status": "unclear", "about": "port"}}}
	fmt.Printf("%+v\n", flow.Next(d, at, last).(flow.Gate).Question)
	last = append(last, flow.Step{Role: "which", Meta: map[string]any{"$status": "answered", "answer": "8080"},
		Body: "8080"})
	fmt.Printf("%+v\n", flow.Next(d, at, last))
	// Output:
	// Which port?
	// {Role:worker Prompt:The port is 8080. Location:}
}
