package parse_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/flow/parse"
)

const formatPage = "../../../docs/flow-format.md"

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
			d, problems := parse.Parse(nil, "flow.yaml", m[1])
			if d == nil || len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			schemaAgrees(t, string(m[1]), problems)
		})
	}
}

// TestExamples parses the flows that the repository ships.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := parse.Parse(nil, filepath.Base(file), data)
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
	foreign, err := os.ReadFile("../foreign/foreign.go")
	if err != nil {
		t.Fatal(err)
	}
	source = append(source, foreign...)
	var want, got []string
	for _, m := range regexp.MustCompile(`[Cc]ode\w+\s+= "([A-Z0-9_]+)"`).FindAllSubmatch(source, -1) {
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

func ExampleParse() {
	_, problems := parse.Parse(nil, "ask.yaml", []byte(strings.TrimSpace(`
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
