package parse_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// caller returns a flow that makes the given calls, one after another.
func caller(name string, calls ...string) string {
	roles, graph, next := "", "", "$END"
	for i := len(calls) - 1; i >= 0; i-- {
		role := fmt.Sprintf("c%d", i)
		roles = fmt.Sprintf("  %s: {flow: %q}\n", role, calls[i]) + roles
		graph = fmt.Sprintf("  %s: {done: {role: %s, prompt: p}}\n", role, next) + graph
		next = role
	}
	if len(calls) == 0 {
		roles, graph, next = "  w: {}\n", "  w: {done: {role: $END}}\n", "w"
	}
	return "version: 1\nname: " + name + "\nroles:\n" + roles + "graph:\n  $START: {new: {role: " + next +
		", prompt: p}}\n" + graph
}

func findIn(src files) func(dir, name string) (string, bool) {
	return func(dir, name string) (string, bool) {
		return parse.Find(dir, name, func(p string) bool {
			if path.Base(p) == ".git" {
				return path.Dir(p) == "/r"
			}
			_, ok := src[p]
			return ok
		})
	}
}

var loadAllCases = []struct {
	name, file string
	src        files
	want       string // flows with what they call, or problems
}{
	{"alone", "/r/f.yaml", files{"/r/f.yaml": caller("f")}, "f()"},
	{"beside", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g"), "/r/g.yaml": caller("g"),
		"/r/.plait/flows/g.yaml": caller("g")}, "f(g) g()"},
	{"beside with the other ending", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g"), "/r/g.yml": caller("g")},
		"f(g) g()"},
	{"a folder beside", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g"), "/r/g/index.yaml": caller("g")},
		"f(g) g()"},
	{"in the project", "/r/x/f.yaml", files{"/r/x/f.yaml": caller("f", "g"), "/r/.workflows/g.yaml": caller("g")},
		"f(g) g()"},
	{"from a folder", "/r/.workflows/f/index.yaml", files{"/r/.workflows/f/index.yaml": caller("f", "g", "part"),
		"/r/.workflows/g.yaml": caller("g"), "/r/.workflows/f/part.yaml": caller("part")}, "f(g,part) g() part()"},
	{"misnamed in the project", "/r/f.yaml",
		files{"/r/f.yaml": caller("f", "g"), "/r/.workflows/g.yaml": caller("other")},
		"/r/.workflows/g.yaml:2:7 NAME_MISMATCH"},
	{"a path", "/r/f.yaml", files{"/r/f.yaml": caller("f", "lib/g.yaml"), "/r/lib/g.yaml": caller("other")},
		"f(other) other()"},
	{"a path without ending", "/r/f.yaml", files{"/r/f.yaml": caller("f", "./g"), "/r/g.yaml": caller("g")},
		"f(g) g()"},
	{"a path to the project's flows", "/r/x/f.yaml", files{"/r/x/f.yaml": caller("f", "../.workflows/g.yaml"),
		"/r/.workflows/g.yaml": caller("g")}, "f(g) g()"},
	{"a path outside", "/r/x/f.yaml", files{"/r/x/f.yaml": caller("f", "../g.yaml"), "/r/g.yaml": caller("g")},
		"/r/x/f.yaml:4:14 BAD_CALL"},
	{"a path to another project", "/r/x/f.yaml", files{"/r/x/f.yaml": caller("f", "../y/.workflows/g.yaml"),
		"/r/y/.workflows/g.yaml": caller("g")}, "/r/x/f.yaml:4:14 BAD_CALL"},
	{"relative names", "f.yaml", files{"f.yaml": caller("f", "g", "sub/h.yaml"), "g.yaml": caller("g"),
		"sub/h.yaml": caller("h", "../.workflows/i.yaml"), ".workflows/i.yaml": caller("i")},
		"f(g,h) g() h(i) i()"},
	{"relative and above", "f.yaml", files{"f.yaml": caller("f", "../.workflows/g.yaml"),
		"../.workflows/g.yaml": caller("g")}, "f(g) g()"},
	{"relative and outside", "f.yaml", files{"f.yaml": caller("f", "../g.yaml"), "../g.yaml": caller("g")},
		"f.yaml:4:14 BAD_CALL"},
	{"absolute", "/r/f.yaml", files{"/r/f.yaml": caller("f", "/r/g.yaml"), "/r/g.yaml": caller("g")},
		"/r/f.yaml:4:14 BAD_CALL"},
	{"transitively, each once", "/r/f.yaml",
		files{"/r/f.yaml": caller("f", "g", "h"), "/r/g.yaml": caller("g", "i"), "/r/h.yaml": caller("h", "i"),
			"/r/i.yaml": caller("i")}, "f(g,h) g(i) h(i) i()"},
	{"itself", "/r/f.yaml", files{"/r/f.yaml": caller("f", "f")}, "f(f)"},
	{"itself by its name", "/r/x.yaml", files{"/r/x.yaml": caller("f", "f")}, "f(f)"},
	{"in a circle", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g"), "/r/g.yaml": caller("g", "f")}, "f(g) g(f)"},
	{"kept", "/r/f.yaml", files{"/r/f.yaml": caller("f", "kept", "alias", "shared")},
		"f(kept,kept,shared) shared() kept()"},
	{"a file before what is kept", "/r/f.yaml",
		files{"/r/f.yaml": caller("f", "kept"), "/r/kept.yaml": caller("kept", "solo")},
		"f(kept) kept(solo) solo()"},
	{"built in", "/r/f.yaml", files{"/r/f.yaml": caller("f", "solo", "solo")}, "f(solo,solo) solo()"},
	{"not found", "/r/f.yaml", files{"/r/f.yaml": caller("f", "nope", "no/pe", "solo")},
		"/r/f.yaml:4:14 CALL_NOT_FOUND, /r/f.yaml:5:14 CALL_NOT_FOUND"},
	{"kept, not readable", "/r/f.yaml", files{"/r/f.yaml": caller("f", "broken")}, "/r/f.yaml:4:14 CALL_NOT_FOUND"},
	{"two of one name", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g", "h"), "/r/g.yaml": caller("x"),
		"/r/h.yaml": caller("x")}, "/r/f.yaml:5:14 CALL_NAME_TAKEN"},
	{"the caller's own name", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g"), "/r/g.yaml": caller("f")},
		"/r/f.yaml:4:14 CALL_NAME_TAKEN"},
	{"a kept one's callee has the name", "/r/f.yaml",
		files{"/r/f.yaml": caller("f", "g", "kept"), "/r/g.yaml": caller("shared", "solo")},
		"/r/f.yaml:5:14 CALL_NAME_TAKEN"},
	{"problems of both", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g") + "x: 1\n",
		"/r/g.yaml": caller("g", "nope") + "y: 1\n"},
		"/r/f.yaml:8:1 UNKNOWN_KEY, /r/g.yaml:4:14 CALL_NOT_FOUND, /r/g.yaml:8:1 UNKNOWN_KEY"},
	{"callee is no YAML", "/r/f.yaml", files{"/r/f.yaml": caller("f", "g"), "/r/g.yaml": "a: ["},
		"/r/g.yaml:2:1 BAD_YAML"},
	{"unreadable", "/r/none.yaml", files{}, "/r/none.yaml:1:1 UNREADABLE"},
}

