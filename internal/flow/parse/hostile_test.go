package parse_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

func TestHostileFiles(t *testing.T) {
	bomb := "version: 1\nname: f\nx-a0: &a0 {k: v}\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("x-a%d: &a%d {%s}\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("k%%d: *a%d, ", i-1), 9), ", "))
		for j := range 9 {
			bomb = strings.Replace(bomb, "k%d", fmt.Sprintf("k%d", j), 1)
		}
	}
	merges := "version: 1\nname: f\nx-a0: &a0 {k: v}\n"
	for i := 1; i < 200; i++ {
		merges += fmt.Sprintf("x-a%d: &a%d {k%d: 1, <<: [*a%d, *a%d, *a%d]}\n", i, i, i, i-1, i-1, i-1)
	}
	tests := []struct {
		name, text, want string
	}{
		{"empty", "", "BAD_YAML"},
		{"only a comment", "# nothing\n", "BAD_YAML"},
		{"a list", "[a]", "WRONG_TYPE"},
		{"not UTF-8", "name: \xff", "BAD_UTF8"},
		{"UTF-16", "\xff\xfen\x00a\x00", "BAD_UTF8"},
		{"10 MB", "name: " + strings.Repeat("x", 10<<20), "TOO_LARGE"},
		{"deep list", "x-a: " + strings.Repeat("[", 100_000), "BAD_YAML"},
		{"deep schema", edited(4, "  a: {frontmatter: "+strings.Repeat("{not: ", 60)+"{}"+strings.Repeat("}", 60)+"}"),
			"BAD_YAML"},
		{"alias bomb", bomb + "roles: {a: {frontmatter: *a11}}\ngraph: {}\n", "BAD_YAML"},
		{"merge bomb", merges + "roles: {a: {<<: *a199}}\ngraph: {}\n", "UNKNOWN_KEY"},
		{"a schema that is its own part",
			edited(4, "  a: {frontmatter: &s {properties: {$status: {const: ok}, x: *s}}}"), "BAD_YAML"},
		{"a mapping that merges itself", edited(4, "  a: &s {<<: *s, goaal: x}"), "UNKNOWN_KEY"},
		{"a schema with endless ways",
			edited(4, "  a: {frontmatter: {oneOf: [{$ref: '#'}, {$ref: '#'}, {$ref: '#'}, {$ref: '#'}, {$ref: '#'}]}}"),
			""},
		{"a schema that is its own branch", edited(4, "  a: {frontmatter: &s {oneOf: [*s, *s, *s, *s]}}"), "BAD_YAML"},
		{"a fork that is its own path", forkedWith(map[int]string{5: "  s: &s {forkPaths: [*s]}"}), "UNKNOWN_KEY"},
		{"a path a thousand times",
			forkedWith(map[int]string{5: "  s: {forkPaths: [&p {pathId: api, childNodeId: r1}" +
				strings.Repeat(", *p", 100_000) + "]}"}), "INVALID_FORK_PATHS"},
		{"a join of a thousand ids",
			forkedWith(map[int]string{7: "  g: {forkPathIds: [&p api" + strings.Repeat(", *p", 100_000) + "]}"}),
			"INVALID_FORK_PATH_IDS"},
		{"a thousand forks", manyForks(1500), ""},
		{"forks inside forks", deepForks(400), ""},
		{"a thousand gates", manyGates(1500), ""},
		{"a gate of a thousand options",
			askingWith(map[int]string{5: "  yes: {question: q, options: [&o a" + strings.Repeat(", *o", 100_000) +
				"]}"}), "BAD_GATE"},
		{"a gate that is its own option", askingWith(map[int]string{5: "  yes: &y {question: q, options: [*y]}"}),
			"WRONG_TYPE"},
		{"gates that a thousand roles lead to", manyRolesToGates(1500, 300), ""},
		{"a schema that refers to itself", edited(4, "  a: {frontmatter: {$ref: '#'}}"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, problems := parse.Parse(files{}, "flow.yaml", []byte(tt.text))
			if tt.want == "" {
				return
			}
			if d != nil {
				t.Fatal("accepted")
			}
			found := false
			for _, p := range problems {
				found = found || p.Code == tt.want && p.Line > 0 && p.Col > 0
			}
			if !found {
				t.Errorf("no %s in %v", tt.want, problems)
			}
		})
	}
}

// manyForks returns a flow of n forks, one after another.
func manyForks(n int) string {
	roles, forks, joins, graph := "", "", "", ""
	for i := range n {
		roles += fmt.Sprintf("  r%d: {}\n", i)
		forks += fmt.Sprintf("  f%d: {forkPathIds: [a%d, b%d], childNodeIds: [r%d, r%d]}\n", i, i, i, i, i)
		joins += fmt.Sprintf("  j%d: {forkPathIds: [a%d, b%d]}\n", i, i, i)
		graph += fmt.Sprintf("  r%d: {ok: {role: j%d}}\n  j%d: {joined: {role: f%d}}\n", i, i, i, i+1)
	}
	graph = strings.Replace(graph, fmt.Sprintf("role: f%d}", n), "role: $END}", 1)
	return "version: 1\nname: f\nroles:\n" + roles + "forks:\n" + forks + "joins:\n" + joins +
		"graph:\n  $START: {new: {role: f0}}\n" + graph
}

