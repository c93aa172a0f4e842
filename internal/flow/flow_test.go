package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

var sameDefinition = cmpopts.IgnoreUnexported(flow.Definition{})

// parsed returns the definition of a flow, which must be valid.
func parsed(t *testing.T, text string) *flow.Definition {
	t.Helper()
	d, problems := parse.Parse(nil, "flow.yaml", []byte(text))
	if d == nil {
		t.Fatalf("flow refused: %v", problems)
	}
	return d
}

// roundTrip checks that a definition unmarshals equal from its JSON, and marshals to the same again.
func roundTrip(t *testing.T, d *flow.Definition) {
	t.Helper()
	first, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back flow.Definition
	if err := json.Unmarshal(first, &back); err != nil {
		t.Fatalf("read back %s: %v", first, err)
	}
	if diff := cmp.Diff(d, &back, sameDefinition); diff != "" {
		t.Errorf("definition changed (-first +back):\n%s", diff)
	}
	second, err := json.Marshal(&back)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Errorf("JSON changed:\n%s\n%s", first, second)
	}
}

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

// TestOutputsInTheDocs validates the outputs of plans and workers on the page against their schemas.
func TestOutputsInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/flow-format.md")
	if err != nil {
		t.Fatal(err)
	}
	boss, worker := parsed(t, planningFlow), workers(t)
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

func ExampleNext() {
	d, _ := parse.Parse(nil, "ask.yaml", []byte(`
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
