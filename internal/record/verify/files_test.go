package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/mem"
)

// Files that were edited, with correct hashes, are named.
func TestEditedFiles(t *testing.T) {
	w := newWorld(t, mem.New(mem.Config{}))
	bundle := store.Object{Hash: dag.Sum([]byte("bundle")), Data: []byte("bundle")}
	w.commit(store.Batch{Objects: []store.Object{bundle}})
	whole := w.put(dag.TypeTree, thread.Files{Tree: "t1", Commit: "c1", Bundle: bundle.Hash})
	tree := "t2"
	for _, test := range []struct {
		name string
		edit func(f *thread.Files, d *thread.Detail)
		want string
	}{
		{"nothing", func(*thread.Files, *thread.Detail) {}, ""},
		{"another tree", func(f *thread.Files, _ *thread.Detail) { f.Tree = "t3" },
			`are of git tree "t3", the step left "t2"`},
		{"no tree", func(_ *thread.Files, d *thread.Detail) { d.TreeAfter = nil }, `the step left ""`},
		{"base", func(f *thread.Files, _ *thread.Detail) { f.Base = w.content("x") }, "its base"},
		{"bundle", func(f *thread.Files, _ *thread.Detail) { f.Bundle = whole }, "its bundle"},
	} {
		files := thread.Files{Tree: tree, Commit: "c2", Bundle: bundle.Hash, Base: whole}
		detail := thread.NewDetail(1, 2)
		detail.TreeAfter = &tree
		test.edit(&files, detail)
		detail.Files = w.put(dag.TypeTree, files)
		checkDetail(t, w, test.name, detail, test.want)
	}
}

// A task that begins with something other than a tree is named.
func TestEditedBeginning(t *testing.T) {
	w := newWorld(t, mem.New(mem.Config{}))
	blob := store.Object{Hash: dag.Sum([]byte("bundle")), Data: []byte("bundle")}
	w.commit(store.Batch{Objects: []store.Object{blob}})
	row := w.begin("01JD0000000000000000000000", "x")
	for _, test := range []struct {
		files dag.Hash
		want  string
	}{
		{w.put(dag.TypeTree, thread.Files{Tree: "t1", Commit: "c1", Bundle: blob.Hash}), ""},
		{w.content("text"), "its files"},
	} {
		was := row
		row.Files = test.files
		w.change(was, row)
		r, err := verify.All(ctx, verify.Config{Store: w.s})
		w.must(err)
		if got := fmt.Sprint(r.Problems); (test.want == "") != r.OK() || !strings.Contains(got, test.want) {
			t.Errorf("%s, want %q", got, test.want)
		}
	}
}

// What is kept of a session is named if it was edited, even with correct hashes.
func TestEditedSession(t *testing.T) {
	w := newWorld(t, mem.New(mem.Config{}))
	blob := store.Object{Hash: dag.Sum([]byte("bytes")), Data: []byte("bytes")}
	w.commit(store.Batch{Objects: []store.Object{blob}})
	first := w.put(dag.TypeSession, thread.Session{Agent: "codex", ID: "s1", Bytes: blob.Hash})
	for _, test := range []struct {
		name string
		edit func(s *thread.Session)
		want string
	}{
		{"nothing", func(*thread.Session) {}, ""},
		{"another one", func(s *thread.Session) { s.ID, s.Prev = "s2", dag.Hash{} }, `are of session "s2"`},
		{"before", func(s *thread.Session) { s.Prev = w.content("x") }, "its prev"},
		{"bytes", func(s *thread.Session) { s.Bytes = first }, "its bytes"},
	} {
		node := thread.Session{Agent: "codex", ID: "s1", Bytes: blob.Hash, Prev: first}
		test.edit(&node)
		detail := thread.NewDetail(1, 2)
		detail.Session, detail.SessionFiles = "s1", w.put(dag.TypeSession, node)
		checkDetail(t, w, test.name, detail, test.want)
	}
}

// checkDetail verifies a detail: want is part of the only problem, "" for none.
func checkDetail(t *testing.T, w *world, name string, detail *thread.Detail, want string) {
	t.Helper()
	node, err := thread.NewNode(dag.TypeDetail, detail)
	w.must(err)
	w.commit(store.Batch{Objects: []store.Object{node}})
	r, err := verify.Object(ctx, verify.Config{Store: w.s}, node.Hash)
	w.must(err)
	switch {
	case want == "" && !r.OK():
		t.Errorf("%s: %+v", name, r.Problems)
	case want != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, want)):
		t.Errorf("%s: %+v, want %q", name, r.Problems, want)
	}
}
