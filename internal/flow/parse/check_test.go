package parse_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// base is a valid flow; each row replaces one of its lines, counted from 1, or all of it (0).
var base = []string{
	"version: 1",
	"name: f",
	"roles:",
	"  a: {frontmatter: {properties: {$status: {const: ok}, x: {type: string}}}}",
	"graph:",
	"  $START: {new: {role: a, prompt: go}}",
	"  a: {ok: {role: $END}}",
}

func edited(line int, text string) string {
	if line == 0 && text != "" {
		return text
	}
	lines := append([]string{}, base...)
	if line > len(lines) {
		lines = append(lines, text)
	} else if line > 0 {
		lines[line-1] = text
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestChecks(t *testing.T) {
	const flat = "  a: {frontmatter: {properties: {$status: {const: ok}}}"
	tests := []struct {
		name string
		line int
		text string
		want string // "line:col CODE", separated by ", "
	}{
		{"right", 0, "", ""},
		{"unknown key", 8, "limit: {}", "8:1 UNKNOWN_KEY"},
		{"unknown keys, all of them", 4, "  a: {goaal: x, frontmatter: {properties: {$status: {const: ok}}}, " +
			"Access: read}", "4:7 UNKNOWN_KEY, 4:68 UNKNOWN_KEY"},
		{"unknown route key", 7, "  a: {ok: {role: $END, promt: x}}", "7:24 UNKNOWN_KEY"},
		{"extension keys", 8, "x-notes: {anything: 1}", ""},
		{"wrong type", 2, "name: f\ndescription: [a]", "3:14 WRONG_TYPE"},
		{"wrong types", 4, "  a: {goal: 1, capabilities: x, frontmatter: [1]}",
			"4:13 WRONG_TYPE, 4:30 WRONG_TYPE, 4:46 WRONG_TYPE"},
		{"number too large", 4, flat + ", agent: {kind: codex, config: {n: 9007199254740993}}}", "4:91 WRONG_TYPE"},
		{"number of another YAML", 8, "limits: {maxRounds: 010, timeout: 0100, maxOutput: 1_0}\nx: 1",
			"8:21 BAD_LIMIT, 8:35 BAD_DURATION, 8:52 BAD_LIMIT, 9:1 UNKNOWN_KEY"},
		{"number of another YAML in a schema", 4, "  a: {frontmatter: {properties: {$status: {const: ok}, m: {const: 0644}}}}",
			"4:67 WRONG_TYPE"},
		{"duplicate key", 8, "version: 1", "8:1 DUPLICATE_KEY"},
		{"duplicate route", 7, "  a: {ok: {role: $END}, ok: {role: $END}}", "7:25 DUPLICATE_KEY"},
		{"bad yaml", 7, "  a: {ok: {role: $END}", "8:1 BAD_YAML"},
		{"two documents", 8, "---\na: b", "8:1 BAD_YAML"},
		{"unknown tag", 2, "name: !thing f", "2:7 UNKNOWN_TAG"},
		{"no version", 1, "x-a: 1", "1:1 VERSION_MISSING warning"},
		{"bad version", 1, "version: 2", "1:10 BAD_VERSION"},
		{"old table", 8, "moderator: {}", "8:1 OLD_FORMAT"},
		{"old edges", 8, "edges: []\nconditions: {}\nbundle: x", "8:1 OLD_FORMAT, 9:1 OLD_FORMAT, 10:1 OLD_FORMAT"},
		{"old role", 4, flat + ", systemPrompt: x}", "4:58 OLD_FORMAT"},
		{"old list of routes", 7, "  a: [{role: $END}]", "7:3 OLD_FORMAT"},
		{"old condition", 7, "  a: {ok: {role: $END, condition: x}}", "7:24 OLD_FORMAT"},
		{"bad name", 2, "name: a/b", "2:7 BAD_NAME"},
		{"no name", 2, "x-a: 1", "1:1 MISSING_KEY"},
		{"reserved role", 4, "  __a__: {}\n" + flat + "}", "4:3 RESERVED_ROLE, 4:3 ROLE_NOT_IN_GRAPH"},
		{"dollar role", 4, "  $a: {}\n" + flat + "}", "4:3 RESERVED_ROLE, 4:3 ROLE_NOT_IN_GRAPH"},
		{"bad role name", 4, "  a b: {}\n" + flat + "}", "4:3 BAD_NAME, 4:3 ROLE_NOT_IN_GRAPH"},
		{"unknown role", 7, "  a: {ok: {role: b}}", "7:18 UNKNOWN_ROLE"},
		{"unknown node", 8, "  b: {ok: {role: $END}}", "8:3 UNKNOWN_ROLE"},
		{"back to the start", 7, "  a: {ok: {role: $START}}", "7:18 UNKNOWN_ROLE"},
		{"pin", 8, "context: {pin: [a, b]}", "8:20 UNKNOWN_ROLE"},
		{"role not in graph", 4, "  b: {}\n" + flat + "}", "4:3 ROLE_NOT_IN_GRAPH"},
		{"no start", 6, "  $END: {}", "5:1 START_MISSING"},
		{"start without new", 6, "  $START: {resume: {role: a, prompt: go}}", "6:3 START_NEEDS_NEW"},
		{"start with more", 6, "  $START: {new: {role: a, prompt: go}, again: {role: a, prompt: go}}",
			"6:40 EXTRA_ROUTE"},
		{"older start", 6, "  $START: {_: {role: a, prompt: go}}", "6:3 START_NEEDS_NEW, 6:12 OLD_FORMAT"},
		{"end with routes", 8, "  $END: {ok: {role: a, prompt: p}}", "8:3 END_HAS_ROUTES"},
		{"suspend as node", 8, "  $SUSPEND: {}", "8:3 SUSPEND_AS_NODE"},
		{"suspend as target", 7, "  a: {ok: {role: $SUSPEND}}", "7:18 SUSPEND_AS_NODE"},
		{"suspend as status", 7, "  a: {ok: {role: $END}, $SUSPEND: {role: $END}}", "7:25 SUSPEND_AS_NODE"},
		{"unreachable", 0, "version: 1\nname: f\nroles: {a: {}, b: {}}\ngraph:\n  b: {ok: {role: $END}}\n" +
			"  $START: {new: {role: a, prompt: p}}\n  a: {ok: {role: $END}}", "5:3 UNREACHABLE_NODE"},
		{"cannot end", 7, "  a: {ok: {role: a, prompt: p}}", "5:1 CANNOT_END"},
		{"one cannot end", 0, "version: 1\nname: f\nroles: {a: {}, b: {}}\ngraph:\n  b: {ok: {role: b, prompt: p}}\n" +
			"  $START: {new: {role: a, prompt: p}, resume: {role: b, prompt: p}}\n  a: {ok: {role: $END}}",
			"5:3 CANNOT_END"},
		{"missing route", 7, "  a: {}", "5:1 CANNOT_END, 7:3 MISSING_ROUTE"},
		{"missing exit route", 4, "  a: {agent: {kind: command, command: [x], exit: {0: ok, 1: bad}}}",
			"7:3 MISSING_ROUTE"},
		{"extra route", 7, "  a: {ok: {role: $END}, no: {role: $END}}", "7:25 EXTRA_ROUTE"},
		{"variant without status", 4, "  a: {frontmatter: {oneOf: [{properties: {$status: {const: ok}}}, " +
			"{properties: {x: {}}}]}}", "4:67 ONEOF_STATUS"},
		{"status no text", 4, "  a: {frontmatter: {oneOf: [{properties: {$status: {const: 1}}}]}}",
			"4:60 ONEOF_STATUS"},
		{"flat without status", 4, "  a: {frontmatter: {properties: {x: {}}}}", "4:7 ONEOF_STATUS warning"},
		{"bad schema", 4, "  a: {frontmatter: {properties: {$status: {const: ok}, x: {type: strin}}}}",
			"4:66 BAD_SCHEMA"},
		{"schema elsewhere", 4, "  a: {frontmatter: {$ref: \"file:///etc/passwd\"}}", "4:27 BAD_SCHEMA"},
		{"reserved property", 4, "  a: {frontmatter: {properties: {$status: {const: ok}, _body: {}}}}",
			"4:56 RESERVED_PROPERTY"},
		{"no prompt", 6, "  $START: {new: {role: a}}", "6:17 PROMPT_MISSING"},
		{"empty prompt", 6, "  $START: {new: {role: a, prompt: ' '}}", "6:35 PROMPT_MISSING"},
		{"no role", 7, "  a: {ok: {prompt: x}}", "7:11 MISSING_KEY"},
		{"no roles", 3, "x-roles:", "1:1 MISSING_KEY, 6:24 UNKNOWN_ROLE, 7:3 UNKNOWN_ROLE"},
		{"bad access", 4, flat + ", access: rw}", "4:66 BAD_ACCESS"},
		{"bad limit", 8, "limits: {maxRounds: -1, maxOutput: 8XB, maxTokens: x}",
			"8:21 BAD_LIMIT, 8:36 BAD_LIMIT, 8:52 WRONG_TYPE"},
		{"numbers by their values", 8, "limits: {maxRounds: 1e3, maxDepth: 3.0, maxActions: 0x10, maxTokens: -0, " +
			"maxOutput: -0.0, timeout: 1e3}\ncontext: {tokens: 0o17}", ""},
		{"version by its value", 1, "version: 1.0", ""},
		{"code by its value", 7, "  a: {ok: {role: $END, code: 1e2}}", ""},
		{"numbers that are none", 8, "limits: {maxRounds: .inf, maxDepth: .nan, timeout: -.inf, maxOutput: 1e400}",
			"8:21 BAD_LIMIT, 8:37 BAD_LIMIT, 8:52 BAD_DURATION, 8:70 BAD_LIMIT"},
		{"numbers out of range", 8, "limits: {maxRounds: 1e16, maxDepth: 9007199254740992, timeout: 9999999h, maxOutput: 1e17}",
			"8:21 BAD_LIMIT, 8:37 BAD_LIMIT, 8:64 BAD_DURATION, 8:85 BAD_LIMIT"},
		{"fractions", 8, "limits: {maxRounds: 1.5, maxDepth: 1e-3}", "8:21 WRONG_TYPE, 8:36 WRONG_TYPE"},
		{"bad duration", 8, "limits: {timeout: 2 days}", "8:19 BAD_DURATION"},
		{"negative duration", 8, "limits: {timeout: -2s}", "8:19 BAD_DURATION"},
		{"bad code", 7, "  a: {ok: {role: $END, code: 256}}", "7:30 BAD_CODE"},
		{"code on a role", 6, "  $START: {new: {role: a, prompt: go, code: 1}}", "6:45 BAD_CODE"},
		{"agent kind", 4, flat + ", agent: {kind: x}}", "4:66 BAD_AGENT"},
		{"agent without kind", 4, flat + ", agent: {model: x}}", "4:65 BAD_AGENT"},
		{"shell line", 4, flat + ", agent: {kind: command, command: go test}}", "4:90 BAD_AGENT"},
		{"agent's foreign key", 4, flat + ", agent: {kind: command, command: [x], model: m}}", "4:95 BAD_AGENT"},
		{"agent dir", 4, flat + ", agent: {kind: command, command: [x], dir: ../x}}", "4:100 BAD_AGENT"},
		{"exit code", 4, flat + ", agent: {kind: command, command: [x], exit: {256: ok}}}", "4:102 BAD_AGENT"},
		{"plan with a schema", 4, "  a: {plan: true, frontmatter: {type: object}}",
			"4:7 BAD_PLAN, 7:3 MISSING_ROUTE, 7:7 EXTRA_ROUTE"},
		{"empty parts", 8, "forks: {}\njoins: {}\ngates: {}", ""},
		{"include missing", 4, "  a: !include nope.yaml", "4:6 BAD_INCLUDE"},
		{"include outside", 4, "  a: !include ../a.yaml", "4:6 BAD_INCLUDE"},
		{"include absolute", 4, "  a: !include /a.yaml", "4:6 BAD_INCLUDE"},
		{"include itself", 4, "  a: !include flow.yaml", "4:6 BAD_INCLUDE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := edited(tt.line, tt.text)
			d, problems := parse.Parse(files{}, "flow.yaml", []byte(text))
			if got := strings.Join(show(problems), ", "); got != tt.want {
				t.Errorf("\n got %s\nwant %s\n%v\n%s", got, tt.want, problems, text)
			}
			if (d == nil) != flow.Failed(problems) {
				t.Errorf("definition %v with problems %v", d != nil, problems)
			}
			schemaAgrees(t, text, problems)
		})
	}
}

func TestTemplateChecks(t *testing.T) {
	const head = `version: 1
name: f
roles:
  a:
    frontmatter:
      oneOf:
        - properties: {$status: {const: ok}, x: {type: string}, l: {items: {properties: {n: {}}}}, o: {properties: {k: {}}}, any: {}}
        - properties: {$status: {const: no}, why: {type: string}}
graph:
  $START: {new: {role: a, prompt: go}}
  a:
    no: {role: $END}
`
	tests := []struct {
		name, text, want string
	}{
		{"fields", `    ok: {role: $END, prompt: "{{ x }} {{ l }} {{ _body }} {{ prompt }} {{ status }} {{ ` +
			`any.thing[0].at_all }}"}`, ""},
		{"paths", `    ok: {role: $END, prompt: "{{ l[0].n }} {{ l.first }} {{ l.size }} {{ o.k }} {{ o['k'] }} ` +
			`{{ o[x] }}"}`, ""},
		{"other variant's field", `    ok: {role: $END, prompt: "{{ x }} and {{ why }}"}`, "13:46 UNKNOWN_VARIABLE"},
		{"nested", `    ok: {role: $END, prompt: "{{ o.j }}{{ l[0].m }}"}`,
			"13:34 UNKNOWN_VARIABLE, 13:43 UNKNOWN_VARIABLE"},
		{"default does not hide", `    ok: {role: $END, prompt: "{{ nope | default: 'd' }}"}`,
			"13:34 UNKNOWN_VARIABLE"},
		{"argument", `    ok: {role: $END, prompt: "{{ x | append: nope }}"}`, "13:46 UNKNOWN_VARIABLE"},
		{"condition", `    ok: {role: $END, prompt: "{% if nope == 1 and x %}{% endif %}"}`, "13:37 UNKNOWN_VARIABLE"},
		{"loop", `    ok: {role: $END, prompt: "{% for i in l reversed limit:2 %}{{ i.n }}{{ i.m }}{{ forloop.index ` +
			`}}{% endfor %}{{ i }}"}`, "13:76 UNKNOWN_VARIABLE, 13:116 UNKNOWN_VARIABLE"},
		{"assign and capture", `    ok: {role: $END, prompt: "{% assign y = x | upcase %}{% capture z %}{{ y }}{% ` +
			`endcapture %}{{ z }}{{ w }}"}`, "13:106 UNKNOWN_VARIABLE"},
		{"case", `    ok: {role: $END, prompt: "{% case x %}{% when nope %}{% else %}{% endcase %}"}`,
			"13:51 UNKNOWN_VARIABLE"},
		{"block text", "    ok:\n      role: $END\n      prompt: |\n        line\n          {{ nope }}",
			"17:14 UNKNOWN_VARIABLE"},
		{"escaped text", `    ok: {role: $END, prompt: "{{ x }}\t{{ nope | append: \"é\" }}"}`,
			"13:30 UNKNOWN_VARIABLE"},
		{"syntax", `    ok: {role: $END, prompt: "{{ x | }}{{ x y }}"}`, "13:31 BAD_TEMPLATE, 13:40 BAD_TEMPLATE"},
		{"one brace", `    ok: {role: $END, prompt: "a {{ x }"}`, "13:33 BAD_TEMPLATE"},
		{"triple braces", `    ok: {role: $END, prompt: "a {{{x}}}"}`, "13:33 BAD_TEMPLATE"},
		{"block without end", "    ok:\n      role: $END\n      prompt: |\n        line\n        {% if x %}",
			"17:9 BAD_TEMPLATE"},
		{"unknown tag", `    ok: {role: $END, prompt: "{% frob %}"}`, "13:30 BAD_TEMPLATE"},
		{"unknown filter", `    ok: {role: $END, prompt: "{{ x | frob: 1 }}"}`, "13:38 BAD_TEMPLATE"},
		{"include", `    ok: {role: $END, prompt: "{% include 'x' %}"}`, "13:31 BAD_TEMPLATE"},
		{"number too long", `    ok: {role: $END, prompt: "{{ 99999999999999999999 }}"}`, "13:31 BAD_TEMPLATE"},
		{"raw", `    ok: {role: $END, prompt: "{% raw %}{{ nope }}{% endraw %}"}`, ""},
		{"location", `    ok: {role: a, prompt: p, location: "{{ nope }}"}`, "13:44 UNKNOWN_VARIABLE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := parse.Parse(nil, "flow.yaml", []byte(head+tt.text+"\n"))
			if got := strings.Join(show(problems), ", "); got != tt.want {
				t.Errorf("\n got %s\nwant %s\n%v", got, tt.want, problems)
			}
		})
	}
}

func TestNameMustMatchFile(t *testing.T) {
	tests := []struct{ file, want string }{
		{"g.yaml", ""},
		{".workflows/f.yaml", ""},
		{"a/.plait/flows/f.yml", ""},
		{".workflows/f/index.yaml", ""},
		{".workflows/g.yaml", "2:7 NAME_MISMATCH"},
		{"/r/.plait/flows/g.yaml", "2:7 NAME_MISMATCH"},
		{".workflows/g/index.yaml", "2:7 NAME_MISMATCH"},
		{"flows/g.yaml", ""},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			_, problems := parse.Parse(nil, tt.file, []byte(edited(0, "")))
			if diff := cmp.Diff(tt.want, strings.Join(show(problems), ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
