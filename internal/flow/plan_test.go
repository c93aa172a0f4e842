package flow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

// planningFlow has a role that plans, and nodes whose names are taken.
const planningFlow = `version: 1
name: planning
roles:
  boss: {plan: true, access: read}
  writer: {goal: You write.}
gates:
  sure: {question: "Sure of {{ summary }}?"}
graph:
  $START: {new: {role: boss, prompt: "{{ prompt }}"}, resume: {role: boss, prompt: "more: {{ prompt }}"}}
  boss: {finished: {role: sure, prompt: "{{ report }}"}}
  sure: {approved: {role: writer, prompt: "{{ summary }} {{ paths }}"}, rejected: {role: $END, code: 1}}
  writer: {done: {role: $END}}
`

// fields reads meta.
func fields(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// planned returns the meta of a plan; more follows its actions.
func planned(actions, more string) string {
	return fmt.Sprintf(`{"$status": "planned", "sessionGoal": "the goal", "actions": [%s]%s}`, actions, more)
}

func readPlan(t *testing.T, d *flow.Definition, meta string) *flow.Plan {
	t.Helper()
	p, err := d.ReadPlan(fields(t, meta), 0)
	if err != nil {
		t.Fatalf("%s: %v", meta, err)
	}
	return p
}

// Recorded plans were already checked: their schemas are not checked again, which would be slow.
func TestRecordedPlan(t *testing.T) {
	d := parsed(t, planningFlow)
	good := planned(`{"id": "a", "prompt": "do a", "outputSchema": {"type": "object"}}`, "")
	p, err := d.RecordedPlan(fields(t, good))
	if diff := cmp.Diff(readPlan(t, d, good), p); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	bad := fields(t, planned(`{"id": "a", "prompt": "do a", "outputSchema": {"type": 7}}`, ""))
	if _, err := d.ReadPlan(bad, 0); err == nil {
		t.Error("a plan with a bad schema is read")
	}
	if _, err := d.RecordedPlan(bad); err != nil {
		t.Errorf("the schema of a recorded plan is looked at: %v", err)
	}
	if _, err := d.RecordedPlan(fields(t, planned(`{"id": "a", "prompt": " "}`, ""))); err == nil {
		t.Error("a recorded plan may be anything")
	}
}

func TestReadPlan(t *testing.T) {
	d := parsed(t, planningFlow)
	a := flow.Action{ID: "a", Mode: flow.Spawn, Prompt: "do a", Access: flow.Read}
	whole := flow.Action{
		ID: "b-2", Mode: flow.Forked, Title: "The second", Agent: "codex", Prompt: "do b", Access: flow.Write,
		DependsOn: []string{"a"}, Inputs: []string{"evidence:ev-1"}, OutputSchema: json.RawMessage(`{"type":"object"}`),
		Timeout: 1.5,
	}
	join := flow.PlanJoin{Strategy: flow.AllCompleted, Losers: flow.WaitForLosers}
	tests := []struct {
		name, meta string
		want       flow.Plan
	}{
		{"defaults", planned(`{"id": "a", "prompt": "do a"}`, ""), flow.Plan{
			SessionGoal: "the goal", Actions: []flow.Action{a}, Join: join, Then: "plan", OnFailed: "block",
		}},
		{"everything", planned(
			`{"id": "a", "prompt": "do a", "outputSchema": null}, {"id": "b-2", "mode": "fork", "title": "The second", "agent": "codex", "prompt": "do b",
			"access": "write", "dependsOn": ["a"], "inputs": ["evidence:ev-1"], "outputSchema": {"type": "object"}, "timeout": 1.5}`,
			`, "join": {"joinStrategy": "SUCCESS_COUNT_THRESHOLD", "threshold": 2, "mainPathId": "b-2", "timeout": `+
				`60, "losers": "wait"}, "then": "end", "onFailed": "plan"`), flow.Plan{
			SessionGoal: "the goal", Actions: []flow.Action{a, whole}, Then: "end", OnFailed: "plan",
			Join: flow.PlanJoin{Strategy: flow.SuccessCountThreshold, Threshold: 2, Main: "b-2", Timeout: 60,
				Losers: flow.WaitForLosers},
		}},
		{"the first fork is the main path",
			planned(`{"id": "a", "prompt": "do a"}, {"id": "b", "mode": "fork", "prompt": "x"}, {"id": "c", "mode": `+
				`"fork", "prompt": "x"}`,
				`, "join": {"joinStrategy": "ANY_COMPLETED"}`), flow.Plan{
				SessionGoal: "the goal", Then: "plan", OnFailed: "block",
				Actions: []flow.Action{a, {ID: "b", Mode: flow.Forked, Prompt: "x", Access: flow.Read},
					{ID: "c", Mode: flow.Forked, Prompt: "x", Access: flow.Read}},
				Join: flow.PlanJoin{Strategy: flow.AnyCompleted, Main: "b", Losers: flow.CancelLosers},
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, *readPlan(t, d, tt.meta)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	for strategy, losers := range map[string]string{
		flow.AllCompleted: flow.WaitForLosers, flow.AllFailed: flow.WaitForLosers, flow.AnyCompleted: flow.CancelLosers,
		flow.AnyFailed: flow.CancelLosers, flow.SuccessCountThreshold: flow.CancelLosers,
	} {
		more := fmt.Sprintf(`, "join": {"joinStrategy": %q}`, strategy)
		if strategy == flow.SuccessCountThreshold {
			more = fmt.Sprintf(`, "join": {"joinStrategy": %q, "threshold": 1}`, strategy)
		}
		if p := readPlan(t, d, planned(`{"id": "a", "prompt": "x"}`, more)); p.Join.Losers != losers {
			t.Errorf("%s: losers %s, want %s", strategy, p.Join.Losers, losers)
		}
	}
}

func TestReadPlanRefuses(t *testing.T) {
	d := parsed(t, planningFlow)
	of := func(more string) string { return fmt.Sprintf(`{"id": "a", "prompt": "x"%s}`, more) }
	fork := `{"id": "f", "mode": "fork", "prompt": "x"}`
	tests := []struct {
		name, meta, want string
		most             int
	}{
		{"no JSON of a plan", `{"actions": 3}`, "the plan cannot be read: json: ", 0},
		{"no action", planned("", ""), "/actions: there is none", 0},
		{"too many", planned(of("")+","+fork, ""), "/actions: 2 actions, at most 1 are allowed in a plan", 1},
		{"an id twice", planned(of("")+","+fork+","+of(""), ""),
			`/actions/2/id: "a" is the id of /actions/0 already`, 0},
		{"no id", planned(`{"id": "", "prompt": "x"}`, ""),
			`/actions/0/id: "" is no id: a-z, 0-9 and '-', at most 40`, 0},
		{"an id with a capital", planned(`{"id": "A", "prompt": "x"}`, ""),
			`/actions/0/id: "A" is no id: a-z, 0-9 and '-', at most 40`, 0},
		{"an id that is too long", planned(`{"id": "`+strings.Repeat("a", 41)+`", "prompt": "x"}`, ""),
			`" is no id: a-z, 0-9 and '-', at most 40`, 0},
		{"an empty prompt", planned(`{"id": "a", "prompt": " \n"}`, ""), "/actions/0/prompt: it is empty", 0},
		{"full access", planned(of(`, "access": "full"`), ""),
			`/actions/0/access: "full" is neither read nor write`, 0},
		{"a schema that is none", planned(of(`, "outputSchema": {"type": "nothing"}`), ""),
			"/actions/0/outputSchema: not valid at /type: \"nothing\"; it must be", 0},
		{"a schema that refers elsewhere", planned(of(`, "outputSchema": {"$ref": "https://example.com/x"}`), ""),
			"/actions/0/outputSchema: ", 0},
		{"a schema that fits no worker's", planned(of(`, "outputSchema": {"$id": "flow:///frontmatter.json"}`), ""),
			"/actions/0/outputSchema: as a part of the worker's: ", 0},
		{"depends on itself", planned(of(`, "dependsOn": ["a"]`), ""),
			"/actions/0/dependsOn/0: a depends on itself", 0},
		{"depends on nothing", planned(of(`, "dependsOn": ["z"]`), ""),
			`/actions/0/dependsOn/0: there is no action "z"`, 0},
		{"a circle", planned(of(`, "dependsOn": ["b"]`)+`, {"id": "b", "prompt": "x", "dependsOn": ["c"]}, {"id": `+
			`"c", "prompt": "x", "dependsOn": ["b"]}`, ""),
			"/actions: they depend on each other in a circle: b → c → b", 0},
		{"a main path that is none", planned(of(""), `, "join": {"mainPathId": "z"}`),
			`/join/mainPathId: there is no action "z"`, 0},
		{"a main path that is spawned", planned(of("")+","+fork, `, "join": {"mainPathId": "a"}`),
			"/join/mainPathId: action a is spawned; only the conversation of a forked one can go on", 0},
		{"no threshold", planned(of(""), `, "join": {"joinStrategy": "SUCCESS_COUNT_THRESHOLD"}`),
			"/join/threshold: SUCCESS_COUNT_THRESHOLD needs one", 0},
		{"a threshold too high",
			planned(of(""), `, "join": {"joinStrategy": "SUCCESS_COUNT_THRESHOLD", "threshold": 2}`),
			"/join/threshold: 2 of 1 actions cannot succeed", 0},
		{"a threshold too many", planned(of(""), `, "join": {"threshold": 1}`),
			"/join/threshold: only SUCCESS_COUNT_THRESHOLD has one", 0},
		{"a role of the flow", planned(`{"id": "writer", "prompt": "x"}`, ""),
			`/actions/0/id: "writer" is a node of the flow`, 0},
		{"a gate of the flow", planned(`{"id": "sure", "prompt": "x"}`, ""),
			`/actions/0/id: "sure" is a node of the flow`, 0},
		{"a gate of the worker's flow", planned(`{"id": "question", "prompt": "x"}`, ""),
			`/actions/0/id: "question" is a node of the flow`, 0},
		{"several", planned(`{"id": "A", "prompt": ""}`, ""), "is no id: a-z, 0-9 and '-', at most 40\n" +
			"/actions/0/prompt: it is empty", 0},
		{"very many", planned(strings.Repeat(`{"id": "A", "prompt": ""},`, 50)+of(""), ""), "… and 49 more", 0},
		{"all of it", planned(`{"id": "a", "prompt": "x", "access": "full", "dependsOn": ["z"], "outputSchema": `+
			`{"type": "nothing"}}, {"id": "writer", "prompt": ""}`, `, "join": {"mainPathId": "y"}`),
			"/actions: 2 actions, at most 1 are allowed in a plan\n" +
				`/actions/0/access: "full" is neither read nor write` + "\n/actions/1/prompt: it is empty\n" +
				`/actions/0/dependsOn/0: there is no action "z"` + "\n" + `/join/mainPathId: there is no action "y"` +
				"\n" + `/actions/1/id: "writer" is a node of the flow` + "\n/actions/0/outputSchema: ", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := d.ReadPlan(fields(t, tt.meta), tt.most)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && strings.Count(err.Error(), "\n") > 100 {
				t.Errorf("%d lines", strings.Count(err.Error(), "\n"))
			}
		})
	}
	// The limit itself is allowed, and a flow without the role does not restrict ids.
	if _, err := d.ReadPlan(fields(t, planned(of(""), "")), 1); err != nil {
		t.Error(err)
	}
	if _, err := d.ReadPlan(map[string]any{"x": func() {}}, 0); err == nil ||
		!strings.Contains(err.Error(), "the plan is not JSON") {
		t.Error(err)
	}
}

func TestPlanStatus(t *testing.T) {
	for meta, want := range map[string]string{
		`{"actions": []}`: flow.Planned, `{"finish": {}}`: flow.Finished, `{"ask": {}}`: flow.Asked, `{}`: "",
		`{"actions": null, "ask": 1}`: flow.Asked,
	} {
		if got := flow.PlanStatus(fields(t, meta)); got != want {
			t.Errorf("%s: %q, want %q", meta, got, want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for meta, want := range map[string]string{
		`{}`:                      "",
		`{"summary": 3}`:          "",
		`{"summary": " Done.\n"}`: "Done.",
		`{"summary": "Done.", "evidence": [{"id": "e-1"}, {"id": 2}, "x", {"id": "e-2"}]}`: "Done. (evidence:a.e-1, " +
			"evidence:a.e-2)",
		`{"evidence": [{"id": "e-1"}]}`:         "(evidence:a.e-1)",
		`{"summary": "Done.", "evidence": "e"}`: "Done.",
		`{"summary": "It is so (evidence:cmd-1, evidence:b.e-1).", "evidence": ` +
			`[{"id": "e-1"}]}`: "It is so (evidence:a.cmd-1, evidence:b.e-1). (evidence:a.e-1)",
		`{"summary": "As evidence:e-1. says", "evidence": [{"id": "e-1"}]}`: "As evidence:a.e-1. says",
	} {
		if got := flow.Outcome("a", fields(t, meta)); got != want {
			t.Errorf("%s: %q, want %q", meta, got, want)
		}
	}
}

func TestContinues(t *testing.T) {
	d := parsed(t, planningFlow)
	blocks := flow.Fork{Plan: readPlan(t, d, planned(`{"id": "a", "prompt": "x"}`, ""))}
	plans := flow.Fork{Plan: readPlan(t, d, planned(`{"id": "a", "prompt": "x"}`, `, "onFailed": "plan"`))}
	routed := flow.Fork{ForkSpec: flow.ForkSpec{Join: "sure"}}
	for _, tt := range []struct {
		fork    flow.Fork
		outcome string
		want    bool
	}{
		{blocks, flow.Joined, true}, {blocks, flow.NotMet, false}, {blocks, flow.TimedOut, false},
		{plans, flow.Joined, true}, {plans, flow.NotMet, true}, {plans, flow.TimedOut, true},
		{routed, "approved", true}, {routed, flow.Joined, false},
	} {
		if got := d.Continues(tt.fork, tt.outcome); got != tt.want {
			t.Errorf("%+v, %s: %t", tt.fork.Plan, tt.outcome, got)
		}
	}
}

// No two actions have the same brief, whatever else they have in common, and a brief never changes.
func TestBrief(t *testing.T) {
	d := parsed(t, planningFlow)
	p := readPlan(t, d, planned(
		`{"id": "a", "prompt": "do it"}, {"id": "a-b", "prompt": "do it"}, {"id": "b", "title": "x", "prompt": "do it"},
		{"id": "c", "title": "x", "prompt": " do it\n", "inputs": ["evidence:e-1", "artifact:`+strings.Repeat("0", 64)+`"]}`, ""))
	seen := map[string]string{}
	for _, a := range p.Actions {
		brief := p.Brief(a.ID)
		if other, ok := seen[brief]; ok {
			t.Errorf("%s and %s are asked the same", a.ID, other)
		}
		seen[brief] = a.ID
		if again := readPlan(t, d, planned(string(mustJSON(t, p.Actions)[1:len(mustJSON(t, p.Actions))-1]), "")).Brief(
			a.ID); again != brief {
			t.Errorf("%s: %q, then %q", a.ID, brief, again)
		}
	}
	want := "Action c: x\n\nIt is one of 4 that are done for this goal: the goal\n\ndo it\n\n" +
		"Inputs: evidence:e-1, artifact:" + strings.Repeat("0", 64) + "\n"
	if got := p.Brief("c"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
