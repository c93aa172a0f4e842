package worktree_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

func TestInsideRefusesLinksThatLeadOut(t *testing.T) {
	tree, outside := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, "docs", "api"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"out": outside, "up": "..", "in": "docs", "docs/back": "../docs/api", "gone": filepath.Join(outside, "nothing"),
	} {
		if err := os.Symlink(to, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		location string
		ok       bool
	}{
		{"", true}, {"docs", true}, {"docs/api", true}, {"in/api", true}, {"docs/back", true}, {"not/there", true},
		{"out", false}, {"up", false}, {"..", false}, {"docs/../..", false}, {"in/../../..", false},
	} {
		dir, err := worktree.Inside(tree, tt.location)
		if ok := err == nil; ok != tt.ok || ok && dir != filepath.Join(tree, tt.location) {
			t.Errorf("%q: %s, %v", tt.location, dir, err)
		}
	}
	if dir, err := worktree.Inside(filepath.Join(tree, "out"), ""); err != nil || dir != filepath.Join(tree, "out") {
		t.Errorf("the tree itself may be a link: %s, %v", dir, err)
	}
}

func TestAPathThatWritesIsPlacedInAWorktreeOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name     string
		underGit bool
		sub      string                                 // subdirectory where the parent works; "": no tree
		made     bool                                   // the parent works in a worktree made for it
		want     func(h *site, row store.Thread) string // the path's tree
	}{
		{"under git", true, "", false,
			func(h *site, row store.Thread) string { return h.dir + "/.plait/worktrees/" + row.ID }},
		{"in a directory of the repository", true, "sub", false,
			func(h *site, row store.Thread) string { return h.dir + "/.plait/worktrees/" + row.ID + "/sub" }},
		{"below a parent with its own worktree", true, "sub", true,
			func(h *site, row store.Thread) string { return h.dir + "/.plait/worktrees/" + row.ID + "/sub" }},
		{"without git, where the parent works", false, "sub", false,
			func(h *site, _ store.Thread) string { return h.dir + "/sub" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newSite(t, tt.underGit, files{"sub/f": "1"})
			parent := h.root
			if tt.sub != "" {
				parent.Tree = filepath.Join(h.dir, tt.sub)
			}
			if tt.made {
				parent.Tree = filepath.Join(h.dir, ".plait", "worktrees", parent.ID, tt.sub)
			}
			row := store.Thread{ID: "PATH", Workspace: h.dir}
			var err error
			row.Tree, err = h.trees.Place(t.Context(), parent, row)
			if want := tt.want(h, row); err != nil || row.Tree != want {
				t.Fatalf("got %s, %v, want %s", row.Tree, err, want)
			}
			if worktree.Own(row) != tt.underGit {
				t.Errorf("Own of %s is %v", row.Tree, worktree.Own(row))
			}
			if _, err := os.Lstat(row.Tree); tt.underGit && !os.IsNotExist(err) {
				t.Errorf("placing made the tree: %v", err)
			}
		})
	}
}

func TestAForkByHandIsPlacedApartWhenItsFilesAreKnown(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	unknown := h.fork(h.root, "FORK1")
	if dir, err := h.trees.PlaceFork(t.Context(), h.root, unknown); err != nil || dir != h.root.Tree {
		t.Errorf("of a step that does not say how its files were: %q, %v", dir, err)
	}
	a := h.work(h.ready("a"), files{"f": "2"})
	next := h.fork(a, "FORK2")
	dir, err := h.trees.PlaceFork(t.Context(), a, next)
	if want := filepath.Join(h.dir, ".plait", "worktrees", "FORK2"); err != nil || dir != want {
		t.Fatalf("got %q, %v, want %s", dir, err, want)
	}
	h.write(a.Tree, files{"f": "3"})
	next.Tree = dir
	h.must(h.trees.Prepare(t.Context(), next))
	h.wantFiles(dir, files{"f": "2"})
}

func TestPrepareMakesTheTreeAsItsParentsWasAtTheFork(t *testing.T) {
	h := newSite(t, true, files{"f": "committed", "gone": "x"})
	h.write(h.dir, files{"f": "changed", "new": "untracked"})
	h.must(os.Remove(filepath.Join(h.dir, "gone")))
	want := files{"f": "changed", "new": "untracked", "gone": ""}
	a := h.ready("a")
	h.wantFiles(a.Tree, want)
	h.write(h.dir, files{"f": "changed since the fork"})
	h.wantFiles(h.ready("b").Tree, want)

	h.write(a.Tree, files{"f": "of a"})
	h.must(h.trees.Prepare(t.Context(), a))
	h.wantFiles(a.Tree, files{"f": "of a"}) // an existing tree is left alone

	a = h.work(a, files{"f": "of a's step"})
	h.must(os.RemoveAll(a.Tree))
	h.git("worktree", "prune")
	h.must(h.trees.Prepare(t.Context(), a))
	h.wantFiles(a.Tree, files{"f": "of a's step"}) // made again, it is as its last step left it
}

