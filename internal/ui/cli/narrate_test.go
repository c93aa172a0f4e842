package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func TestNarration(t *testing.T) {
	n := &narrator{Narrator: view.NewNarrator(nil), program: taskdir.Program{Name: "plaitd", Verbs: []string{"answer"}}}
	n.Merged = func(dag.Hash) string {
		return "- the files of a are merged\n- the files of b are on branch x, not merged"
	}
	n.Named = func(text string) string { return strings.ReplaceAll(text, "TASK", "k7f2") }
	n.ends = true
	happened := func(thread, kind string, payload map[string]any) store.Event {
		data, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		return store.Event{Task: "TASK", Thread: thread, Type: kind, Payload: data}
	}
	type m = map[string]any
	var b strings.Builder
	for _, ev := range []store.Event{
		happened("TASK", "task.created", m{"flow": "audit"}),
		happened("TASK", "thread.forked", m{"fork": "look", "join": "seen", "paths": []string{"x", "y"},
			"threads": []string{"X", "Y"}}),
		happened("X", "attempt.started", m{"role": "read", "agent": "codex", "try": 1}),
		happened("X", "agent.item", m{"role": "read", "items": []m{
			{"kind": "command", "id": "c", "phase": "started", "text": "/bin/bash -lc 'make test'"},
			{"kind": "thought", "phase": "completed", "text": "**Looking around**\nat files"},
			{"kind": "message", "phase": "completed", "text": "---\nstatus: done\n---\nIt works."},
		}}),
		happened("X", "evidence.added", m{"id": "x.cmd-1", "kind": "command-execution"}),
		happened("X", "attempt.completed", m{"role": "read", "status": "done", "n": 3}),
		happened("X", "thread.ended", m{"status": "completed", "summary": "read\x1b[2J"}),
		happened("Y", "thread.blocked", m{"kind": "gate", "message": "waits"}),
		happened("TASK", "gate.blocked", m{"gate": "g-1", "kind": "input", "node": "ask", "question": "- Which port?\nNow"}),
		happened("TASK", "thread.joined", m{"join": "seen", "outcome": "joined", "n": 2, "step": dag.Sum([]byte("j"))}),
		happened("TASK", "thread.forked", m{"fork": "planner", "join": "__join__", "paths": []string{"a", "b", "c"},
			"threads": []string{"A", "B", "C"}}),
		happened("TASK", "controller.state.changed", m{"state": "monitoring"}),
		happened("TASK", "thread.joined", m{"join": "__join__", "outcome": "joined", "n": 3, "step": dag.Sum([]byte("k"))}),
		happened("TASK", "thread.blocked", m{"kind": "child", "message": "told at the end"}),
		happened("TASK", "thread.ended", m{"status": "completed", "summary": "told at the end"}),
	} {
		n.line(&b, ev)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.TrimSpace(line[len("15:04:05  "):]))
	}
	want := []string{
		"task k7f2 started: flow audit",
		"look: 2 paths started (x, y)",
		"x/read         started (codex)", "x/read           $ make test", "x/read           Looking around",
		"x/read         → done (step 3)",
		`x              done: read\x1b[2J`,
		"y              needs you: waits",
		`ask            needs you: Which port? Now  (plaitd answer g-1 -m "…")`,
		"seen: joined (2 paths)", "the files of a are merged", "the files of b are on branch x, not merged",
		"planner started 3 agents: a, b, c",
		"all 3 agents finished", "the files of a are merged", "the files of b are on branch x, not merged",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestStat(t *testing.T) {
	patch := "diff --git a/sum.go b/sum.go\nindex 1..2 100644\n--- a/sum.go\n+++ b/sum.go\n" +
		"@@ -1,2 +1,3 @@\n a\n-b\n+c\n+--- d\n" +
		"diff --git a/x.bin b/x.bin\nnew file mode 100644\nGIT binary patch\nliteral 3\n+abc\n"
	want := []string{"sum.go | +2 -1", "x.bin  | +0 -0"}
	if diff := cmp.Diff(want, stat(patch)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	real, err := os.ReadFile("../../view/testdata/names.patch") // what git writes
	if err != nil {
		t.Fatal(err)
	}
	want = []string{"bäh.bin       | +0 -0", "d b/plain.txt | +1 -0", "größe.txt     | +1 -0", "leer-ü        | +0 -0",
		"nöw           | +0 -0", "ok.txt        | +0 -0"}
	if diff := cmp.Diff(want, stat(string(real))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
