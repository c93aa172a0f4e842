package taskdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// prove commits an entry of the instance plan.
func (w *world) prove(id string, sources ...thread.EvidenceSource) dag.Hash {
	w.t.Helper()
	obj, err := thread.NewNode(dag.TypeEvidence, thread.Evidence{
		ID: id, Kind: thread.FileAnchor, Title: "title of " + id, CreatedAt: w.now, By: "plan", Sources: sources, ArtifactRefs: []dag.Hash{},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ev := event.New(store.Thread{ID: taskID, Task: taskID}, w.now, event.EvidenceAdded{
		ID: "plan." + id, Kind: thread.FileAnchor, Title: "title of " + id, Hash: obj.Hash,
	})
	ev.Instance = "plan"
	w.commit(store.Batch{Objects: []store.Object{obj}, Events: []store.Event{ev}})
	return obj.Hash
}

func source(path string) thread.EvidenceSource { return thread.EvidenceSource{Path: &path} }

// index reads index.json.
func (w *world) index() []Entry {
	w.t.Helper()
	var entries []Entry
	if err := json.Unmarshal([]byte(w.file(evidenceFile)), &entries); err != nil {
		w.t.Fatal(err)
	}
	return entries
}

func TestEvidenceIsAppendedAndRedrawn(t *testing.T) {
	w := newWorld(t)
	b := w.board()
	w.draw(b)
	if got := w.file(evidenceFile); got != "[]\n" {
		t.Errorf("without evidence: %q", got)
	}
	first := w.prove("zzz", source("a.txt"))
	w.draw(b)
	before := w.file(evidenceFile)
	for i := range 3 {
		w.prove(fmt.Sprint("e", i))
		w.draw(b)
	}
	after := w.file(evidenceFile)
	if !strings.HasPrefix(after, strings.TrimSuffix(before, "\n]\n")) {
		t.Errorf("what was there changed:\n%s\n%s", before, after)
	}
	got := w.index()
	want, err := b.Evidence(t.Context(), taskID)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(got) != 4 {
		t.Errorf("%v, the index is not the list: -list +index\n%s", err, diff)
	}
	if e := got[0]; e.ID != "plan.zzz" || e.By != "plan" || e.Node != first || e.Thread != taskID || *e.Sources[0].Path != "a.txt" || e.CreatedAt != w.now {
		t.Errorf("the first entry is %+v", e)
	}
	// What others write into it is overwritten, and a new board yields the same file.
	if err := os.WriteFile(w.path(evidenceFile), []byte("[{}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.draw(w.board())
	if got := w.file(evidenceFile); got != after {
		t.Errorf("drawn anew:\n%s\nwant\n%s", got, after)
	}
	// The journal's copy is compared from the beginning: no event is counted twice.
	if err := os.WriteFile(w.path(eventsFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.prove("e3")
	w.draw(b)
	if n := len(w.index()); n != 5 {
		t.Errorf("%d entries, want 5", n)
	}
}

func TestEvidenceThatIsLost(t *testing.T) {
	w := newWorld(t)
	w.store.Lose(w.prove("a"))
	w.prove("b")
	b := w.board()
	entries, err := b.Evidence(t.Context(), taskID)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if e := entries[0]; e.Broken == "" || e.ID != "plan.a" || e.Title != "title of a" || e.Sources == nil {
		t.Errorf("the lost one is %+v", e)
	}
	if entries[1].Broken != "" {
		t.Errorf("the other one is broken too: %s", entries[1].Broken)
	}
	w.draw(b)
}

func TestManyEntries(t *testing.T) {
	w := newWorld(t)
	b := w.board()
	w.draw(b)
	for i := range 10_000 {
		w.prove(fmt.Sprint("e", i))
	}
	w.draw(b)
	if got := w.index(); len(got) != 10_000 || got[9_999].ID != "plan.e9999" {
		t.Errorf("%d entries, the last is %s", len(got), got[len(got)-1].ID)
	}
}

func TestResolve(t *testing.T) {
	entries := []Entry{{ID: "a.cmd-1", By: "a"}, {ID: "b.cmd-1", By: "b"}, {ID: "b.x", By: "b"}}
	for _, tt := range []struct{ id, instance, want string }{
		{"a.cmd-1", "b", "a.cmd-1"}, {"cmd-1", "b", "b.cmd-1"}, {"cmd-1", "", ""}, {"cmd-1", "c", ""},
		{"x", "", "b.x"}, {"x", "a", "b.x"}, {"y", "a", ""}, {"a.x", "a", ""}, {"", "a", ""}, {".x", "b", ""},
	} {
		got, ok := Resolve(tt.id, tt.instance, entries)
		if got.ID != tt.want || ok != (tt.want != "") {
			t.Errorf("Resolve(%q, %q) = %q, %v; want %q", tt.id, tt.instance, got.ID, ok, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	tree, kept := "tree", "b\nc\n"
	text := "a\n" + kept + "d\n"
	two, three, minus := 2, 3, -1
	anchor := thread.EvidenceSource{Path: new(string), StartLine: &two, EndLine: &three, Hash: dag.Sum([]byte(text)), Blob: dag.Sum([]byte(kept))}
	*anchor.Path = "sub/f.txt"
	w.commit(store.Batch{Objects: []store.Object{{Hash: anchor.Blob, Data: []byte(kept)}}})
	whole, unknown := anchor, anchor
	whole.StartLine, whole.EndLine = nil, nil
	unknown.Hash = dag.Hash{}
	e := Entry{Sources: []thread.EvidenceSource{anchor, whole, unknown, {Command: []string{"ls"}, ExitCode: &two, Tree: &tree}, {Command: []string{"ls"}, ExitCode: &two}, {Command: []string{"rm"}, Tree: &tree}, {Command: []string{"rm"}, ExitCode: &minus, Hash: anchor.Hash}}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	file := filepath.Join(dir, "sub", "f.txt")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	is := func(states ...string) (out []Freshness) {
		for _, s := range states {
			out = append(out, Freshness{State: s})
		}
		return append(out, Freshness{State: Unknown}, Freshness{State: Fresh}, Freshness{State: Unknown}, Freshness{State: Unfinished}, Freshness{State: Unfinished})
	}
	moved := func(from, to int) []Freshness {
		out := is(Moved, Stale)
		out[0].StartLine, out[0].EndLine = from, to
		return out
	}
	for _, tt := range []struct {
		name, text string
		want       []Freshness
	}{
		{"as it was", text, is(Fresh, Fresh)},
		{"moved down", "new\n" + text, moved(3, 4)},
		{"moved up, at the end", "b\nc", moved(1, 2)},
		{"where it was", "x\nb\nc\n", moved(2, 3)},
		{"several times: the nearest", "b\nc\nx\nb\nc\nb\nc\n", moved(1, 2)},
		{"several times: the later is nearest", "b\nc" + strings.Repeat("\nx", 3) + "\nb\nc\n", moved(1, 2)},
		{"only as parts of lines", "ab\nc\nb\ncd\n", is(Stale, Stale)},
		{"empty", "", is(Stale, Stale)},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Check(t.Context(), w.store, e, root)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v -want +got\n%s", tt.name, err, diff)
		}
	}
	if err := os.Truncate(file, thread.MaxAnchored+1); err != nil {
		t.Fatal(err)
	}
	if got, err := Check(t.Context(), w.store, e, root); err != nil || got[0].State != Stale {
		t.Errorf("too large: %+v, %v", got, err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte(text), 0o644), os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	if got, err := Check(t.Context(), w.store, e, root); err != nil || cmp.Diff(is(Gone, Gone), got) != "" {
		t.Errorf("gone: %+v, %v", got, err)
	}
	if err := os.Symlink(secret, file); err != nil {
		t.Fatal(err)
	}
	if got, err := Check(t.Context(), w.store, e, root); err != nil || got[0].State != Unknown {
		t.Errorf("a link that leads out: %+v, %v", got, err)
	}
	if got, err := Check(t.Context(), w.store, e, nil); err != nil || got[0].State != Unknown {
		t.Errorf("without a tree: %+v, %v", got, err)
	}
}

// TestCheckOfToolCalls: the lines of a transcript are compared with their hash, wherever it can be read.
func TestCheckOfToolCalls(t *testing.T) {
	w := newWorld(t)
	said := []byte("one\ntwo\nthree\n")
	w.commit(store.Batch{Objects: []store.Object{{Hash: dag.Sum(said), Data: said}}})
	two, three, four := 2, 3, 4
	call := func(to *int, hash dag.Hash) thread.EvidenceSource {
		return thread.EvidenceSource{EventsRef: dag.Sum(said), StartLine: &two, EndLine: to, Hash: hash}
	}
	right := dag.Sum([]byte("two\nthree\n"))
	lost := call(&three, right)
	lost.EventsRef = dag.Sum([]byte("never kept"))
	e := Entry{Sources: []thread.EvidenceSource{
		call(&three, right), call(&four, right), call(&two, right), call(nil, right), call(&three, dag.Hash{}), lost,
	}}
	got, err := Check(t.Context(), w.store, e, nil)
	want := []Freshness{{State: Fresh}, {State: Fresh}, {State: Wrong}, {State: Wrong}, {State: Unfinished}, {State: Gone}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	if got, err := Check(t.Context(), nil, e, nil); err != nil || got[0].State != Unknown {
		t.Errorf("without a record: %+v, %v", got, err)
	}
}

func TestCitationsOfTheDirectory(t *testing.T) {
	w := newWorld(t)
	if got, err := w.dir.Citations(); err != nil || len(got) != 0 {
		t.Errorf("without a directory: %v, %v", got, err)
	}
	w.step(w.attempt(1), `{"$status":"done","summary":"evidence:cmd-1"}`, "evidence:other.x")
	w.draw(w.board())
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(w.path("shared/reports/r.md"), []byte("evidence:a.b, evidence:a.b"), 0o644),
		os.WriteFile(secret, []byte("evidence:secret"), 0o644), os.Symlink(secret, w.path("shared/decisions/d.md"))); err != nil {
		t.Fatal(err)
	}
	got, err := w.dir.Citations()
	final := "agents/plan/artifacts/final.json"
	want := []Citation{{"shared/reports/r.md", "", "a.b"}, {final, "plan", "cmd-1"}, {final, "plan", "other.x"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}