func TestLoadAll(t *testing.T) {
	keep := func(name string) ([]*flow.Definition, error) {
		d, _ := parse.Parse(nil, "kept.yaml", []byte(caller("kept")))
		other, _ := parse.Parse(nil, "other.yaml", []byte(caller("shared")))
		switch name {
		case "kept", "alias":
			return []*flow.Definition{d, other}, nil
		case "shared":
			return []*flow.Definition{other}, nil
		case "broken":
			return nil, errors.New("the registry is gone")
		}
		return nil, nil
	}
	for _, tt := range loadAllCases {
		t.Run(tt.name, func(t *testing.T) {
			flows, problems := parse.LoadAll(tt.src, tt.file, findIn(tt.src), keep)
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%s:%d:%d %s", p.File, p.Line, p.Col, p.Code))
			}
			text := strings.Join(got, ", ")
			if text == "" {
				text = summary(flows)
			}
			if text != tt.want {
				t.Errorf("\n got %s\nwant %s\n%v", text, tt.want, problems)
			}
			if (flows == nil) != flow.Failed(problems) {
				t.Errorf("%d flows with problems %v", len(flows), problems)
			}
		})
	}
}

// summary lists flows with what they call: "f(g) g()".
func summary(flows []*flow.Definition) string {
	var out []string
	for _, d := range flows {
		var calls []string
		for _, role := range sortedNames(d.Roles) {
			if f := d.Roles[role].Flow; f != "" {
				calls = append(calls, f)
			}
		}
		out = append(out, d.Name+"("+strings.Join(calls, ",")+")")
	}
	return strings.Join(out, " ")
}

