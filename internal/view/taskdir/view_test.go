package taskdir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// example is a task with two paths, one of which waits for a person.
func example() view.TaskRecord {
	head := dag.Sum([]byte("head"))
	thread := func(id string, kind store.ThreadKind, status store.Status, parent string) store.Thread {
		t := store.Thread{ID: id, Task: "T", Root: "T", Kind: kind, Flow: "survey", Status: status, Head: head, Steps: 2, UpdatedAt: 1_700_000_001_000}
		if parent != "" {
			t.Parent = &store.Parent{Thread: parent}
		}
		return t
	}
	root := thread("T", store.KindRoot, store.Running, "")
	root.CreatedAt, root.Workspace, root.Bundle = 1_700_000_000_000, "/w", dag.Sum([]byte("bundle"))
	root.Options = json.RawMessage(`{"agent":"codex","limits":{"maxTokens":2000000,"timeout":"1h0m0s","maxRounds":0,"maxOutput":"0"},"approve":"","token":"s3cret"}`)
	api, db := thread("T-api", store.KindPath, store.Blocked, "T"), thread("T-db", store.KindPath, store.Completed, "T")
	api.Path, db.Path = &store.Path{ID: "api", N: 1}, &store.Path{ID: "db", N: 2}
	api.Reason = &store.Reason{Kind: "gate", Message: "waits for an answer"}
	call := thread("T-call", store.KindCall, store.Pending, "T-api")
	call.Flow = "develop"
	return view.TaskRecord{
		Root: root, Threads: []store.Thread{root, api, call, db}, Prompt: "Survey *it*", Driven: true,
		Attempts: []store.Attempt{
			{ID: "T-api.1", Thread: "T-api", From: head, Role: "read", N: 1, Agent: "codex", Instance: "read-api", Status: store.AttemptRunning, StartedAt: 2},
			{ID: "T-db.1", Thread: "T-db", Role: "read", N: 1, Agent: "codex", Instance: "read-db", Status: store.AttemptFailed, StartedAt: 1,
				Usage: store.Usage{InputTokens: 5, OutputTokens: 1}},
			{ID: "T-db.2", Thread: "T-db", Role: "read", N: 2, Agent: "codex", Instance: "read-db", Status: store.AttemptDone, StartedAt: 3,
				Usage: store.Usage{InputTokens: 10, OutputTokens: 2}},
		},
		Gates: []store.Gate{{ID: "g-1", Kind: "approval", State: "open", Source: "agent", Thread: "T-api", Node: "read", Attempt: "T-api.1", Instance: "read-api",
			Action: json.RawMessage(`{"type":"command","command":"make | install"}`), OpenedAt: 1_700_000_002_000}},
	}
}

func TestTaskYAML(t *testing.T) {
	text, err := YAML(withCommands(Program{}, example().Task()))
	if err != nil {
		t.Fatal(err)
	}
	h, bundle := dag.Sum([]byte("head")).String(), dag.Sum([]byte("bundle")).String()
	want := strings.NewReplacer("HEAD", h, "BUNDLE", bundle).Replace(`# Drawn by Plait from its record; what is changed here is overwritten.
id: T
short: ""
state: input-required
title: Survey *it*
topology: squad
flow: survey
bundle: BUNDLE
head: HEAD
status: running
reason: null
display:
  state: needs you
  reason: read wants to run ` + "`make | install`" + `
dismissed: false
controller: null
goOn: ""
steps: 2
createdAt: "2023-11-14T22:13:20Z"
updatedAt: "2023-11-14T22:13:22Z"
workspace: /w
forkedFrom: null
result: null
roster:
  - instance: read-db
    role: read
    action: ""
    title: ""
    agent: codex
    state: completed
    thread: T-db
    label: db#2
    attempt: T-db.2
    attempts: 2
    tokens: 18
    costMicroUSD: 0
    startedAt: "1970-01-01T00:00:00Z"
    endedAt: null
  - instance: read-api
    role: read
    action: ""
    title: ""
    agent: codex
    state: blocked
    thread: T-api
    label: api
    attempt: T-api.1
    attempts: 1
    tokens: 0
    costMicroUSD: 0
    startedAt: "1970-01-01T00:00:00Z"
    endedAt: null
milestones:
  - id: api
    title: path of flow survey
    state: blocked
    dependsOn: []
  - id: api/develop
    title: call of flow develop
    state: pending
    dependsOn: []
  - id: db#2
    title: path of flow survey
    state: done
    dependsOn: []
gates:
  - id: g-1
    kind: approval
    state: open
    source: agent
    thread: T-api
    label: api
    node: read
    instance: read-api
    question: make | install
    options: []
    openedAt: "2023-11-14T22:13:22Z"
    expiresAt: null
    answeredAt: null
    by: ""
    via: ""
    instructionsRef: ""
    answerWith: plait approve g-1
threads:
  - id: T
    label: ""
    kind: root
    flow: survey
    status: running
    reason: null
    display:
      state: needs you
      reason: read wants to run ` + "`make | install`" + `
    head: HEAD
    steps: 2
  - id: T-api
    label: api
    kind: path
    flow: survey
    status: blocked
    reason:
      kind: gate
      message: waits for an answer
    display:
      state: needs you
      reason: read wants to run ` + "`make | install`" + `
    head: HEAD
    steps: 2
  - id: T-call
    label: api/develop
    kind: call
    flow: develop
    status: pending
    reason: null
    display:
      state: queued
      reason: ""
    head: HEAD
    steps: 2
  - id: T-db
    label: db#2
    kind: path
    flow: survey
    status: completed
    reason: null
    display:
      state: done
      reason: ""
    head: HEAD
    steps: 2
config:
  agent: codex
  limits:
    maxTokens: 2000000
    timeout: 1h0m0s
usage:
  inputTokens: 15
  cachedInputTokens: 0
  outputTokens: 3
  reasoningTokens: 0
  costMicroUSD: 0
`)
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Commands for people use the name of the program that they run.
func TestNameOfTheProgram(t *testing.T) {
	p := Program{Name: "plaitd", Verbs: []string{"approve", "gate", "deny", "resume", "cas", "task", "thread"}}
	v := withCommands(p, example().Task())
	board, err := boardText(p, v, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(board), v.Gates[0].AnswerWith} {
		if !strings.Contains(text, "plaitd ") || p.Says(text) != text {
			t.Errorf("it says %s", text)
		}
	}
	for _, text := range []string{notes, manifest} {
		if p.Says(text) != text {
			t.Errorf("what is made once names a program: %s", text)
		}
	}
	dir := At(t.TempDir(), "T")
	if err := dir.Create(p, false); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir.Path(), "README.md"))
	if err != nil || !strings.Contains(string(data), "plaitd task redraw T") || p.Says(string(data)) != string(data) {
		t.Errorf("the README says %s: %v", data, err)
	}
}

