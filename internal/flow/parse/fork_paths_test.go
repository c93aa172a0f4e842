package parse_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow/parse"
)

// nested has a fork inside a path of another: s(a: r1 → t(c: q1, d: q2) → h → r3, b: r2) → g.
func nested(edits map[int]string) map[int]string {
	all := map[int]string{
		3:  "roles: {a: {}, r1: {}, r2: {}, r3: {}, m: {}, q1: {}, q2: {}}",
		5:  "  s: {forkPathIds: [a, b], childNodeIds: [r1, r2]}\n  t: {forkPathIds: [c, d], childNodeIds: [q1, q2]}",
		7:  "  g: {forkPathIds: [a, b]}\n  h: {forkPathIds: [c, d]}",
		11: "  r1: {ok: {role: t}}",
		15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}}\n  q2: {ok: {role: h}}\n" +
			"  h: {joined: {role: r3, prompt: p}}",
	}
	for n, text := range edits {
		all[n] = text
	}
	return all
}

// Lines of nested are two lower below forks and joins: r1 is line 13, r3 15, g 16, m 17, q1 18, q2 19, h 20.
func TestPathsStayInside(t *testing.T) {
	checkForked(t, []struct {
		name  string
		edits map[int]string
		want  string
	}{
		{"to the end", map[int]string{13: "  r3: {ok: {role: g}, no: {role: $END}}"}, "13:34 PATH_ESCAPES"},
		{"only to the end", map[int]string{12: "  r2: {ok: {role: $END}}"},
			"5:77 FORK_JOIN_NOT_REACHABLE, 12:19 PATH_ESCAPES"},
		{"to the main line", map[int]string{13: "  r3: {ok: {role: g}, no: {role: m, prompt: p}}"},
			"13:34 PATH_ESCAPES"},
		{"back before the fork", map[int]string{13: "  r3: {ok: {role: g}, no: {role: a, prompt: p}}"},
			"13:34 PATH_ESCAPES"},
		{"back to the fork", map[int]string{13: "  r3: {ok: {role: g}, no: {role: s}}"}, "13:34 PATH_ESCAPES"},
		{"entered from outside", map[int]string{10: "  a: {ok: {role: s}, no: {role: r3, prompt: p}}"},
			"10:33 PATH_ESCAPES"},
		{"entered at its child", map[int]string{10: "  a: {ok: {role: s}, no: {role: r2, prompt: p}}"},
			"10:33 PATH_ESCAPES"},
		{"entered after the join", map[int]string{15: "  m: {ok: {role: $END}, again: {role: r1, prompt: p}}"},
			"15:39 PATH_ESCAPES"},
		{"entered from the start",
			map[int]string{9: "  $START: {new: {role: a, prompt: go}, resume: {role: r3, prompt: p}}"},
			"9:55 PATH_ESCAPES"},
		{"join from outside", map[int]string{10: "  a: {ok: {role: s}, no: {role: g}}"}, "10:33 PATH_ESCAPES"},
		{"join to itself", map[int]string{14: "  g: {joined: {role: m, prompt: p}, failed: {role: g}}"},
			"14:52 PATH_ESCAPES"},
		{"child on the main line", map[int]string{5: "  s: {forkPathIds: [api, db], childNodeIds: [r1, m]}",
			12: "  r2: {ok: {role: m, prompt: p}}", 10: "  a: {ok: {role: s}, no: {role: r2, prompt: p}}"},
			"5:50 FORK_JOIN_NOT_REACHABLE, 5:50 PATH_ESCAPES"},
		{"no way to the join", map[int]string{12: "  r2: {ok: {role: r2, prompt: p}}"},
			"5:77 FORK_JOIN_NOT_REACHABLE, 12:3 CANNOT_END"},
		{"loop inside a path", map[int]string{13: "  r3: {ok: {role: g}, no: {role: r1, prompt: p}}"}, ""},
		{"paths share a role", map[int]string{12: "  r2: {ok: {role: r3, prompt: p}}"}, ""},
		{"paths share their child", map[int]string{5: "  s: {forkPathIds: [api, db], childNodeIds: [r1, r1]}", 12: "",
			3: "roles: {a: {}, r1: {}, r3: {}, m: {}}"}, ""},
		{"fork in a cycle", map[int]string{14: "  g: {joined: {role: m, prompt: p}, failed: {role: a, prompt: p}, " +
			"timeout: {role: s}}"}, ""},
		{"fork at the start", map[int]string{9: "  $START: {new: {role: s, prompt: go}}",
			14: "  g: {joined: {role: a, prompt: p}}", 10: "  a: {ok: {role: m, prompt: p}}"}, ""},
		{"one path", map[int]string{5: "  s: {forkPathIds: [api], childNodeIds: [r1]}", 7: "  g: {forkPathIds: [api]}",
			12: "", 3: "roles: {a: {}, r1: {}, r3: {}, m: {}}"}, ""},

		{"nested", nested(nil), ""},
		{"nested in both paths", nested(map[int]string{12: "  r2: {ok: {role: t}}"}), ""},
		{"nested, in a cycle inside the path",
			nested(map[int]string{15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}}\n  q2: {ok: {role: h}}\n" +
				"  h: {joined: {role: r3, prompt: p}, failed: {role: r1, prompt: p}}"}), ""},
		{"nested, to the outer join",
			nested(map[int]string{15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}, no: {role: g}}\n" +
				"  q2: {ok: {role: h}}\n  h: {joined: {role: r3, prompt: p}}"}), "18:34 PATH_ESCAPES"},
		{"nested, to the outer path",
			nested(map[int]string{15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}, no: {role: r3, prompt: p}}\n" +
				"  q2: {ok: {role: h}}\n  h: {joined: {role: r3, prompt: p}}"}), "18:34 PATH_ESCAPES"},
		{"nested, to the outer fork",
			nested(map[int]string{15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}, no: {role: s}}\n" +
				"  q2: {ok: {role: h}}\n  h: {joined: {role: r3, prompt: p}}"}), "18:34 PATH_ESCAPES"},
		{"nested, to the end",
			nested(map[int]string{15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}, no: {role: $END}}\n" +
				"  q2: {ok: {role: h}}\n  h: {joined: {role: r3, prompt: p}}"}), "18:34 PATH_ESCAPES"},
		{"nested, entered from the outer path",
			nested(map[int]string{12: "  r2: {ok: {role: g}, no: {role: q2, prompt: p}}"}),
			"14:34 PATH_ESCAPES, 19:19 PATH_ESCAPES"},
		{"nested join from the outer path", nested(map[int]string{13: "  r3: {ok: {role: g}, no: {role: h}}"}),
			"15:34 PATH_ESCAPES"},
		{"another fork's join", nested(map[int]string{12: "  r2: {ok: {role: g}, no: {role: h}}"}),
			"14:34 PATH_ESCAPES"},
		{"nested join leads out",
			nested(map[int]string{15: "  m: {ok: {role: $END}}\n  q1: {ok: {role: h}}\n  q2: {ok: {role: h}}\n" +
				"  h: {joined: {role: r3, prompt: p}, failed: {role: $END, code: 1}}"}), "20:53 PATH_ESCAPES"},
	})
}

