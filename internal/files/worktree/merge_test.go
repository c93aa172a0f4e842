package worktree_test

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestMerge merges what two paths wrote into the task's tree.
func TestMerge(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n"
	for _, tt := range []struct {
		name      string
		a, b      files
		taken     []string
		conflicts map[string][]string
		overlaps  map[string][]string
		want      files
	}{
		{"different files", files{"f": "of a", "new": "of a"}, files{"g": "of b"}, []string{"a", "b"},
			map[string][]string{}, map[string][]string{}, files{"f": "of a", "new": "of a", "g": "of b"}},
		{"different lines of one file", files{"f": "a\n2\n3\n4\n5\n"}, files{"f": "1\n2\n3\n4\nb\n"}, []string{"a", "b"},
			map[string][]string{}, map[string][]string{"f": {"a", "b"}}, files{"f": "a\n2\n3\n4\nb\n", "g": text}},
		{"the same line", files{"f": "a\n2\n3\n4\n5\n"}, files{"f": "b\n2\n3\n4\n5\n", "g": "of b"}, []string{"a"},
			map[string][]string{"b": {"f"}}, map[string][]string{}, files{"f": "a\n2\n3\n4\n5\n", "g": text}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newSite(t, true, files{"f": text, "g": text})
			sides, err := h.trees.Sides(t.Context(), []store.Thread{h.done("a", tt.a), h.done("b", tt.b)})
			if err != nil || len(sides) != 2 {
				t.Fatalf("sides: %+v, %v", sides, err)
			}
			into, err := h.trees.Hold(t.Context(), h.root, "before")
			h.must(err)
			m, err := h.trees.Try(t.Context(), h.root, into, sides)
			h.must(err)
			if !slices.Equal(m.Taken, tt.taken) {
				t.Errorf("taken %v, want %v", m.Taken, tt.taken)
			}
			if diff := cmp.Diff(tt.conflicts, m.Conflicts); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.overlaps, m.Overlaps); diff != "" && len(tt.conflicts) == 0 {
				t.Errorf("overlaps (-want +got):\n%s", diff)
			}
			h.wantFiles(h.dir, files{"f": text, "g": text, "new": ""}) // trying touches nothing
			merge := &thread.Merge{From: into, To: m.Tree}
			for range 2 { // applying may be repeated
				h.must(h.trees.Apply(t.Context(), h.root, merge))
				h.wantFiles(h.dir, tt.want)
			}
		})
	}
}

func TestApplyRefusesFilesThatChangedMeanwhile(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	sides, err := h.trees.Sides(t.Context(), []store.Thread{h.done("a", files{"f": "of a"})})
	h.must(err)
	into, err := h.trees.Hold(t.Context(), h.root, "before")
	h.must(err)
	m, err := h.trees.Try(t.Context(), h.root, into, sides)
	h.must(err)
	h.write(h.dir, files{"f": "of the person"})
	err = h.trees.Apply(t.Context(), h.root, &thread.Merge{From: into, To: m.Tree})
	if !errors.Is(err, worktree.ErrChanged) {
		t.Errorf("got %v", err)
	}
	h.wantFiles(h.dir, files{"f": "of the person"})
}

func TestApplyMissesWhatGitHasRemoved(t *testing.T) {
	h := newSite(t, true, files{"f": "1\n2\n3\n", "g": "1"})
	sides, err := h.trees.Sides(t.Context(), []store.Thread{h.done("a", files{"f": "of a"}),
		h.done("b", files{"g": "of b"})})
	h.must(err)
	into, err := h.trees.Hold(t.Context(), h.root, "before")
	h.must(err)
	m, err := h.trees.Try(t.Context(), h.root, into, sides)
	h.must(err)
	h.git("prune", "--expire=now")
	if err := h.trees.Apply(t.Context(), h.root, &thread.Merge{From: into, To: m.Tree}); !errors.Is(err,
		worktree.ErrAway) {
		t.Errorf("got %v", err)
	}
}

func TestSidesAreThePathsThatChangedFiles(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	wrote := h.done("wrote", files{"f": "2", "AGENTS.md": "obey"})
	same := h.done("same", files{"f": "1"})
	failed := h.work(h.ready("failed"), files{"f": "3"})
	elsewhere := h.path("elsewhere")
	elsewhere.Tree, elsewhere.Status = h.dir, store.Completed
	sides, err := h.trees.Sides(t.Context(), []store.Thread{wrote, same, failed, elsewhere})
	if err != nil || len(sides) != 1 {
		t.Fatalf("got %+v, %v", sides, err)
	}
	s := sides[0]
	if s.Path != "wrote" || s.Branch != "plait/TASK/wrote" || !slices.Equal(s.Protected, []string{"AGENTS.md"}) {
		t.Errorf("got path %s, branch %s, protected %q", s.Path, s.Branch, s.Protected)
	}
	if got := h.git("show", s.Branch+":f"); got != "2" {
		t.Errorf("the branch has %q", got)
	}
	if got := h.git("rev-parse", s.Branch+"^{tree}"); got != s.Tree {
		t.Errorf("the branch has the tree %s, the side %s", got, s.Tree)
	}
	diff, err := h.trees.Diff(t.Context(), h.root, s.Base, s.Tree)
	if err != nil || !containsAll(diff, "-1", "+2", "+obey") {
		t.Errorf("diff: %v\n%s", err, diff)
	}
	if sides, err := h.trees.Sides(t.Context(), []store.Thread{elsewhere}); err != nil || sides != nil {
		t.Errorf("of paths without trees: %+v, %v", sides, err)
	}
}