func TestBoardText(t *testing.T) {
	got, err := boardText(Program{}, withCommands(Program{}, example().Task()), map[string]activity{"T-api.1": {last: "$ make\x1b[2J <b>", tokens: 7}, "T-db.2": {last: "over"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `<!-- Plait draws what is between these two lines. Write above or below them: that stays. -->

# Survey \*it\*

**input-required** (running)

flow survey, 2 steps, 18 tokens, updated 2023-11-14T22:13:22Z

## Waits for a person

| gate | kind | asked by | question | answer with |
|---|---|---|---|---|
| g-1 | approval | api/read-api | make \| install | ` + "`plait approve g-1` |" + `

` + "Look first with `plait gate show GATE`; refuse with `plait deny GATE`." + `

## Agents

| agent | state | done by | attempt | tokens | now |
|---|---|---|---|---|---|
| read-db | completed | codex | 2 | 18 |  |
| read-api | blocked | codex | 1 | 7 | $ make�\[2J \<b\> |

## Threads

| thread | path | flow | status | steps |
|---|---|---|---|---|
| T |  | survey | running | 2 |
| T-api | api | survey | blocked: gate, waits for an answer | 2 |
| T-call | api/develop | develop | pending | 2 |
| T-db | db#2 | survey | completed | 2 |

`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSplice edits a state board as a person could: everything outside of the drawn
// block is kept, byte for byte.
func TestSplice(t *testing.T) {
	block := blockStart + "\nnew\n" + blockEnd + "\n"
	old := blockStart + "\nold\n" + blockEnd + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"new file", "", block},
		{"as drawn", old, block},
		{"text around", "above\n" + old + "below\n", "above\n" + block + "below\n"},
		{"no newline at the end", "mine", "mine\n\n" + block},
		{"start is gone", "old\n" + blockEnd + "\nmine\n", "old\n" + blockEnd + "\nmine\n\n" + block},
		{"end is gone", blockStart + "\nold\nmine\n", blockStart + "\nold\nmine\n\n" + block},
		{"end is gone, appended before", blockStart + "\nmine\n" + old, blockStart + "\nmine\n" + block},
		{"a second end", old + "mine\n" + blockEnd + "\n", block + "mine\n" + blockEnd + "\n"},
		{"the wrong way round", blockEnd + "\nmine\n" + blockStart + "\n", blockEnd + "\nmine\n" + blockStart + "\n\n" + block},
		{"in the middle of a line", "see " + blockStart + "\n" + blockEnd + "\n", "see " + blockStart + "\n" + blockEnd + "\n\n" + block},
		{"carriage returns", strings.ReplaceAll(old, "\n", "\r\n") + "mine\r\n", block + "mine\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(splice([]byte(c.text), []byte("new\n")))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if again := string(splice([]byte(got), []byte("new\n"))); again != got {
				t.Errorf("drawn again it becomes %q", again)
			}
		})
	}
}

func TestSpliceKeepsWhatPeopleWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{blockStart, blockEnd, "mine 1", "mine 2", ""})).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		got := string(splice([]byte(text), []byte("new\n")))
		if again := string(splice([]byte(got), []byte("new\n"))); again != got {
			t.Fatalf("drawn again\n%s\nbecomes\n%s", got, again)
		}
		// The removed text was between two markers, with no other marker in between.
		i := strings.Index(got, blockStart+"\nnew\n"+blockEnd)
		if i < 0 {
			t.Fatalf("no block in\n%s", got)
		}
		rest := strings.TrimPrefix(text, got[:i])
		if !strings.HasPrefix(text, strings.TrimRight(got[:i], "\n")) {
			t.Fatalf("what was above\n%s\nis now\n%s", text, got[:i])
		}
		if body, after, ok := strings.Cut(strings.TrimPrefix(rest, blockStart), blockEnd); ok && len(rest) != len(text) && strings.Contains(body, blockStart) {
			t.Fatalf("more than one block was taken out of\n%s\nbefore\n%s", text, after)
		}
	})
}
