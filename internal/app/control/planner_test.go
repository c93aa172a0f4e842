package control

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// toldOf parses what a planner's prompt says of its actions.
func toldOf(t *testing.T, prompt string) (actions []map[string]any) {
	t.Helper()
	_, data, ok := strings.Cut(prompt, "Results of the actions. ")
	at := strings.Index(data, "\n{")
	if !ok || at < 0 {
		t.Fatalf("the planner is told of no action:\n%s", prompt)
	}
	var v struct{ Actions []map[string]any }
	if err := json.NewDecoder(strings.NewReader(data[at:])).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v.Actions
}

// Before its first plan a planner is told which agents there are and what is left of its limits,
// and in its second round the outcomes of all its actions, each once.
func TestWhatAPlannerIsTold(t *testing.T) {
	var prompts []string
	var lent map[string]string
	h := newHouse(t, nil)
	h.file("a", "1\n")
	h.agents = map[string]scripted{
		"planner": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			prompts = append(prompts, req.Prompt)
			lent = map[string]string{}
			files, _ := os.ReadDir(req.Desk.Context)
			for _, f := range files {
				data, _ := os.ReadFile(filepath.Join(req.Desk.Context, f.Name()))
				lent[f.Name()] = string(data)
			}
			return plans(actions(`, "onFailed": "plan"`, act("one", `, "outputSchema": {"type": "object"}`),
				act("bad", `, "title": "not so good"`)), finish)(ctx, req, emit)
		},
		"one": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			if err := os.WriteFile(filepath.Join(req.Desk.Artifacts, "notes.md"), []byte("noted"), 0o600); err != nil {
				return agent.Result{}, err
			}
			return say(`{"status": "success", "summary": "Found it.", "result": {"port": 7433}, "nextActions": ["close it"],
				"evidence": [{"id": "place", "kind": "file-anchor", "title": "here", "path": "a", "startLine": 1, "endLine": 1}]}`)(ctx,
				req, emit)
		},
		"bad": say(`{"status": "failed", "summary": "No way.", "errors": ["it broke"], "questions": ["why?"]}`),
	}
	c := h.controller()
	limits := flow.Limits{MaxTaskActions: 9, MaxTokens: 5000}
	row := h.drive(c, h.orchestrate(c).ID, Resume{Options: Options{Limits: limits}})
	wantStatus(t, row, store.Completed, "")
	if len(prompts) != 2 {
		t.Fatalf("the planner was asked %d times", len(prompts))
	}
	for i, wants := range [][]string{
		{"Agents that actions may name:\n", "- codex (codex): ", "actions of the whole task: 9 of 9", "tokens: 5000",
			"rounds, of which you take one each time: 40 of 40"},
		{"actions of the whole task: 7 of 9", "rounds, of which you take one each time: 39 of 40"},
	} {
		for _, want := range wants {
			if !strings.Contains(prompts[i], want) {
				t.Errorf("prompt %d does not say %q:\n%s", i+1, want, prompts[i])
			}
		}
	}
	for _, once := range []string{"Found it.", "No way.", "it broke", "7433"} {
		if n := strings.Count(prompts[1], once); n != 1 {
			t.Errorf("the planner is told %q %d times:\n%s", once, n, prompts[1])
		}
	}
	all := toldOf(t, prompts[1])
	if len(all) != 2 {
		t.Fatalf("%d actions", len(all))
	}
	one, bad := all[0], all[1]
	files, _ := one["artifacts"].([]any)
	if len(files) != 1 {
		t.Fatalf("artifacts: %v", one["artifacts"])
	}
	left := files[0].(map[string]any)
	if left["name"] != "notes.md" || len(left["artifact"].(string)) != 64 || lent[left["file"].(string)] != "noted" {
		t.Errorf("artifact %v, lent %v", left, lent)
	}
	if whole := lent[one["file"].(string)]; !strings.Contains(whole, "7433") {
		t.Errorf("the file has %q", whole)
	}
	delete(one, "artifacts")
	delete(one, "seconds")
	want := map[string]any{"id": "one", "agent": one["agent"], "status": "completed",
		"summary": "Found it. (evidence:one.place)", "result": map[string]any{"port": 7433.0}, "errors": []any{},
		"nextActions": []any{"close it"}, "questions": []any{}, "tokens": one["tokens"], "file": "result-one.json",
		"evidence": []any{map[string]any{"id": "evidence:one.place", "title": "here"}}}
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for key, want := range map[string]any{
		"status": "failed", "failure": "failed", "summary": "No way.", "title": "not so good",
	} {
		if bad[key] != want {
			t.Errorf("%s of the failed one is %v, want %v", key, bad[key], want)
		}
	}
}

// Everything wrong with a plan goes back to its planner together, each fault with its place.
func TestAllFaultsOfAPlan(t *testing.T) {
	var told string
	h := newHouse(t, map[string]scripted{"a": output("success", "fine")})
	h.agents["planner"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		if _, fault, ok := strings.Cut(req.Prompt, "could not be used: "); ok {
			told, _, _ = strings.Cut(fault, "\nAnswer again")
			return say(actions("", act("a", "")))(ctx, req, emit)
		}
		return plans(actions(`, "join": {"mainPathId": "z"}, "more": 1`,
			act("a", `, "agent": "nobody", "dependsOn": ["z"], "inputs": ["evidence:x.y"], "access": "full"`),
			act("planner", ""), act("B", `, "timeout": "soon"`)), finish)(ctx, req, emit)
	}
	c := h.controller()
	wantStatus(t, h.drive(c, h.orchestrate(c).ID, Resume{}), store.Completed, "")
	for _, want := range []string{
		"/actions/0/access: ", "/actions/0/agent: ", `"nobody"`, `/actions/0/dependsOn/0: there is no action "z"`,
		`/actions/0/inputs/0: there is no evidence "x.y"`, "/actions/1/id: ", "/actions/2/id: ", "/actions/2/timeout: ",
		`/join/mainPathId: there is no action "z"`, "additional properties 'more' not allowed",
	} {
		if n := strings.Count(told, want); n == 0 {
			t.Errorf("the planner is not told %q:\n%s", want, told)
		}
	}
	for line := range strings.Lines(told) {
		if !strings.HasPrefix(line, "/") || strings.Count(told, strings.SplitAfter(line, ": ")[0]) != 1 {
			t.Errorf("%q has no place of its own in\n%s", line, told)
		}
	}
}