// TestASideBeginsWhereTheRecordSays checks that a recorded tree counts, not a ref: agents can move refs.
func TestASideBeginsWhereTheRecordSays(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	a := h.done("a", files{"f": "2"})
	h.git("update-ref", "refs/plait/"+a.ID+"/"+worktree.Before(1), "refs/plait/"+a.ID+"/after")
	sides, err := h.trees.Sides(t.Context(), []store.Thread{a})
	if err != nil || len(sides) != 1 {
		t.Fatalf("got %+v, %v", sides, err)
	}
	if got := h.git("show", sides[0].Base+":f"); got != "1" {
		t.Errorf("it begins with %q", got)
	}
}

func TestTidyTakesAwayWhatIsMerged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *site, a store.Thread) store.Thread
		merge  *thread.Merge
		stays  bool
	}{
		{"merged", nil, &thread.Merge{Sides: []thread.MergedSide{{Path: "a", Merged: true}}}, false},
		{"no merge at all", nil, nil, false},
		{"not merged", nil, &thread.Merge{Sides: []thread.MergedSide{{Path: "a"}}}, true},
		{"changed since its last step", func(h *site, a store.Thread) store.Thread {
			h.write(a.Tree, files{"f": "by hand"})
			return a
		}, nil, true},
		{"failed", func(h *site, a store.Thread) store.Thread { a.Status = store.Failed; return a }, nil, true},
		{"unusable", func(h *site, a store.Thread) store.Thread { h.unregister(); return a }, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newSite(t, true, files{"f": "1"}, "true")
			a := h.done("a", files{"f": "2"})
			if tt.change != nil {
				a = tt.change(h, a)
			}
			h.must(h.trees.Tidy(t.Context(), []store.Thread{a}, tt.merge))
			_, err := os.Lstat(a.Tree)
			if stays := err == nil; stays != tt.stays {
				t.Fatalf("the tree stays: %v, want %v", stays, tt.stays)
			}
			if !tt.stays {
				h.wantGone(a.Tree + ".ready")
				if got := h.git("show", "refs/plait/"+a.ID+"/joined:f"); got != "2" {
					t.Errorf("the snapshot that is kept has %q", got)
				}
			}
			h.must(h.trees.Tidy(t.Context(), []store.Thread{a}, tt.merge)) // it may be repeated
		})
	}
}

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// keep commits a step of row that keeps its current files in the record.
func (h *site) keep(row store.Thread) store.Thread {
	h.Helper()
	tree, err := h.trees.Hold(h.Context(), row, "kept")
	h.must(err)
	c := worktree.Change{Name: "kept", To: tree, Whole: true}
	node, objects, err := h.trees.Keep(h.Context(), row, c, row.Head, func(r io.Reader) (dag.Hash, error) {
		blob, _, err := h.store.Stage(h.Context(), row.ID, r)
		return blob, err
	})
	h.must(err)
	h.must(h.store.Commit(h.Context(), store.Batch{Objects: objects}))
	return h.step(row, &thread.Detail{Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{}, Files: node})
}

// The conversation continues through a path, its files do not: after a join that merged nothing they are those from
// before the fork, although the path's steps are in between.
func TestFilesOfAPathAreNotThoseOfItsThread(t *testing.T) {
	h := newSite(t, true, files{"a": "before\n"})
	h.root = h.keep(h.root)
	before := h.git("write-tree")
	path := h.ready("main")
	h.write(path.Tree, files{"a": "of the path\n"})
	path = h.keep(path)
	tip, err := h.nodes.Tip(t.Context(), path.Head)
	h.must(err)
	ch, err := thread.Join(h.root, tip, path.Steps, thread.JoinDraft{Node: "gathered", Outcome: "joined",
		Paths: []thread.PathEnd{{Row: path}}, Since: h.clock, At: h.now()})
	h.must(err)
	h.must(h.store.Commit(t.Context(), store.Batch{
		Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: h.root.State()}},
	}))
	for name, x := range map[string]struct {
		row  store.Thread
		want string
	}{"path": {path, "of the path\n"}, "thread": {ch.Row, "before\n"}} {
		p, err := h.trees.Pull(t.Context(), h.dir, x.row, x.row.Head)
		h.must(err)
		if got := h.git("show", p.Commit+":a") + "\n"; got != x.want {
			t.Errorf("the file of the %s is %q, want %q", name, got, x.want)
		}
	}
	if p, err := h.trees.Pull(t.Context(), h.dir, ch.Row, ch.Row.Head); err != nil || p.Tree != before {
		t.Errorf("the tree after the join is %s, want %s: %v", p.Tree, before, err)
	}
}
