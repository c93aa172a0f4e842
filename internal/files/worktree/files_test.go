package worktree_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// changes commits a step of row that wrote files, and what it changed. It returns the step's tree node, zero for none.
func (h *site) changes(row store.Thread, f files, whole bool) (store.Thread, dag.Hash) {
	h.Helper()
	from, err := h.trees.Hold(h.Context(), row, "before")
	h.must(err)
	h.write(worktree.Of(row), f)
	to, err := h.trees.Hold(h.Context(), row, "after")
	h.must(err)
	c := worktree.Change{Name: "kept", From: from, To: to, Whole: whole}
	node, objects, err := h.trees.Keep(h.Context(), row, c, row.Head,
		func(r io.Reader) (dag.Hash, error) {
			blob, _, err := h.store.Stage(h.Context(), row.ID, r)
			return blob, err
		})
	h.must(err)
	if node.IsZero() != (len(objects) == 0) {
		h.Errorf("node %s, %d objects", node, len(objects))
	}
	h.must(h.store.Commit(h.Context(), store.Batch{Objects: objects}))
	return h.step(row, &thread.Detail{Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{}, Files: node,
		TreeBefore: &from, TreeAfter: &to}), node
}

// kept returns a tree node, and the size of its bundle.
func (h *site) kept(node dag.Hash) (*thread.Files, int64) {
	h.Helper()
	f, err := h.nodes.Files(h.Context(), node)
	h.must(err)
	r, entry, err := h.nodes.Objects().Open(h.Context(), f.Bundle)
	h.must(err)
	r.Close()
	return f, entry.Size
}

// TestKeep checks what steps keep of files by default, and that a task that is to keep everything later does.
func TestKeep(t *testing.T) {
	big := ""
	for i := range 5000 {
		big += fmt.Sprintln(i * i)
	}
	h := newSite(t, true, files{"a": "1\n", "big": big})
	row, node := h.changes(h.root, files{"a": "1\n"}, false)
	if !node.IsZero() {
		t.Errorf("a step that changed nothing has the node %s", node)
	}
	row, first := h.changes(row, files{"a": "2\n"}, false)
	if f, size := h.kept(first); !f.Base.IsZero() || size > 1000 {
		t.Errorf("the first step has the base %s, and %d bytes", f.Base, size)
	}
	h.write(h.dir, files{"own": "of a person\n"})
	row, node = h.changes(row, nil, false)
	if f, _ := h.kept(node); f.Base != first {
		t.Errorf("a step after a person's change has the base %s, want %s", f.Base, first)
	}
	restarts := 0
	for i := range 55 {
		row, node = h.changes(row, files{"a": fmt.Sprintln("step", i)}, false)
		f, size := h.kept(node)
		if f.Base.IsZero() {
			restarts++
		}
		if size > 1500 {
			t.Errorf("step %d has %d bytes", i, size)
		}
	}
	if restarts != 1 {
		t.Errorf("%d of 55 steps have no base, want 1", restarts)
	}
	row, node = h.changes(row, files{"a": "3\n"}, true)
	if f, size := h.kept(node); !f.Base.IsZero() || size < 10_000 {
		t.Errorf("the first step that keeps everything has the base %s, and %d bytes", f.Base, size)
	}
	whole := node
	_, node = h.changes(row, files{"a": "4\n"}, true)
	if f, size := h.kept(node); f.Base != whole || size > 1000 {
		t.Errorf("the next one has the base %s, want %s, and %d bytes", f.Base, whole, size)
	}
}