// Without find and kept, only the built-in flows are found.
func TestLoadAllWithoutLookup(t *testing.T) {
	src := files{"f.yaml": caller("f", "solo"), "solo.yaml": caller("solo", "f")}
	flows, problems := parse.LoadAll(src, "f.yaml", nil, nil)
	if got := summary(flows); got != "f(solo) solo()" || len(problems) > 0 {
		t.Errorf("flows %s, problems %v", got, problems)
	}
	for _, name := range parse.BuiltIns() {
		flows, ok := parse.LoadBuiltIn(name)
		if !ok || flows[0].Name != name {
			t.Errorf("built-in flow %s: %v %v", name, flows, ok)
		}
	}
	if _, ok := parse.LoadBuiltIn("none"); ok {
		t.Error("found a built-in flow none")
	}
}

func TestManyCalledFlowsAreRefused(t *testing.T) {
	src := files{}
	for i := range 300 {
		src[fmt.Sprintf("/r/f%d.yaml", i)] = caller(fmt.Sprintf("f%d", i), fmt.Sprintf("f%d", i+1))
	}
	flows, problems := parse.LoadAll(src, "/r/f0.yaml", findIn(src), nil)
	if flows != nil || len(problems) != 1 || problems[0].Code != "TOO_LARGE" {
		t.Errorf("%d flows, problems %v", len(flows), problems)
	}
}

func TestCallChecks(t *testing.T) {
	const schema = ", frontmatter: {properties: {$status: {const: ok}, x: {type: string}}}}"
	const end = "{role: $END}"
	tests := []struct {
		name, role, node string // lines 4 and 7
		want             string
	}{
		{"right", "{flow: other, description: d, goal: g, procedure: p, output: o, access: write}", "{done: " + end +
			", failed: " + end + ", cancelled: " + end + "}", ""},
		{"done is needed", "{flow: other}", "{failed: " + end + "}", "7:3 MISSING_ROUTE"},
		{"no other status", "{flow: other}", "{done: " + end + ", ok: " + end + "}", "7:27 EXTRA_ROUTE"},
		{"its schema's statuses", "{flow: other" + schema, "{ok: " + end + "}", ""},
		{"its schema's and those of calls", "{flow: other" + schema, "{ok: " + end + ", failed: " + end + ", done: " +
			end + "}", ""},
		{"its schema's are needed", "{flow: other" + schema, "{done: " + end + "}", "7:3 MISSING_ROUTE"},
		{"neither", "{flow: other" + schema, "{ok: " + end + ", no: " + end + "}", "7:25 EXTRA_ROUTE"},
		{"with an agent", "{flow: other, agent: codex}", "{done: " + end + "}", "4:20 BAD_CALL"},
		{"no name", "{flow: ''}", "{done: " + end + "}", "4:13 BAD_CALL"},
		{"not a name", "{flow: a b}", "{done: " + end + "}", "4:13 BAD_CALL"},
		{"backslash", "{flow: 'a\\b'}", "{done: " + end + "}", "4:13 BAD_CALL"},
		{"not text", "{flow: [x]}", "{done: " + end + "}", "4:13 WRONG_TYPE"},
		{"null is no call", "{flow: null, agent: codex}", "{any: " + end + "}", ""},
		{"variables", "{flow: other}", "{done: {role: $END, prompt: \"{{ summary }} {{ returnCode }} {{ _body " +
			"}} {{ x }}\"}}", "7:81 UNKNOWN_VARIABLE"},
		{"variables of its schema", "{flow: other" + schema, "{ok: {role: $END, prompt: \"{{ x }} {{ summary }}\"}}",
			"7:44 UNKNOWN_VARIABLE"},
		{"variables of both", "{flow: other" + schema, "{ok: " + end + ", failed: {role: $END, prompt: \"{{ summary " +
			"}} {{ y }}\"}}", "7:72 UNKNOWN_VARIABLE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := append([]string{}, base...)
			lines[3], lines[6] = "  a: "+tt.role, "  a: "+tt.node
			d, problems := parse.Parse(nil, "flow.yaml", []byte(strings.Join(lines, "\n")))
			if got := strings.Join(show(problems), ", "); got != tt.want {
				t.Errorf("\n got %s\nwant %s\n%v", got, tt.want, problems)
			}
			if d != nil {
				roundTrip(t, d)
			}
		})
	}
	d := parsed(t, strings.Replace(edited(4, "  a: {flow: other}"), "ok:", "done:", 1))
	if got := d.Statuses("a"); !cmp.Equal(got, []string{"cancelled", "done", "failed"}) {
		t.Errorf("statuses = %v", got)
	}
}

