package attempt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/housetest"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/mem"
	"github.com/plait-run/plait/internal/thread"
)

// An emitter is an agent that tells what it does.
type emitter func(req agent.Request, emit func(agent.Event) error) (agent.Result, error)

// emitting sets a thread up whose roles are done by do, in a working tree with files.
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

// evidenceOf reads the evidence that the newest step has.
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
	big := strings.Repeat("x", maxActivityOutput) + "the end"
	s, e, row := emitting(t, func(req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
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
	first, err := e.Step(t.Context(), row.ID, row.Head)
	if err != nil {
		t.Fatal(err)
	}
	if src := evidenceOf(t, s, first.Head)[0].Sources[0]; src.Tree != nil {
		t.Errorf("a role that only reads has the tree %s, which nobody took", *src.Tree)
	}
	after, err := e.Step(t.Context(), row.ID, first.Head)
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
// of the turn before it stand when it answers again.
func TestACorrectionKeepsWhatWasSeen(t *testing.T) {
	var prompts []string
	s, e, row := emitting(t, func(req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
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
	after, err := e.Step(t.Context(), row.ID, row.Head)
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

func TestGathererIsBounded(t *testing.T) {
	g := &activityRecorder{}
	for i := range 10_000 {
		g.record(ran("c", strings.Repeat("x", 100<<10), i%3))
	}
	if len(g.activities) != maxActivities || g.missed != 9500 || g.bytes > maxActivityBytes+
		maxActivities*maxActivityText {
		t.Errorf("%d deeds, %d missed, %d bytes", len(g.activities), g.missed, g.bytes)
	}
	if last := g.activities[maxActivities-1]; last.output != "" || len(last.notes) == 0 {
		t.Errorf("the last one keeps %d bytes, notes %q", len(last.output), last.notes)
	}
}

// proving is one answer held against the evidence of a task.
func proving(t *testing.T, e *house, row store.Thread, strict bool, output string, seen ...agent.Event) (answer,
	error) {
	t.Helper()
	ans, err := parse(agent.Result{Output: []byte(output)}, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &Prepared{Row: store.Attempt{ID: "x.1", Thread: row.ID, Instance: "first"}, strict: strict,
		watched: watched{activity: &activityRecorder{}}, kept: leftovers{after: "tree-1"}}
	for _, ev := range seen {
		p.activity.record(ev)
	}
	return ans, e.recordEvidence(t.Context(), &Thread{Position: record.Position{Row: row}}, p, housetest.BareDesk{}, agent.Result{},
		&ans)
}

func TestStrictCitations(t *testing.T) {
	s, e, row := emitting(t, nil)
	added := func(instance, id string) {
		t.Helper()
		ev := event.New(row, 1, event.EvidenceAdded{ID: instance + "." + id})
		ev.Instance = instance
		if err := s.Commit(t.Context(), store.Batch{Events: []store.Event{ev}}); err != nil {
			t.Fatal(err)
		}
	}
	added("other", "found")
	added("first", "cmd-3")
	for _, tt := range []struct{ name, output, want string }{
		{"none", `{"$status":"done"}`, ""},
		{"all kinds", `{"$status":"done","a":{"b":["see evidence:other.found, evidence:cmd-3 and ` +
			`evidence:first.cmd-3."]},"evidence":["evidence:cmd-1","other.found",{"id":"mine","kind":"file-anchor",` +
			`"title":"t","path":"a.txt"}],"c":"evidence:mine, evidence:first.mine"}`, ""},
		{"in the text", "---\n$status: done\n---\nevidence:nothing", "evidence:nothing is cited"},
		{"local of another", `{"$status":"done","x":"evidence:found"}`,
			"evidence:found is cited, but there is no such entry; there is cmd-1, cmd-3, other.found"},
		{"of nobody", `{"$status":"done","evidence":["nobody.cmd-1"]}`, "nobody.cmd-1"},
		{"a key cites nothing", "---\n$status: done\n\"evidence:x\": 1\n---\n", ""},
		{"not a list", `{"$status":"done","evidence":{"id":"x"}}`, "must be a list"},
		{"an unknown kind", `{"$status":"done","evidence":[{"id":"x","kind":"opinion"}]}`, "evidence[0]: want the id"},
		{"used before", `{"$status":"done","evidence":[{"id":"cmd-3","kind":"file-anchor","title":"t",` +
			`"path":"a.txt"}]}`, "of the kind that is given"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := proving(t, e, row, true, tt.output, ran("ls", "x", 0))
			mustRefuse(t, err, tt.want)
			if _, err := proving(t, e, row, false, tt.output, ran("ls", "x", 0)); err != nil &&
				tt.name != "used before" {
				t.Errorf("refused though nobody is strict: %v", err)
			}
		})
	}
	// Another process adds to it meanwhile.
	_, err := proving(t, e, row, true, `{"$status":"done","x":"evidence:late.cmd-1"}`)
	mustRefuse(t, err, "late.cmd-1")
	added("late", "cmd-1")
	added("first", "mine")
	_, err = proving(t, e, row, true, `{"$status":"done","x":"evidence:late.cmd-1"}`)
	mustRefuse(t, err, "")
	_, err = proving(t, e, row, false, `{"$status":"done","evidence":[{"id":"mine","kind":"file-anchor","title":"t",`+
		`"path":"a.txt"}]}`)
	mustRefuse(t, err, "mine: you have used this id before")
}

func mustRefuse(t *testing.T, err error, want string) {
	t.Helper()
	var fail *agent.Failure
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want == "":
	case !errors.As(err, &fail) || fail.Kind != agent.InvalidOutput || !strings.Contains(fail.Message, want):
		t.Errorf("got %v, want a failure about %q", err, want)
	}
}

func TestHandedInIsHeldAgainstFiles(t *testing.T) {
	_, e, row := emitting(t, nil)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(outside, []byte("secret\n"), 0o644),
		os.Symlink(outside, filepath.Join(row.Tree, "out")),
		os.Symlink("a.txt", filepath.Join(row.Tree, "in")),
		os.Symlink(filepath.Dir(outside), filepath.Join(row.Tree, "outdir")),
		os.Mkdir(filepath.Join(row.Tree, "dir"), 0o755), syscall.Mkfifo(filepath.Join(row.Tree, "pipe"),
			0o644)); err != nil {
		t.Fatal(err)
	}
	write(t, row, "huge", "")
	if err := os.Truncate(filepath.Join(row.Tree, "huge"), 100<<20); err != nil {
		t.Fatal(err)
	}
	entry := func(fields string) string {
		return `{"$status":"done","evidence":[{"id":"x","kind":"file-anchor","title":"t",` + fields + `}]}`
	}
	for _, tt := range []struct{ name, output, want string }{
		{"a line", entry(`"path":"a.txt","startLine":3`), ""},
		{"lines", entry(`"path":"./dir/../a.txt","startLine":1,"endLine":3`), ""},
		{"absolute, inside", entry(fmt.Sprintf(`"path":%q`, filepath.Join(row.Tree, "a.txt"))), ""},
		{"through a link that stays", entry(`"path":"in","startLine":1`), ""},
		{"up and out", entry(`"path":"../secret"`), "does not lie in the working tree"},
		{"absolute, outside", entry(fmt.Sprintf(`"path":%q`, outside)), "does not lie in the working tree"},
		{"a link out", entry(`"path":"out"`), "out: path escapes"},
		{"a directory link out", entry(`"path":"outdir/secret"`), "path escapes"},
		{"a directory", entry(`"path":"dir"`), "not a regular file"},
		{"a pipe", entry(`"path":"pipe"`), "not a regular file"},
		{"nothing there", entry(`"path":"nothing"`), "no such file"},
		{"a NUL", entry(`"path":"a.txt\u0000"`), "does not lie"},
		{"huge", entry(`"path":"huge","startLine":1`), "at most 64 MiB"},
		{"no such line", entry(`"path":"a.txt","startLine":3,"endLine":4`), "has 3 lines, so there is no line 4"},
		{"line 0", entry(`"path":"a.txt","startLine":0`), "lines count from 1"},
		{"backwards", entry(`"path":"a.txt","startLine":3,"endLine":2`), "lines count from 1"},
		{"an end alone", entry(`"path":"a.txt","endLine":2`), "no startLine"},
		{"half a line", entry(`"path":"a.txt","startLine":1.5`), "evidence[0]"},
		{"no path", entry(`"summary":"s"`), "has no path"},
		{"an id with a slash", `{"$status":"done","evidence":[{"id":"a/b","kind":"file-anchor","title":"t",` +
			`"path":"a.txt"}]}`, `"a/b" must be`},
		{"an empty title", `{"$status":"done","evidence":[{"id":"a","kind":"file-anchor","title":" \u001b ",` +
			`"path":"a.txt"}]}`, "has no title"},
		{"twice", `{"$status":"done","evidence":[{"id":"a","kind":"file-anchor","title":"t","path":"a.txt"},` +
			`{"id":"a","kind":"file-anchor","title":"t","path":"a.txt"}]}`, "stands twice"},
		{"no such command", `{"$status":"done","evidence":[{"id":"a","kind":"command-execution","title":"t",` +
			`"command":"rm"}]}`, `no command "rm"`},
		{"no command", `{"$status":"done","evidence":[{"id":"a","kind":"command-execution","title":"t"}]}`,
			"must name in command"},
		{"a command by its line, and a file", `{"$status":"done","evidence":[{"id":"a","kind":"command-execution",` +
			`"title":"t","command":"ls -l","path":"a.txt"}]}`, ""},
		{"too many", `{"$status":"done","evidence":[` +
			strings.TrimSuffix(strings.Repeat(`{"id":"a","kind":"file-anchor","title":"t","path":"a.txt"},`, 10_000),
				",") + `]}`, "stands twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ans, err := proving(t, e, row, false, tt.output, ran("ls -l", "", 0))
			mustRefuse(t, err, tt.want)
			if want := 2; tt.want == "" && len(ans.proved) != want {
				t.Errorf("%d entries, want %d", len(ans.proved), want)
			}
			for _, o := range ans.objects {
				if strings.Contains(string(o.Data), "secret") {
					t.Errorf("bytes from outside are kept: %q", o.Data)
				}
			}
		})
	}
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`{"id":"e%d","kind":"file-anchor","title":"t","path":"a.txt"}`, i))
	}
	_, err := proving(t, e, row, false, `{"$status":"done","evidence":[`+strings.Join(many, ",")+`]}`)
	mustRefuse(t, err, "more than 200 entries")
	ans, err := proving(t, e, row, false, `{"$status":"done","evidence":[{"id":"a","kind":"file-anchor",`+
		`"title":"\u001b[2J\u0007title\nmore","path":"a.txt"}]}`)
	if err != nil || ans.proved[0].Title != "[2J title …" {
		t.Errorf("title %q, %v", ans.proved[0].Title, err)
	}
}

// FuzzHandedIn: whatever stands there, what is taken can be named and has a place.
func FuzzHandedIn(f *testing.F) {
	for _, s := range []string{`[]`, `["evidence:a"]`, `[{"id":"a","kind":"file-anchor","title":"t","path":"p",` +
		`"startLine":1}]`, `[{"kind":"command-execution"}]`, `{}`, `[[]]`, `[{"kind":["file-anchor"]}]`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, list []byte, strict bool) {
		meta, err := json.Marshal(map[string]json.RawMessage{"evidence": list})
		if err != nil {
			return
		}
		entries, cited, problems := readSubmitted(meta, strict)
		for _, h := range entries {
			if !thread.LocalID(h.ID) || oneLine(h.Title) == "" || h.Path == "" && h.Command == "" ||
				h.StartLine != nil && *h.StartLine < 1 {
				t.Errorf("%s gives %+v", list, h)
			}
		}
		if !strict && len(cited) > 0 || len(entries) > maxSubmitted {
			t.Errorf("%s gives %d entries, %d citations, %q", list, len(entries), len(cited), problems)
		}
	})
}
