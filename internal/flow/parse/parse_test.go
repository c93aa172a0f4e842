package parse_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// files is a Source in memory.
type files map[string]string

func (f files) ReadFile(name string) ([]byte, error) {
	s, ok := f[name]
	if !ok {
		return nil, fmt.Errorf("no such file")
	}
	return []byte(s), nil
}

type dir string

func (d dir) ReadFile(name string) ([]byte, error) { return fs.ReadFile(os.DirFS(string(d)), name) }

var sameDefinition = cmpopts.IgnoreUnexported(flow.Definition{})

func show(problems []flow.Problem) []string {
	list := []string{}
	for _, p := range problems {
		w := ""
		if p.Warning {
			w = " warning"
		}
		list = append(list, fmt.Sprintf("%d:%d %s%s", p.Line, p.Col, p.Code, w))
	}
	return list
}

// parsed parses a flow that must be valid.
func parsed(t *testing.T, text string) *flow.Definition {
	t.Helper()
	d, problems := parse.Parse(nil, "flow.yaml", []byte(text))
	if d == nil {
		t.Fatalf("flow refused: %v", problems)
	}
	schemaAgrees(t, text, problems)
	return d
}

func TestLoadsVersion1Files(t *testing.T) {
	tests := []struct {
		file     string
		warnings []string
		statuses map[string][]string
	}{
		{
			"solve-issue.yaml",
			[]string{"1:1 VERSION_MISSING warning", "73:82 UNKNOWN_VARIABLE warning"},
			map[string][]string{"planner": {"blocked", "ready"}, "developer": {"blocked", "done"},
				"reviewer": {"approved", "rejected"}},
		},
		{"release-notes/index.yaml", []string{}, map[string][]string{"collector": {"found", "nothing"},
			"writer": {"written"}}},
		{"triage.yaml", []string{"1:1 VERSION_MISSING warning"}, map[string][]string{"triager": {"finished", "more"}}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			d, problems := parse.Load(dir("../testdata/v1"), ".workflows/"+tt.file)
			if d == nil {
				t.Fatalf("refused: %v", problems)
			}
			if diff := cmp.Diff(tt.warnings, show(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			got := map[string][]string{}
			for role := range d.Roles {
				got[role] = d.Statuses(role)
			}
			if diff := cmp.Diff(tt.statuses, got); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
			roundTrip(t, d)
		})
	}
}

func TestIncludesAndMerges(t *testing.T) {
	d, _ := parse.Load(dir("../testdata/v1"), ".workflows/release-notes/index.yaml")
	w := d.Roles["writer"]
	if w.Description != "Writes the notes" || w.Goal != "You write for people who use the program." {
		t.Errorf("own keys must win over merged ones: %+v", w)
	}
	if want := "One line for each change, in the words of a user.\n"; w.Procedure != want {
		t.Errorf("included text = %q, want %q", w.Procedure, want)
	}
	got := flow.Next(d, flow.At{}, []flow.Step{{Role: "collector", Meta: map[string]any{
		"$status": "found", "changes": []any{map[string]any{"title": "Faster", "pull": 7.0}},
	}}})
	want := flow.Run{Role: "writer", Prompt: "Write notes for these changes:\n\n- Faster (#7)\n"}
	if diff := cmp.Diff(flow.Decision(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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

const everything = `version: 1
name: everything
description: "<every> key & more"
limits: {maxRounds: 7, maxDepth: 2, timeout: 90, maxConcurrent: 3, maxTokens: 2000000, maxCostMicroUSD: 5000000, maxActions: 1, maxTaskActions: 2, maxOutput: 512KiB, maxAttempts: 9}
context: {tokens: 100, pin: [build]}
x-anything: {a: [1, 2]}
roles:
  build:
    agent: {kind: command, command: [go, test, -count, 1], dir: sub, env: {A: 1, B: b}, pass: [GOFLAGS, LC_*], exit: {0: passed, 1: failed}, idle: 5m}
    access: write
    timeout: 600ms
    retry: {max: 0, interrupted: true}
  ask:
    agent: {kind: codex, model: m, effort: high, globalInstructions: true, path: /opt/codex, config: {n: 1, f: 1.5, deep: [{a: null}], s: "<x>"}}
    frontmatter: {properties: {$status: {enum: [yes, no]}, why: {type: string, description: "a < b"}}}
  play:
    agent: {kind: replay, recording: runs/1.jsonl}
  named: {agent: codex, plan: false}
graph:
  $START: {new: {role: build, prompt: "{{ prompt }}"}}
  build: {passed: {role: ask, prompt: p}, failed: {role: $END, code: 3, prompt: "exit {{ exitCode }}"}}
  ask: {"yes": {role: play, prompt: "{{ why }}"}, "no": {role: $END}}
  play: {done: {role: named, prompt: p}}
  named: {any: {role: $END}, other: {role: named, prompt: p}}
`

func TestEveryKey(t *testing.T) {
	d := parsed(t, everything)
	roundTrip(t, d)
	yes := true
	if diff := cmp.Diff(flow.Limits{
		MaxRounds: 7, MaxDepth: 2, Timeout: 90e9, MaxConcurrent: 3, MaxTokens: 2000000, MaxCostMicroUSD: 5000000,
		MaxActions: 1, MaxTaskActions: 2, MaxOutput: 512 << 10, MaxAttempts: 9,
	}, d.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	want := flow.Role{
		Agent: &flow.AgentRef{Inline: &flow.Agent{
			Kind: "command", Command: []string{"go", "test", "-count", "1"}, Dir: "sub",
			Env: map[string]string{"A": "1", "B": "b"}, Pass: []string{"GOFLAGS", "LC_*"},
			Exit: map[string]string{"0": "passed", "1": "failed"}, Idle: 300e9,
		}},
		Access: flow.Write, Timeout: 600e6, Retry: flow.Retry{Max: 0, Interrupted: &yes},
	}
	if diff := cmp.Diff(want, d.Roles["build"]); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
	if got := d.Statuses("build"); !cmp.Equal(got, []string{"failed", "passed"}) {
		t.Errorf("statuses = %v", got)
	}
}

func TestDefaults(t *testing.T) {
	d := parsed(t, strings.Join(base, "\n"))
	if diff := cmp.Diff(flow.DefaultLimits(), d.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	r := d.Roles["a"]
	if d.Version != 1 || d.Context.Tokens != 32000 || r.Access != flow.Read || r.Retry.Max != 2 ||
		r.Retry.Interrupted != nil {
		t.Errorf("defaults: version %d, context %+v, role %+v", d.Version, d.Context, r)
	}
}

func TestFind(t *testing.T) {
	tests := []struct {
		name, dir, flow string
		exists          []string
		want            string
	}{
		{"plait's own first", "/r", "f", []string{"/r/.git", "/r/.plait/flows/f.yaml", "/r/.workflows/f.yaml"},
			"/r/.plait/flows/f.yaml"},
		{"from below", "/r/a/b", "f", []string{"/r/.git", "/r/.workflows/f.yaml"}, "/r/.workflows/f.yaml"},
		{"nearest", "/r/a", "f", []string{"/r/.git", "/r/.plait/flows/f.yaml", "/r/a/.workflows/f.yaml"},
			"/r/a/.workflows/f.yaml"},
		{"folder", "/r", "f", []string{"/r/.git", "/r/.workflows/f/index.yaml"}, "/r/.workflows/f/index.yaml"},
		{"not above the repository", "/r/a", "f", []string{"/r/a/.git", "/r/.workflows/f.yaml"}, ""},
		{"not above without one", "/r/a", "f", []string{"/r/.workflows/f.yaml"}, ""},
		{"here without one", "/r", "f", []string{"/r/.workflows/f.yaml"}, "/r/.workflows/f.yaml"},
		{"a path", "/r", "x/f.yaml", []string{"/r/x/f.yaml"}, "/r/x/f.yaml"},
		{"a path to a folder", "/r", "./x", []string{"/r/x/index.yaml"}, "/r/x/index.yaml"},
		{"a missing path", "/r", "x/f.yaml", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parse.Find(tt.dir, tt.flow, func(p string) bool {
				for _, e := range tt.exists {
					if e == p {
						return true
					}
				}
				return false
			})
			if ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("Find = %q, %v; want %q", got, ok, tt.want)
			}
		})
	}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