func TestPrepareMakesNothingForAThreadWithoutATreeOfItsOwn(t *testing.T) {
	for _, underGit := range []bool{true, false} {
		h := newSite(t, underGit, files{"f": "1"})
		h.must(h.trees.Prepare(t.Context(), h.root))
		h.wantGone(filepath.Join(h.dir, ".plait"))
	}
}

func TestSetupRunsOnceInANewTree(t *testing.T) {
	h := newSite(t, true, files{"f": "1"}, "sh", "-c", `echo "$PLAIT_TASK" >> ran`)
	a := h.ready("a")
	h.must(h.trees.Prepare(t.Context(), a))
	h.wantFiles(a.Tree, files{"ran": "TASK\n"})
}

func TestASetupThatACrashLeftIsEnded(t *testing.T) {
	h := newSite(t, true, files{"f": "1"}, "true")
	a := h.path("a")
	left := exec.Command("sleep", "600")
	left.Env = proc.Environ(nil, nil, nil, "setup-"+a.ID)
	h.must(left.Start())
	h.must(h.trees.EndSetup(t.Context(), a))
	if err := left.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}

func TestASetupThatFailsIsReportedWithItsLastWords(t *testing.T) {
	h := newSite(t, true, files{"f": "1"}, "sh", "-c", "yes first | head -c 9000; echo the last words; exit 3")
	err := h.trees.Prepare(t.Context(), h.path("a"))
	if err == nil || !strings.Contains(err.Error(), "exit 3") || !strings.Contains(err.Error(), "the last words") {
		t.Fatalf("got %v", err)
	}
	if len(err.Error()) > 4096 {
		t.Errorf("a message of %d bytes", len(err.Error()))
	}
}

func TestSnapshotsAreKeptUnderTheThreadsName(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	a := h.ready("a")
	first, err := h.trees.Snapshot(t.Context(), a, worktree.Before(1))
	h.must(err)
	h.write(a.Tree, files{"f": "2"})
	second, err := h.trees.Hold(t.Context(), a, "held")
	h.must(err)
	for name, want := range map[string]struct{ tree, text string }{
		worktree.Before(1): {first, "1"}, "held": {second, "2"},
	} {
		ref := "refs/plait/" + a.ID + "/" + name
		if got := h.git("rev-parse", ref+"^{tree}"); got != want.tree {
			t.Errorf("%s keeps %s, want %s", ref, got, want.tree)
		}
		if got := h.git("show", ref+":f"); got != want.text {
			t.Errorf("%s has %q, want %q", ref, got, want.text)
		}
	}
}

func TestWithoutGitThereIsNothingToSnapshot(t *testing.T) {
	h := newSite(t, false, files{"f": "1"})
	if tree, err := h.trees.Snapshot(t.Context(), h.root, worktree.Before(1)); err != nil || tree != "" {
		t.Errorf("Snapshot: %q, %v", tree, err)
	}
	if tree, err := h.trees.Hold(t.Context(), h.root, "held"); !errors.Is(err, git.ErrNone) {
		t.Errorf("Hold: %q, %v", tree, err)
	}
	if under, err := worktree.UnderGit(t.Context(), h.dir); under || err != nil {
		t.Errorf("the directory is said to be under git, %v", err)
	}
}

// TestWithoutTheProgram checks that a repository without git is not taken for a directory without a repository, where
// paths would work in one tree.
func TestWithoutTheProgram(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	t.Setenv("PATH", t.TempDir())
	if under, err := worktree.UnderGit(t.Context(), h.dir); under || !errors.Is(err, git.ErrNoGit) {
		t.Errorf("UnderGit: %v, %v", under, err)
	}
	path := h.root
	path.ID += "/a"
	if dir, err := h.trees.Place(t.Context(), h.root, path); !errors.Is(err, git.ErrNoGit) {
		t.Errorf("Place: %q, %v", dir, err)
	}
}

func TestASnapshotThatFailsMattersInAMadeTreeOnly(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	a := h.ready("a")
	h.unregister()
	if tree, err := h.trees.Snapshot(t.Context(), a, worktree.Before(1)); err == nil {
		t.Errorf("of a tree that the repository has not registered: %q", tree)
	}
	own := h.root
	own.Tree = filepath.Join(h.dir, "not", "there")
	if tree, err := h.trees.Snapshot(t.Context(), own, worktree.Before(1)); err != nil || tree != "" {
		t.Errorf("of a person's tree: %q, %v", tree, err)
	}
}

