package flow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/flow"
)

const formatPage = "../../docs/flow-format.md"

// TestFlowsOfThePage parses every whole flow that the page shows. Those of the other pages are run, see
// TestDocs of cli.
func TestFlowsOfThePage(t *testing.T) {
	text, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	flows := regexp.MustCompile("(?s)```yaml flow\n(.*?)```").FindAllSubmatch(text, -1)
	if len(flows) < 6 {
		t.Errorf("%d whole flows, want 6 or more", len(flows))
	}
	for i, m := range flows {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			d, problems := flow.Parse(nil, "flow.yaml", m[1])
			if d == nil || len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			schemaAgrees(t, string(m[1]), problems)
		})
	}
}

// TestOutputsInTheDocs validates the outputs of plans and workers on the page against their schemas.
func TestOutputsInTheDocs(t *testing.T) {
	text, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	boss, worker := parse(t, planningFlow), workers(t)
	shown := map[string]int{}
	for _, m := range regexp.MustCompile("(?s)```json (plan|worker)\n(.*?)```").FindAllSubmatch(text, -1) {
		meta := fields(t, string(m[2]))
		shown[string(m[1])]++
		switch string(m[1]) {
		case "plan":
			meta["$status"] = flow.PlanStatus(meta)
			if _, err := boss.ReadPlan(meta, 8); err != nil {
				t.Error(err)
			}
			err = boss.Validate("boss", meta)
		case "worker":
			meta["$status"] = meta["status"]
			err = worker.Validate("worker", meta)
		}
		if err != nil {
			t.Errorf("%s: %v", m[2], err)
		}
	}
	if shown["plan"] == 0 || shown["worker"] == 0 {
		t.Errorf("shown: %v", shown)
	}
}

// TestExamples parses the flows that the repository ships.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := flow.Parse(nil, filepath.Base(file), data)
		older := strings.HasSuffix(file, "-old.yaml") // its format causes warnings
		if d == nil || older != (len(problems) > 0) {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

// The page lists each code exactly once, and no others.
func TestCodesOfThePage(t *testing.T) {
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range regexp.MustCompile(`code\w+\s+= "([A-Z0-9_]+)"`).FindAllSubmatch(source, -1) {
		want = append(want, string(m[1]))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]{5,})` \\|").FindAllSubmatch(page, -1) {
		got = append(got, string(m[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 30 || !slices.Equal(got, want) {
		t.Errorf("codes on the page %v\nin the program   %v", got, want)
	}
}

func TestUnits(t *testing.T) {
	durations := map[string]time.Duration{"2h": 2 * time.Hour, "600ms": 600 * time.Millisecond, "90": 90 * time.Second,
		"0.5": 500 * time.Millisecond, "0": 0}
	for s, want := range durations {
		if got, err := flow.ParseDuration(s); err != nil || time.Duration(got) != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	sizes := map[string]flow.Size{"8MiB": 8 << 20, "512KiB": 512 << 10, "1 GiB": 1 << 30, "1.5KiB": 1536, "7": 7,
		"7B": 7}
	for s, want := range sizes {
		if got, err := flow.ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-1", "x", "1e400", "NaN", "Inf", "99999999999999"} {
		if got, err := flow.ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", s, got)
		}
	}
	for _, s := range []string{"", "-1", "8MB", "8XB", "99999999999999GiB"} {
		if got, err := flow.ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", s, got)
		}
	}
}

func ExampleParse() {
	_, problems := flow.Parse(nil, "ask.yaml", []byte(strings.TrimSpace(`
version: 1
name: ask
roles:
  answerer: {gaol: Answer., frontmatter: {properties: {$status: {const: done}}}}
graph:
  $START: {new: {role: answerer, prompt: "{{ prompt }}"}}
  answerer: {done: {role: $END, prompt: "{{ answer }}"}}
`)))
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// ask.yaml:4:14: UNKNOWN_KEY: role answerer has no key "gaol"; did you mean goal?
	// ask.yaml:7:45: UNKNOWN_VARIABLE: role answerer does not produce answer with status "done"
}

func ExampleNext() {
	d, _ := flow.Parse(nil, "ask.yaml", []byte(`
version: 1
name: ask
roles:
  asker: {frontmatter: {properties: {$status: {const: asked}, about: {type: string}}}}
  answerer: {}
graph:
  $START: {new: {role: asker, prompt: "{{ prompt }}"}}
  asker: {asked: {role: answerer, prompt: "What is {{ about }}?"}}
  answerer: {done: {role: $END}}
`))
	at := flow.At{Flow: "ask", Prompt: "Ask something."}
	fmt.Printf("%+v\n", flow.Next(d, at, nil))
	fmt.Printf("%+v\n", flow.Next(d, at,
		[]flow.Step{{Role: "asker", Meta: map[string]any{"$status": "asked", "about": "a hash"}}}))
	fmt.Printf("%+v\n", flow.Next(d, at,
		[]flow.Step{{Role: "answerer", Meta: map[string]any{"$status": "done"}, Body: "A name."}}))
	// Output:
	// {Role:asker Prompt:Ask something. Location:}
	// {Role:answerer Prompt:What is a hash? Location:}
	// {Code:0 Summary:A name. Default:true}
}
