package flow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// The published schemas are the ones that are used.
func TestPublishedSchemas(t *testing.T) {
	files, err := filepath.Glob("../../docs/schemas/*")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".schema.json")
		names = append(names, name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != string(flow.Schemas()[name]) {
			t.Errorf("%s is not the schema %s of the program", file, name)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil ||
			doc["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: %v %v", file, doc["$schema"], err)
		}
	}
	if want := slices.Sorted(maps.Keys(flow.Schemas())); !slices.Equal(names, want) || len(want) != 3 {
		t.Errorf("published %v, there are %v", names, want)
	}
}

func TestSchemaOfPlans(t *testing.T) {
	d := parsed(t, planningFlow)
	action := func(more string) string { return planned(fmt.Sprintf(`{"id": "a", "prompt": "x"%s}`, more), "") }
	join := func(text string) string { return planned(`{"id": "a", "prompt": "x"}`, `, "join": `+text) }
	hash := strings.Repeat("0", 64)
	for _, tt := range []struct{ name, meta, want string }{
		{"the least", action(""), ""},
		{"all of it", action(`, "mode": "fork", "title": "T", "agent": "codex", "access": "write", "dependsOn": ` +
			`["b"], "inputs": ["evidence:ev-1.2", "artifact:` + hash + `"], "outputSchema": {}, "timeout": 0.5`), ""},
		{"a join", join(`{"joinStrategy": "SUCCESS_COUNT_THRESHOLD", "threshold": 1, "mainPathId": "a", "timeout": ` +
			`0, "losers": "wait"}`), ""},
		{"what follows", planned(`{"id": "a", "prompt": "x"}`, `, "then": "end", "onFailed": "plan"`), ""},
		{"finished", `{"$status": "finished", "finish": {"summary": "S", "report": "R"}}`, ""},
		{"asked", `{"$status": "ask", "ask": {"question": "Q"}}`, ""},
		{"suspended", `{"$status": "$SUSPEND", "reason": "R"}`, ""},
		{"another status", `{"$status": "done"}`, `/$status: "done"; it must be "ask", "finished" or "planned"`},
		{"no status", `{"finish": {"summary": "S"}}`, ""}, // it is implied before
		{"a key that there is not", action(`, "more": 1`), "/actions/0: additional properties 'more' not allowed"},
		{"a key beside the plan", planned(`{"id": "a", "prompt": "x"}`, `, "finish": {"summary": "S"}`),
			"/: additional properties 'finish' not allowed"},
		{"no actions", planned("", ""), "/actions: minItems"},
		{"no goal", `{"$status": "planned", "actions": [{"id": "a", "prompt": "x"}]}`,
			"/: missing property 'sessionGoal'"},
		{"no prompt", planned(`{"id": "a"}`, ""), "/actions/0: missing property 'prompt'"},
		{"no id", planned(`{"prompt": "x"}`, ""), "/actions/0: missing property 'id'"},
		{"an id with a space", planned(`{"id": "a b", "prompt": "x"}`, ""),
			`/actions/0/id: "a b"; it must match the pattern `},
		{"a mode that there is not", action(`, "mode": "detached"`),
			`/actions/0/mode: "detached"; it must be "spawn" or "fork"`},
		{"full access", action(`, "access": "full"`), `/actions/0/access: "full"; it must be "read" or "write"`},
		{"an input that is neither", action(`, "inputs": ["file:x"]`), "/actions/0/inputs/0: "},
		{"a dependency twice", action(`, "dependsOn": ["b", "b"]`), "/actions/0/dependsOn: "},
		{"a schema that is no object", action(`, "outputSchema": true`), "/actions/0/outputSchema: "},
		{"time that has been", action(`, "timeout": -1`), "/actions/0/timeout: "},
		{"a strategy that there is not", join(`{"joinStrategy": "MOST"}`), "/join/joinStrategy: "},
		{"no threshold", join(`{"threshold": 0}`), "/join/threshold: "},
		{"losers that there are not", join(`{"losers": "keep"}`), "/join/losers: "},
		{"what does not follow", planned(`{"id": "a", "prompt": "x"}`, `, "then": "stop"`), "/then: "},
		{"a failure that is passed over", planned(`{"id": "a", "prompt": "x"}`, `, "onFailed": "go"`), "/onFailed: "},
		{"finished without a summary", `{"$status": "finished", "finish": {}}`, "/finish: missing property 'summary'"},
		{"asked nothing", `{"$status": "ask", "ask": {"question": ""}}`, "/ask/question: "},
	} {
		t.Run(tt.name, func(t *testing.T) { says(t, d.Validate("boss", fields(t, tt.meta)), tt.want) })
	}
}