func TestRestore(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(h *site, row *store.Thread)
		n, last int
		ok      bool
		want    files
	}{
		{"to how it was before the attempt", func(*site, *store.Thread) {}, 2, 2, true, files{"f": "1", "junk": ""}},
		{"to the first one kept, where that is not", func(*site, *store.Thread) {}, 1, 3, true, files{"f": "1", "junk": ""}},
		{"nothing, where no agent has begun", func(*site, *store.Thread) {}, 7, 9, true, files{"f": "half", "junk": "x"}},
		{"not a tree that is another thread's", func(h *site, row *store.Thread) { row.ID = "OTHER" },
			2, 2, false, files{"f": "half", "junk": "x"}},
		{"not a tree that an agent made unusable", func(h *site, _ *store.Thread) { h.unregister() },
			2, 2, false, files{"f": "half", "junk": "x"}},
		{"a tree whose .git an agent replaced", func(h *site, row *store.Thread) {
			h.must(os.RemoveAll(filepath.Join(row.Tree, ".git")))
			h.write(row.Tree, files{".git": "gitdir: /elsewhere"})
		}, 2, 2, true, files{"f": "1", "junk": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newSite(t, true, files{"f": "0"})
			row := h.ready("a")
			tree := row.Tree
			h.write(tree, files{"f": "1"})
			for _, n := range []int{2, 3} {
				if _, err := h.trees.Snapshot(t.Context(), row, worktree.Before(n)); err != nil {
					t.Fatal(err)
				}
				h.write(tree, files{"f": "half", "junk": "x"})
			}
			tt.arrange(h, &row)
			if ok, err := h.trees.Restore(t.Context(), row, tt.n, tt.last); err != nil || ok != tt.ok {
				t.Errorf("got %v, %v, want %v", ok, err, tt.ok)
			}
			h.wantFiles(tree, tt.want)
		})
	}
}

func TestRemoveTakesTreesAndRefsAway(t *testing.T) {
	h := newSite(t, true, files{"f": "1"}, "true")
	a := h.work(h.ready("a"), files{"f": "2"})
	h.must(h.trees.Remove(t.Context(), []store.Thread{h.root, a}))
	h.wantGone(a.Tree)
	h.wantGone(a.Tree + ".ready")
	if refs := h.git("for-each-ref", "refs/plait/"); refs != "" {
		t.Errorf("refs are left:\n%s", refs)
	}
	if list := h.git("worktree", "list"); strings.Contains(list, a.ID) {
		t.Errorf("worktrees are left:\n%s", list)
	}
	h.wantFiles(h.dir, files{"f": "1"})
	h.must(h.trees.Remove(t.Context(), []store.Thread{h.root, a})) // it may be repeated
}

func TestRemoveTakesAwayWhatCannotBeKept(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	a := h.ready("a")
	h.write(a.Tree, files{"x/f": "2", "shut/f": "3"})
	h.git("init", "-q", filepath.Join(a.Tree, "x"))
	h.must(os.Chmod(filepath.Join(a.Tree, "shut"), 0))
	h.must(h.trees.Remove(t.Context(), []store.Thread{h.root, a}))
	h.wantGone(a.Tree)
}

func TestRemoveTakesAwayATreeThatItsRepositoryForgot(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	a := h.ready("a")
	h.must(os.RemoveAll(filepath.Join(h.dir, ".git")))
	h.git("init", "-q")
	h.must(h.trees.Remove(t.Context(), []store.Thread{h.root, a}))
	h.wantGone(a.Tree)
}

func TestRemoveDoesNotFollowALinkInTheTreesPlace(t *testing.T) {
	h := newSite(t, true, files{"f": "1"})
	a := h.ready("a")
	outside := t.TempDir()
	h.write(outside, files{"precious": "x"})
	h.must(os.RemoveAll(a.Tree))
	h.must(os.Symlink(outside, a.Tree))
	h.must(h.trees.Remove(t.Context(), []store.Thread{h.root, a}))
	h.wantGone(a.Tree)
	h.wantFiles(outside, files{"precious": "x"})
}

func TestRemoveWithoutGitHasNothingToDo(t *testing.T) {
	h := newSite(t, false, files{"f": "1"})
	h.must(h.trees.Remove(t.Context(), []store.Thread{h.root}))
	h.wantFiles(h.dir, files{"f": "1"})
}