// deepForks returns a flow of n forks, each inside a path of the one before.
func deepForks(n int) string {
	roles, forks, joins, graph := "", "", "", ""
	for i := range n {
		roles += fmt.Sprintf("  r%d: {}\n  q%d: {}\n", i, i)
		forks += fmt.Sprintf("  f%d: {forkPathIds: [a%d, b%d], childNodeIds: [r%d, q%d]}\n", i, i, i, i, i)
		joins += fmt.Sprintf("  j%d: {forkPathIds: [a%d, b%d]}\n", i, i, i)
		graph += fmt.Sprintf("  r%d: {ok: {role: f%d}}\n  q%d: {ok: {role: j%d}}\n  j%d: {joined: {role: j%d}}\n", i,
			i+1, i, i, i, i-1)
	}
	graph = strings.Replace(graph, fmt.Sprintf("role: f%d}", n), fmt.Sprintf("role: j%d}", n-1), 1)
	graph = strings.Replace(graph, "role: j-1}", "role: $END}", 1)
	return "version: 1\nname: f\nroles:\n" + roles + "forks:\n" + forks + "joins:\n" + joins +
		"graph:\n  $START: {new: {role: f0}}\n" + graph
}

// manyGates returns a flow of n gates, one after another, that lead back to the first.
func manyGates(n int) string { return manyRolesToGates(1, n) }

// manyRolesToGates returns a flow of n roles, each of which leads to the first of m gates in a cycle.
func manyRolesToGates(n, m int) string {
	roles, gates, graph := "", "", ""
	for i := range n {
		roles += fmt.Sprintf("  r%d: {}\n", i)
		graph += fmt.Sprintf("  r%d: {ok: {role: g0, prompt: '{{ x }}'}, on: {role: r%d, prompt: p}}\n", i, (i+1)%n)
	}
	for i := range m {
		gates += fmt.Sprintf("  g%d: {question: 'q {{ x }}'}\n", i)
		graph += fmt.Sprintf("  g%d: {approved: {role: g%d, prompt: '{{ answer }} {{ x }}'}, rejected: {role: $END}}\n",
			i, (i+1)%m)
	}
	return "version: 1\nname: f\nroles:\n" + roles + "gates:\n" + gates +
		"graph:\n  $START: {new: {role: r0, prompt: p}}\n" + graph
}