func TestInside(t *testing.T) {
	d := parsed(t, forkedWith(nested(nil)))
	for path, want := range map[string][]string{
		"a": {"q1", "q2", "r1", "r3"}, "b": {"r2"}, "c": {"q1"}, "d": {"q2"}, "no": nil,
	} {
		if diff := cmp.Diff(want, d.Inside(path)); diff != "" {
			t.Errorf("path %s (-want +got):\n%s", path, diff)
		}
	}
}

func TestJoinVariablesAreChecked(t *testing.T) {
	route := func(prompt string) map[int]string {
		return map[int]string{14: "  g: {joined: {role: m, prompt: \"" + prompt + "\"}}"}
	}
	path := func(prompt string) map[int]string {
		return map[int]string{
			3: "roles: {a: {frontmatter: {properties: {$status: {const: ok}, x: {type: string}}}}, r1: {}, r2: {}, " +
				"r3: {}, m: {}}",
			5: "  s: {forkPaths: [{pathId: api, childNodeId: r1, prompt: \"" + prompt +
				"\"}, {pathId: db, childNodeId: r2}]}",
			14: "  g: {joined: {role: m, prompt: p}}",
		}
	}
	checkForked(t, []struct {
		name  string
		edits map[int]string
		want  string
	}{
		{"all of a join", route("{{ paths.api.meta.n }} {{ paths.db.text }} {{ paths['db'].status }} {{ decidedBy | " +
			"default: 'all' }} {{ status }} {{ _body }} {{ prompt }}"), ""},
		{"in a loop", route("{% for p in paths %}{{ p[0] }}: {{ p[1].status }}{% endfor %}{{ paths.size }}"), ""},
		{"unknown path", route("{{ paths.web.text }}"), "14:37 UNKNOWN_VARIABLE"},
		{"unknown part", route("{{ paths.api.body }}"), "14:37 UNKNOWN_VARIABLE"},
		{"unknown name", route("{{ answer }}"), "14:37 UNKNOWN_VARIABLE"},
		{"not after the next role", map[int]string{15: "  m: {ok: {role: n, prompt: \"{{ paths.api.text }}\"}}\n" +
			"  n: {ok: {role: $END}}", 3: "roles: {a: {}, r1: {}, r2: {}, r3: {}, n: {}, m: {frontmatter: " +
			"{properties: {$status: {const: ok}}}}}"}, "15:33 UNKNOWN_VARIABLE"},
		{"path prompt", path("{{ x }} {{ prompt }}"), ""},
		{"path prompt without the field", path("{{ y }}"), "5:62 UNKNOWN_VARIABLE"},
		{"path prompt in bad Liquid", path("{% if %}"), "5:58 BAD_TEMPLATE"},
	})
	_, problems := parse.Parse(nil, "flow.yaml", []byte(forkedWith(map[int]string{
		5: "  s: {forkPaths: [{pathId: api, childNodeId: r1, prompt: '{{ x }}'}, {pathId: db, childNodeId: r2}]}",
		9: "  $START: {new: {role: s}}", 10: "  a: {ok: {role: m, prompt: p}}",
		14: "  g: {joined: {role: a, prompt: p}}",
	})))
	if diff := cmp.Diff([]string{"5:62 UNKNOWN_VARIABLE warning"}, show(problems)); diff != "" {
		t.Errorf("from $START (-want +got):\n%s", diff)
	}
}
