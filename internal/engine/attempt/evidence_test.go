package attempt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// An emitter is an agent that reports what it does.
type emitter func(req agent.Request, emit func(agent.Event) error) (agent.Result, error)

// emitting sets up a thread whose roles are done by do, in a working tree with files.
func emitting(t *testing.T, do emitter) (*mem.Store, *house, store.Thread) {
	t.Helper()
	h := newHouse(t, "write", housetest.Role(func(_ context.Context, req agent.Request, emit func(agent.Event) error) (
		agent.Result, error) {
		return do(req, emit)
	}))
	write(t, h.row, "a.txt", "one\ntwo\nthree\n")
	return h.store, h, h.row
}

// treeAfter returns the git tree that a step left.
func treeAfter(t *testing.T, s *mem.Store, at dag.Hash) string {
	t.Helper()
	r := thread.NewReader(s)
	state, err := r.State(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Detail(t.Context(), state.Detail)
	if err != nil || d.TreeAfter == nil {
		t.Fatalf("the step does not say how it left its tree: %v", err)
	}
	return *d.TreeAfter
}

func write(t *testing.T, row store.Thread, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(row.Tree, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ran(command, output string, code int) agent.Event {
	return agent.Event{Kind: agent.EventCommand, Phase: "completed", Text: command, Output: output, Exit: &code}
}

func answered(meta string) (agent.Result, error) { return agent.Result{Output: []byte(meta)}, nil }

// evidenceOf reads the evidence of the newest step.
func evidenceOf(t *testing.T, s *mem.Store, head dag.Hash) []*thread.Evidence {
	t.Helper()
	r := thread.NewReader(s)
	st, err := r.State(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Detail(t.Context(), st.Detail)
	if err != nil {
		t.Fatal(err)
	}
	var out []*thread.Evidence
	for _, h := range d.Evidence {
		ev, err := r.Evidence(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range ev.Refs() {
			if ok, err := s.Has(t.Context(), ref); err != nil || !ok {
				t.Errorf("%s names %s, which is not kept: %v", ev.ID, ref, err)
			}
		}
		out = append(out, ev)
	}
	return out
}

func ids(evidence []*thread.Evidence) []string {
	var out []string
	for _, ev := range evidence {
		out = append(out, ev.By+"."+ev.ID)
	}
	return out
}

func TestCommandsBecomeEvidence(t *testing.T) {
	big := strings.Repeat("x", 1<<20) + "the end"
	s, e, _ := emitting(t, func(req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		change := agent.Event{Kind: agent.EventFile, Phase: "completed", Files: []agent.File{
			{Path: filepath.Join(req.Dir, "a.txt"), Change: "update", Diff: "-1\n+one\n"},
			{Path: "gone.txt", Change: "delete"}, {Path: "/etc/passwd", Change: "update"},
		}}
		for _, ev := range []agent.Event{
			{Kind: agent.EventCommand, Phase: "started", Text: "ls"}, ran("ls\nsecond line", "a.txt\n", 0), change,
			{Kind: agent.EventMessage, Text: "hello"}, ran("cat big", big, 1),
			{Kind: agent.EventCommand, Phase: "declined", Text: "rm -rf /"},
		} {
			if err := emit(ev); err != nil {
				return agent.Result{}, err
			}
		}
		return answered(`{"$status":"done"}`)
	})
	first, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if src := evidenceOf(t, s, first.Head)[0].Sources[0]; src.Tree != nil {
		t.Errorf("a role that only reads has the tree %s, which nobody took", *src.Tree)
	}
	after, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	evidence := evidenceOf(t, s, after.Head)
	if diff := cmp.Diff([]string{"second.cmd-1", "second.change-1", "second.cmd-2", "second.cmd-3"},
		ids(evidence)); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
	cwd, tree, zero, one := ".", treeAfter(t, s, after.Head), 0, 1
	file, goneFile, passwd := "a.txt", "gone.txt", "/etc/passwd"
	want := [][]thread.EvidenceSource{
		{{Command: []string{"ls\nsecond line"}, Cwd: &cwd, ExitCode: &zero, StdoutRef: dag.Sum([]byte("a.txt\n")),
			Hash: dag.Sum([]byte("a.txt\n")), Tree: &tree}},
		{{Path: &file, Blob: dag.Sum([]byte("-1\n+one\n")), Hash: dag.Sum([]byte("one\ntwo\nthree\n")), Tree: &tree},
			{Path: &goneFile, Tree: &tree}, {Path: &passwd}},
		{{Command: []string{"cat big"}, Cwd: &cwd, ExitCode: &one, StdoutRef: dag.Sum([]byte(big[7:])),
			Hash: dag.Sum([]byte(big[7:])), Tree: &tree}},
		{{Command: []string{"rm -rf /"}, Cwd: &cwd, Tree: &tree}},
	}
	for i, ev := range evidence {
		if diff := cmp.Diff(want[i], ev.Sources); diff != "" {
			t.Errorf("%s: -want +got\n%s", ev.ID, diff)
		}
	}
	if !strings.Contains(evidence[2].Summary, "its output is cut: 7 bytes") ||
		!strings.Contains(evidence[3].Summary, "declined") || evidence[0].Title != "ls …" {
		t.Errorf("summaries %q, %q, title %q", evidence[2].Summary, evidence[3].Summary, evidence[0].Title)
	}
	events, err := s.Events(t.Context(), 0, store.EventFilter{Types: event.Types(event.EvidenceAdded{})})
	if err != nil || len(events) != 8 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	a, ok := event.Read(events[5]).(event.EvidenceAdded)
	if !ok || a.ID != "second.change-1" || a.Kind != thread.FileAnchor || events[5].Instance != "second" {
		t.Errorf("the event says %+v by %s", a, events[5].Instance)
	}
	if ev, err := thread.NewReader(s).Evidence(t.Context(), a.Hash); err != nil || ev.ID != "change-1" {
		t.Errorf("the event names %+v, %v", ev, err)
	}
}

// TestACorrectionKeepsWhatWasSeen: a wrong entry goes back to the agent; the commands
// of the turn before it still count when it answers again.
func TestACorrectionKeepsWhatWasSeen(t *testing.T) {
	var prompts []string
	s, e, _ := emitting(t, func(req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		prompts = append(prompts, req.Prompt)
		if len(prompts) > 1 {
			return answered(`{"$status":"done","evidence":[{"id":"ok","kind":"file-anchor","title":"t",` +
				`"path":"a.txt","startLine":2}, {"id":"test","kind":"command-execution","title":"t",` +
				`"command":"cmd-1"}]}`)
		}
		if err := emit(ran("go test", "ok\n", 0)); err != nil {
			return agent.Result{}, err
		}
		return answered(`{"$status":"done","evidence":[{"id":"ok","kind":"file-anchor","title":"t","path":"a.txt",` +
			`"startLine":4}]}`)
	})
	after, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(prompts) != 2 || !strings.Contains(prompts[1], "ok: a.txt has 3 lines, so there is no line 4") {
		t.Fatalf("prompts %q", prompts)
	}
	evidence := evidenceOf(t, s, after.Head)
	if diff := cmp.Diff([]string{"first.cmd-1", "first.ok", "first.test"}, ids(evidence)); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
	if src := evidence[1].Sources[0]; src.Blob != dag.Sum([]byte("two\n")) || *src.EndLine != 2 {
		t.Errorf("the anchor is %+v", src)
	}
	if diff := cmp.Diff(evidence[0].Sources, evidence[2].Sources); diff != "" {
		t.Errorf("the command that was pointed out is another one\n%s", diff)
	}
}

// TestACorrectionThatBreaks: what an agent did before an answer that could not be used still counts if the next attempt
// fails for another reason.
func TestACorrectionThatBreaks(t *testing.T) {
	turn := 0
	s, e, _ := emitting(t, func(_ agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		switch turn++; turn {
		case 1:
			if err := emit(ran("go test", "ok\n", 0)); err != nil {
				return agent.Result{}, err
			}
			return answered(`{"$status":"done","why":"evidence:cmd-2"}`)
		case 2:
			return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "connection lost"}
		case 3:
			return answered(`{"$status":"done","why":"evidence:cmd-1"}`)
		}
		return answered(`{"$status":"done"}`)
	})
	after, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first.cmd-1"}, ids(evidenceOf(t, s, after.Head))); diff != "" || turn != 3 {
		t.Errorf("after %d turns: -want +got\n%s", turn, diff)
	}
}

// TestCountedIDs: an agent that was sent back, or cut off, may count what it did from its last turn or from an
// earlier one; what its last turn has not done is from the one before.
func TestCountedIDs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		commands [3]int // in each turn; the last is the one that answers
		cited    string
		want     []string
	}{
		{"in the turn before", [3]int{0, 1, 0}, "evidence:cmd-1", []string{"first.cmd-1"}},
		{"in the last turn", [3]int{0, 1, 1}, "evidence:cmd-1", []string{"first.cmd-1-2-1", "first.cmd-1"}},
		{"in both", [3]int{0, 2, 1}, "evidence:cmd-1 evidence:cmd-2",
			[]string{"first.cmd-1-2-1", "first.cmd-2", "first.cmd-1"}},
		{"in the first", [3]int{1, 1, 1}, "evidence:cmd-1",
			[]string{"first.cmd-1", "first.cmd-1-2-1", "first.cmd-1-3-1"}},
		{"in none", [3]int{0, 1, 1}, "evidence:none", []string{"first.cmd-1-2-1", "first.cmd-1-3-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			turn := 0
			s, e, _ := emitting(t, func(_ agent.Request, emit func(agent.Event) error) (agent.Result, error) {
				for range tt.commands[turn] {
					if err := emit(ran("ls", "a.txt\n", 0)); err != nil {
						return agent.Result{}, err
					}
				}
				if turn++; turn < 3 {
					return answered(`{"$status":"done","evidence":[{"id":"Bad","kind":"file-anchor","title":"t","path":"a.txt"}]}`)
				}
				return answered(`{"$status":"done","why":"` + tt.cited + `"}`)
			})
			after, err := e.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, ids(evidenceOf(t, s, after.Head))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