// Large flows with forks and gates are valid, and are checked fast enough that no one notices.
func TestLargeForksAreRight(t *testing.T) {
	for name, text := range map[string]string{"side by side": manyForks(300), "nested": deepForks(100),
		"gates": manyGates(300), "roles to gates": manyRolesToGates(300, 100)} {
		if d, problems := parse.Parse(nil, "flow.yaml", []byte(text)); d == nil || len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestHostileIncludes(t *testing.T) {
	src := files{"loop.yaml": "x: !include other.yaml", "other.yaml": "y: !include loop.yaml", "bad.yaml": "a: [",
		"bytes.md": "\xff", "yaml.json": "{a: 1}"}
	for i := range 20 {
		src[fmt.Sprintf("d%d.yaml", i)] = fmt.Sprintf("{a: !include d%d.yaml, b: !include d%d.yaml}", i+1, i+1)
	}
	tests := []struct{ name, include, file, code string }{
		{"loop", "loop.yaml", "other.yaml", "BAD_INCLUDE"},
		{"depth", "d0.yaml", "d7.yaml", "BAD_INCLUDE"},
		{"bad yaml inside", "bad.yaml", "bad.yaml", "BAD_YAML"},
		{"YAML in a file of JSON", "yaml.json", "yaml.json", "BAD_YAML"},
		{"bad text", "bytes.md", "flow.yaml", "BAD_INCLUDE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, problems := parse.Parse(src, "flow.yaml", []byte(edited(8, "x-a: !include "+tt.include)))
			if d != nil {
				t.Fatal("accepted")
			}
			for _, p := range problems {
				if p.File == tt.file && p.Code == tt.code {
					return
				}
			}
			t.Errorf("no %s in %s: %v", tt.code, tt.file, problems)
		})
	}
}

// A file of JSON is read as JSON, which YAML does not include whole.
func TestIncludedJSON(t *testing.T) {
	src := files{"schema.json": "{\"properties\":\n\t{\"$status\": {\"const\": \"ok\", \"title\": \"\\ud83d\\ude00 \x7f\"}}}"}
	d, problems := parse.Parse(src, "flow.yaml", []byte(edited(4, "  a: {frontmatter: !include schema.json}")))
	if len(problems) > 0 || !strings.Contains(string(d.Roles["a"].Frontmatter), "😀 \x7f") {
		t.Errorf("%v", problems)
	}
}

// A problem in an included file has that file's name and the position in it.
func TestProblemsInIncludes(t *testing.T) {
	src := files{"role.yaml": "goal: x\ngoaal: y\n", "p.md": "one\n{{ nope }}\n"}
	text := strings.NewReplacer("role: $END}", "role: a, prompt: !include p.md}, no: {role: $END}").Replace(
		edited(0, ""))
	text = strings.Replace(text, "const: ok", "enum: [ok, no]", 1) + "x-r: !include role.yaml\n"
	text = strings.Replace(text, "roles:\n", "roles:\n  b: !include role.yaml\n", 1)
	_, problems := parse.Parse(src, "flow.yaml", []byte(text))
	got := []string{}
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%s:%d:%d %s", p.File, p.Line, p.Col, p.Code))
	}
	want := []string{"flow.yaml:4:3 ROLE_NOT_IN_GRAPH", "p.md:2:4 UNKNOWN_VARIABLE", "role.yaml:2:1 UNKNOWN_KEY"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeAgent(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Load([]byte("kind: command\ncommand: [make]\nidle: 5\nidel: 4\nkind: x\n"), &doc); err != nil {
		t.Fatal(err)
	}
	n := &doc
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	a, problems := parse.DecodeAgent(n, "config.yaml")
	if a.Kind != "command" || a.Idle != flow.Duration(5*time.Second) {
		t.Errorf("agent = %+v", a)
	}
	if diff := cmp.Diff([]string{"4:1 UNKNOWN_KEY", "5:1 DUPLICATE_KEY"}, show(problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(problems) > 0 && problems[0].File != "config.yaml" {
		t.Errorf("file = %q", problems[0].File)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add(edited(0, ""))
	f.Add(forkedWith(nested(nil)))
	f.Add(askingWith(nil))
	f.Add(askingWith(map[int]string{5: "  yes: &g {question: '{{ answer }}', options: [*g, a, a], " +
		"onTimeout: *g, <<: *g}", 10: "  yes: {approved: {role: yes}, rejected: {role: how, location: x}}"}))
	f.Add(forkedWith(map[int]string{5: "  s: {forkId: x, childNodeIds: [r1, r2]}",
		7: "  g: {forkPathIds: [x-1, x-2], joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 2, timeout: 1.5}"}))
	f.Add(forkedWith(map[int]string{5: "  s: &s {forkPaths: [*s, {pathId: api, childNodeId: s}], <<: *s}",
		14: "  g: {joined: {role: s}}"}))
	f.Add(caller("f", "g", "../h.yaml"))
	f.Add(edited(7, `  a: {ok: {role: $END, prompt: "{% for i in x %}{{ i.y['z'] | join: ', ' }}{% endfor `+
		`%}{% raw %}{{"}}`))
	f.Add(edited(4, "  a: &s {<<: *s, frontmatter: {oneOf: [{$ref: '#/oneOf/0'}]}}"))
	paths, err := filepath.Glob("../testdata/v1/.workflows/*.yaml")
	if err != nil || len(paths) == 0 {
		f.Fatalf("seeds: %v, %v", paths, err)
	}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, problems := parse.Parse(files{}, "flow.yaml", []byte(text))
		for _, p := range problems {
			if p.Line < 1 || p.Col < 1 || p.Code == "" || p.Message == "" {
				t.Errorf("odd problem %+v", p)
			}
		}
		if d == nil {
			if !flow.Failed(problems) {
				t.Error("refused without a reason")
			}
			return
		}
		roundTrip(t, d)
		flow.Next(d, flow.At{Prompt: "p"}, nil)
		for role := range d.Roles {
			for _, st := range d.Statuses(role) {
				flow.Next(d, flow.At{Prompt: "p"},
					[]flow.Step{{Role: role, Meta: map[string]any{"$status": st}, Body: "b"}})
			}
			_ = d.Validate(role, map[string]any{"$status": "x"})
		}
		for name, g := range d.Gates {
			if g.Timeout > 0 && g.OnTimeout == "" {
				t.Errorf("gate %s waits for ever after its timeout", name)
			}
			for _, st := range g.Statuses() {
				if _, ok := d.Graph[name][st]; !ok {
					t.Errorf("gate %s has no route for %s", name, st)
				}
				flow.Next(d, flow.At{Prompt: "p"},
					[]flow.Step{{Role: "__input__", Body: "i"}, {Role: name, Meta: map[string]any{"$status": st},
						Body: "b"}})
			}
		}
		for _, fork := range d.Forks {
			for _, p := range fork.Paths {
				if in := d.Inside(p.ID); len(in) == 0 {
					t.Errorf("nothing is inside path %s", p.ID)
				}
				flow.Next(d, flow.At{Prompt: "p", Path: p.ID}, nil)
			}
		}
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	})
}
