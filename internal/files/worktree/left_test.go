package worktree_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestLeftovers names what keeps the worktrees of completed paths. Tidy removes the others.
func TestLeftovers(t *testing.T) {
	h := newSite(t, true, files{"a": "1", ".gitignore": "dist/\nobj/\nnode_modules/\n"})
	h.trees = worktree.New(worktree.Config{Store: h.store, Reader: h.nodes, Discard: []string{"node_modules"},
		Setup: []string{"sh", "-c", "mkdir dist; echo made > dist/x"}})
	clean := h.done("clean", files{"a": "2", "dist/x": "changed", "node_modules/x": "1"})
	holds := h.done("holds", files{"new": "1", "obj/x": "1", "node_modules/x": "1"})
	many := map[string]string{}
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		many["in/"+string(c)+"/obj/x"] = "1"
	}
	full := h.done("full", many)
	spoilt := h.done("spoilt", nil)
	h.must(os.RemoveAll(spoilt.Tree))
	h.must(os.Symlink("/", spoilt.Tree))
	paths := []store.Thread{clean, holds, full, spoilt}

	kept, caches, err := h.trees.Leftovers(t.Context(), paths)
	h.must(err)
	want := []thread.KeptTree{
		{Path: "holds", Left: []thread.Left{{Path: "obj/", Why: thread.WhyIgnored}}},
		{Path: "full", Left: kept[1].Left, More: 6},
		{Path: "spoilt", Left: []thread.Left{{Path: "./", Why: thread.WhyUnreadable}}},
	}
	if diff := cmp.Diff(want, kept); diff != "" || len(kept[1].Left) != 20 {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"clean": 2}, caches); diff != "" {
		t.Errorf("caches (-want +got):\n%s", diff)
	}
	h.must(h.trees.Tidy(t.Context(), paths, nil))
	h.wantGone(clean.Tree)
	h.wantFiles(holds.Tree, files{"obj/x": "1", "new": "1"})
	list, err := h.trees.Existing(t.Context(), append(paths, h.ready("running")))
	h.must(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Path+" "+e.Holds())
	}
	wantNames := []string{"holds obj/ (ignored by Git)", "full " + kept[1].Holds(), "spoilt ./ (cannot be read)",
		"running "}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("existing (-want +got):\n%s", diff)
	}
	for _, row := range paths {
		h.must(h.trees.Drop(t.Context(), row))
		h.wantGone(row.Tree)
		h.wantGone(row.Tree + ".ready")
	}
	// of running
	if left, err := filepath.Glob(filepath.Join(h.dir, ".git", "worktrees", "*")); err != nil || len(left) != 1 {
		t.Errorf("registered: %v, %v", left, err)
	}
}

// TestNoLeftovers has nothing to say where there are no worktrees.
func TestNoLeftovers(t *testing.T) {
	h := newSite(t, false, files{"a": "1", "dist/x": "1"})
	row := h.path("a")
	row.Status = store.Completed
	kept, caches, err := h.trees.Leftovers(t.Context(), []store.Thread{h.root, row})
	if len(kept)+len(caches) > 0 || err != nil {
		t.Errorf("kept %v, caches %v, %v", kept, caches, err)
	}
}