func TestSchemaOfWorkers(t *testing.T) {
	w := workers(t)
	of := func(status, more string) string {
		return fmt.Sprintf(`{"$status": %q, "status": %q, "summary": "S"%s}`, status, status, more)
	}
	evidence := `{"id": "e-1", "kind": "file-anchor", "title": "T", "path": "a.go", "startLine": 1, "endLine": 2`
	for _, tt := range []struct{ name, meta, want string }{
		{"success", of("success", ""), ""},
		{"all of it", of("success", `, "artifacts": ["a"], "questions": ["Q"], "nextActions": ["N"], "errors": `+
			`["E"], "evidence": [`+evidence+`}]`), ""},
		{"blocked", of("blocked", `, "questions": ["Q"]`), ""},
		{"failed", of("failed", `, "errors": ["E"]`), ""},
		{"blocked, and the summary asks", of("blocked", ""), ""},
		{"no summary", `{"$status": "success", "status": "success"}`, "/: missing property 'summary'"},
		{"another status", `{"status": "done", "summary": "S"}`,
			`/status: "done"; it must be "success", "blocked" or "failed"`},
		{"a result that nobody asked for", of("success", `, "result": 1`),
			"/: additional properties 'result' not allowed"},
		{"evidence of another kind",
			of("success", `, "evidence": [`+strings.Replace(evidence, "file-anchor", "rumour", 1)+`}]`),
			"/evidence/0/kind: "},
		{"evidence with more", of("success", `, "evidence": [`+evidence+`, "more": 1}]`),
			"/evidence/0: additional properties 'more' not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) { says(t, w.Validate("worker", fields(t, tt.meta)), tt.want) })
	}
}

// says checks for an error of one line that begins with want, or for none if want is "".
func says(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n")):
		t.Errorf("%v, want %q", err, want)
	}
}

// Whatever a planner returns, deciding is safe, and an accepted plan can be carried out.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"$status": "ask"}`, `{"$status": "finished", "finish": 3}`, `{"$status": "planned"}`,
		planned(twoActions, ""), planned(twoActions, `, "join": {"timeout": 1e308}, "then": "end"`),
		planned(`{"id": "a", "prompt": "x", "dependsOn": ["b"], "outputSchema": {"$ref": "#"}, "timeout": -1}, `+
			`{"id": "b", "prompt": "x", "dependsOn": ["a", "b", "b"]}`, `, "join": {"threshold": 1}`),
		planned(`{"id": "question", "prompt": "x"}, {"id": "worker", "prompt": "x", "mode": "fork"}`, ""),
	} {
		f.Add([]byte(seed))
	}
	d, problems := parse.Parse(nil, "flow.yaml", []byte(planningFlow))
	if d == nil {
		f.Fatal(problems)
	}
	w := workers(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var meta map[string]any
		if json.Unmarshal(data, &meta) != nil {
			return
		}
		boss := flow.Step{Role: "boss", Meta: meta}
		join := flow.Step{Role: flow.JoinRole, Meta: map[string]any{"$status": "joined"},
			Paths: map[string]flow.PathResult{"a": {Status: "completed", Meta: meta}}}
		for _, last := range [][]flow.Step{{boss}, {boss, join}, {boss, {Role: flow.InputRole, Body: "x"}}} {
			flow.Next(d, flow.At{}, last)
		}
		flow.PlanStatus(meta)
		flow.Outcome("a", meta)
		p, err := d.ReadPlan(meta, 64)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		open := map[string]int{}
		for _, a := range p.Actions {
			if _, twice := open[a.ID]; twice {
				t.Errorf("two actions %q", a.ID)
			}
			open[a.ID] = len(a.DependsOn)
		}
		for range p.Actions {
			for _, a := range p.Actions {
				if !slices.ContainsFunc(a.DependsOn, func(id string) bool {
					n, known := open[id]
					return !known ||
						n >= 0
				}) {
					open[a.ID] = -1
				}
			}
		}
		for id, n := range open {
			if n >= 0 {
				t.Errorf("action %s can never begin", id)
			}
			def, at := w.SpawnedAction(p, id), flow.At{Prompt: p.Brief(id)}
			var last []flow.Step
			if a, _ := p.Action(id); a.Mode == flow.Forked {
				def, at, last = d.ForkedAction(w, p, id), flow.At{Path: id}, []flow.Step{boss}
			}
			if run, ok := flow.Next(def, at, last).(flow.Run); !ok || run.Role != id || at.Path != "" &&
				run.Prompt != p.Brief(id) {
				t.Errorf("action %s begins with %+v", id, flow.Next(def, at, last))
			}
			_ = def.Validate(id, map[string]any{"$status": flow.Success, "status": flow.Success, "summary": "S"})
		}
	})
}