const planRole = "  boss: {plan: true}\n"

func orchestrator(name string, more ...string) string {
	text := "version: 1\nname: " + name + "\nroles:\n" + planRole
	for i, f := range more {
		text += fmt.Sprintf("  r%d: {flow: %s}\n", i, f)
	}
	text += "graph:\n  $START: {new: {role: boss, prompt: x}}\n"
	to := "boss: {finished: {role: %s, prompt: x}}\n"
	for i := range more {
		text += "  " + fmt.Sprintf(to, fmt.Sprintf("r%d", i))
		to = fmt.Sprintf("r%d: {done: {role: %%s, prompt: x}}\n", i)
	}
	return text + "  " + fmt.Sprintf(to, "$END")
}

// The worker flow is part of every bundle in which a role plans, and no other flow there has its
// name.
func TestLoadAllTakesWorkersIn(t *testing.T) {
	keep := func(name string) ([]*flow.Definition, error) {
		if name != "kept" {
			return nil, nil
		}
		flows, problems := parse.LoadAll(files{"kept.yaml": orchestrator("kept")}, "kept.yaml", nil, nil)
		if flow.Failed(problems) {
			return nil, fmt.Errorf("%v", problems)
		}
		return flows, nil
	}
	own := "version: 1\nname: worker\nroles: {a: {}}\ngraph: {$START: {new: {role: a, prompt: x}}, a: {done: " +
		"{role: $END}}}\n"
	for _, tt := range []struct {
		name string
		src  files
		want string
	}{
		{"a flow that plans", files{"f.yaml": orchestrator("f")}, "f() worker()"},
		{"a called flow that plans", files{"f.yaml": caller("f", "g"), "g.yaml": orchestrator("g")},
			"f(g) g() worker()"},
		{"a kept flow that plans", files{"f.yaml": caller("f", "kept")}, "f(kept) worker() kept()"},
		{"both", files{"f.yaml": orchestrator("f", "kept", "g"), "g.yaml": orchestrator("g")},
			"f(kept,g) worker() kept() g()"},
		{"a flow that plans nothing", files{"f.yaml": caller("f", "solo")}, "f(solo) solo()"},
		{"workers are called too", files{"f.yaml": orchestrator("f", "worker")}, "f(worker) worker()"},
		{"another flow of the name", files{"f.yaml": orchestrator("f", "worker"), "worker.yaml": own},
			"CALL_NAME_TAKEN"},
		{"the flow itself has the name", files{"f.yaml": orchestrator("worker")}, "CALL_NAME_TAKEN"},
		{"another flow of the name where nothing is planned",
			files{"f.yaml": caller("f", "worker"), "worker.yaml": own}, "f(worker) worker()"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flows, problems := parse.LoadAll(tt.src, "f.yaml", findIn(tt.src), keep)
			got := summary(flows)
			if flow.Failed(problems) {
				got = problems[0].Code
			}
			if got != tt.want {
				t.Errorf("%s, want %s: %v", got, tt.want, problems)
			}
			for _, d := range flows {
				if d.Name == flow.WorkerFlow && strings.Contains(tt.name, "plans") &&
					d.Gates["question"].Kind != flow.GateInput {
					t.Error("the flow of workers is not the built-in one")
				}
			}
		})
	}
}
