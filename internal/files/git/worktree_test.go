package git_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// TestCheckout makes a worktree of each scene: its files are those of the tree, and
// its snapshot is the tree again.
func TestCheckout(t *testing.T) {
	for _, sc := range scenes() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			dir := commit(t, sc.first)
			sc.then(t, dir)
			r := open(t, dir)
			tree := snapshot(t, r, "refs/plait/t/1")
			before := still(t, dir)
			w := checkout(t, r, tree)
			after := still(t, dir)
			before["entries"], after["entries"] = "", ""
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the parent changed (-before +after):\n%s", diff)
			}
			want := files{}
			for name, text := range sc.want {
				if name == "a.txt" {
					text = "1\r\n" // because of its attributes
				}
				if text != "gitlink" {
					want[name] = text
				}
			}
			if diff := cmp.Diff(want, readFiles(t, w.Root())); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if got := snapshot(t, w, ""); got != tree {
				t.Errorf("snapshot of the fresh worktree %s, want %s:\n%s", got, tree,
					userGit(t, dir, "diff", tree, got))
			}
			if !w.Made() || r.Made() {
				t.Error("Made does not tell the worktree from its parent")
			}
			userGit(t, dir, "fsck", "--strict")
		})
	}
}

// TestCheckoutLooksLikeItsParent compares what an agent is shown.
func TestCheckoutLooksLikeItsParent(t *testing.T) {
	dir := commit(t, files{"a": "1", "b": "1", "gone": "1", ".plait/config.yaml": "x", ".gitignore": "*.o\n"})
	files{"a": "2", "new": "3", "f.o": "4"}.write(t, dir)
	userGit(t, dir, "add", "-f", "f.o")
	remove(t, filepath.Join(dir, "gone"))
	r := open(t, dir)
	w := checkout(t, r, snapshot(t, r, ""))
	for _, args := range [][]string{{"status", "--porcelain"}, {"diff"}, {"diff", "HEAD"}, {"rev-parse", "HEAD"}} {
		if diff := cmp.Diff(userGit(t, dir, args...), userGit(t, w.Root(), args...)); diff != "" {
			t.Errorf("git %q (-parent +worktree):\n%s", args, diff)
		}
	}
	if got := userGit(t, w.Root(), "rev-parse", "--abbrev-ref", "HEAD"); got != "HEAD" {
		t.Errorf("on branch %s", got)
	}
	userGit(t, w.Root(), "commit", "-qam", "work")
	if got := userGit(t, w.Root(), "show", "HEAD:.plait/config.yaml"); got != "x" {
		t.Errorf("the commit has %q for .plait/config.yaml", got)
	}
	remove(t, w.Root())
	userGit(t, dir, "worktree", "prune", "--expire=now")
	if list := userGit(t, dir, "worktree", "list", "--porcelain"); !strings.Contains(list, w.Root()) ||
		!strings.Contains(list, "locked") {
		t.Errorf("pruned:\n%s", list)
	}
}

func TestCheckoutWithoutCommits(t *testing.T) {
	ctx := context.Background()
	dir := newDir(t)
	userGit(t, dir, "init", "-q")
	files{"a": "1"}.write(t, dir)
	r := open(t, dir)
	tree := snapshot(t, r, "refs/plait/t/1")
	w := checkout(t, r, tree)
	if got := userGit(t, w.Root(), "status", "--porcelain"); got != "?? a" {
		t.Errorf("status %q", got)
	}
	userGit(t, w.Root(), "add", "-A")
	userGit(t, w.Root(), "commit", "-qm", "first")
	if out, err := userCommand(dir, "rev-parse", "--verify", "-q", "main").Output(); err == nil {
		t.Errorf("the worktree's commit moved the user's branch to %s", out)
	}
	if got, err := r.Remove(ctx, w.Root(), "refs/plait/t/2", git.Caches{}); err != nil || got != tree {
		t.Errorf("Remove: %s, %v", got, err)
	}
}

func TestCheckoutRefuses(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	full := newDir(t)
	files{"x": "1"}.write(t, full)
	user := filepath.Join(newDir(t), "user")
	userGit(t, dir, "worktree", "add", "-q", user)
	remove(t, user)
	for _, tt := range []struct{ name, dir, tree, says string }{
		{"relative", "w", tree, "not an absolute path"},
		{"full", full, tree, "not empty"},
		{"in the git directory", filepath.Join(dir, ".git/w"), tree, "inside the git directory"},
		{"no hex", filepath.Join(full, "w"), "HEAD", "40 hex digits"},
		{"an option", filepath.Join(full, "w"), "--help", "40 hex digits"},
		{"no such tree", filepath.Join(full, "w"), strings.Repeat("0", 40), "git rev-parse"},
		{"registered by the user", user, tree, "registered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := r.Checkout(ctx, tt.dir, tt.tree)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
			list, _ := os.ReadDir(full)
			if len(list) != 1 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
	if list, _ := filepath.Glob(filepath.Join(dir, ".git/worktrees/plait-*")); len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
}

// TestCheckoutAfterCrash runs Checkout where a killed one has left files behind.
func TestCheckoutAfterCrash(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	w := checkout(t, r, tree).Root()
	half := filepath.Join(filepath.Dir(w), ".w.new")
	if err := os.Rename(w, half); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.Checkout(ctx, w, tree); err != nil {
		t.Fatal(err)
	}
	list, _ := filepath.Glob(filepath.Join(dir, ".git/worktrees/*"))
	if _, err := os.Stat(half); len(list) != 1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("registered %v; half is there: %v", list, err)
	}
}

var restoreCases = []struct {
	name  string
	do    func(t *testing.T, dir string)
	extra files // what stays in addition to the tree
}{
	{"nothing", put(nil), nil},
	{"changes", func(t *testing.T, dir string) {
		files{"a": "2", "x": "3", "l": "4", "new/deep": "5"}.write(t, dir)
		remove(t, filepath.Join(dir, "d"))
	}, nil},
	{"ignored files", put(files{"f.o": "1", "d/g.o": "2", ".plait/x": "3"}),
		files{"f.o": "1", "d/g.o": "2", ".plait/x": "3"}},
	{"hidden by a .gitignore", put(files{".gitignore": "*\n", "evil": "1", "d/evil": "2", "d/.gitignore": "*"}),
		nil},
	{"hidden by a .gitignore of its own", put(files{"n/.gitignore": "*", "n/m/evil": "1", "n/m/.gitignore": "!x"}),
		nil},
	{"hidden by a .gitignore in odd places",
		put(files{":(top)x/.gitignore": "*", "*/.gitignore": "*", ":x/y": "1", "-x/.gitignore": "*",
			".git\n/.gitignore": "*"}), nil},
	{"rules inside what is ignored", put(files{"c.o/.gitignore": "*", "c.o/x": "1"}),
		files{"c.o/.gitignore": "*", "c.o/x": "1"}},
	{"hidden by marks", func(t *testing.T, dir string) {
		userGit(t, dir, "update-index", "--assume-unchanged", "a")
		userGit(t, dir, "update-index", "--skip-worktree", "d/b")
		files{"a": "2", "d/b": "3"}.write(t, dir)
	}, nil},
	{"commits and stages", func(t *testing.T, dir string) {
		files{"a": "2", "n": "3"}.write(t, dir)
		userGit(t, dir, "add", "-A")
		userGit(t, dir, "commit", "-qm", "work")
		files{"a": "4"}.write(t, dir)
		userGit(t, dir, "add", "a")
	}, nil},
	{"nested repository", func(t *testing.T, dir string) {
		files{"n/x": "1", "new/n/y": "1"}.write(t, dir)
		userGit(t, dir, "init", "-q", "n")
		userGit(t, dir, "init", "-q", "new/n")
		userGit(t, dir, "init", "-q", "d")
		remove(t, filepath.Join(dir, "d/.git"))
	}, nil},
	{"directories for files", func(t *testing.T, dir string) {
		for _, name := range []string{"a", "d", "l"} {
			remove(t, filepath.Join(dir, name))
		}
		files{"a/x": "1", "a/y.o": "ignored", "d": "2", "l/z": "3"}.write(t, dir)
	}, nil},
	{"links for directories", func(t *testing.T, dir string) {
		remove(t, filepath.Join(dir, "d"))
		remove(t, filepath.Join(dir, "e"))
		away := newDir(t)
		files{"b": "not ours", "deep/f": "not ours"}.write(t, away)
		t.Cleanup(func() {
			if diff := cmp.Diff(files{"b": "not ours", "deep/f": "not ours"}, readFiles(t, away)); diff != "" {
				t.Errorf("Restore wrote through a link:\n%s", diff)
			}
		})
		files{"d": "link:" + away, "e": "link:" + away}.write(t, dir)
	}, nil},
	{"FIFO for a file", func(t *testing.T, dir string) {
		remove(t, filepath.Join(dir, "a"))
		if err := syscall.Mkfifo(filepath.Join(dir, "a"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, nil},
	{"no .git", func(t *testing.T, dir string) {
		files{"a": "2"}.write(t, dir)
		remove(t, filepath.Join(dir, ".git"))
	}, nil},
	{".git leads elsewhere", func(t *testing.T, dir string) {
		files{".git": "gitdir: " + filepath.Join(commit(t, nil), ".git"), "a": "2"}.write(t, dir)
	}, nil},
	{"locks left", func(t *testing.T, dir string) {
		files{"index.lock": ""}.write(t, userGit(t, dir, "rev-parse", "--absolute-git-dir"))
	}, nil},
	{"everything gone", func(t *testing.T, dir string) {
		list, _ := os.ReadDir(dir)
		for _, d := range list {
			remove(t, filepath.Join(dir, d.Name()))
		}
	}, nil},
}

// TestRestore lets an agent do its worst and puts the worktree back.
func TestRestore(t *testing.T) {
	first := files{"a": "1", "d/b": "2", "x": "exec:3", "l": "link:a", ".gitignore": "*.o\n", "e/deep/f": "4"}
	for _, tt := range restoreCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			dir := commit(t, first)
			r := open(t, dir)
			tree := snapshot(t, r, "")
			at := checkout(t, r, tree).Root()
			tt.do(t, at)
			w, err := r.Worktree(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Restore(ctx, tree); err != nil {
				t.Fatal(err)
			}
			want := files{}
			for _, f := range []files{first, tt.extra} {
				for name, text := range f {
					want[name] = text
				}
			}
			if diff := cmp.Diff(want, readFiles(t, at)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if got := snapshot(t, open(t, at), ""); got != tree {
				t.Errorf("snapshot %s, want %s", got, tree)
			}
			if tt.name != "commits and stages" {
				if got := userGit(t, at, "status", "--porcelain"); got != "" && tt.extra == nil {
					t.Errorf("status:\n%s", got)
				}
			}
		})
	}
}

// TestRestoreOfTreeWithoutRules adds a .gitignore at the root where there was none.
func TestRestoreOfTreeWithoutRules(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	w := checkout(t, r, tree)
	files{".gitignore": "*\n", "evil": "1"}.write(t, w.Root())
	if err := w.Restore(context.Background(), tree); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files{"a": "1"}, readFiles(t, w.Root())); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestRestoreRefuses(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	user := filepath.Join(newDir(t), "user")
	userGit(t, dir, "worktree", "add", "-q", user)
	for _, at := range []string{dir, user} {
		files{"a": "precious"}.write(t, at)
		if err := open(t, at).Restore(ctx, tree); !errors.Is(err, git.ErrRefused) {
			t.Errorf("Restore of %s: %v", at, err)
		}
		if got := readFiles(t, at)["a"]; got != "precious" {
			t.Errorf("a is %q", got)
		}
	}
	if _, err := r.Worktree(ctx, user); !errors.Is(err, git.ErrNone) {
		t.Errorf("Worktree of the user's: %v", err)
	}
	if _, err := r.Remove(ctx, user, "refs/plait/t/1", git.Caches{}); !errors.Is(err, git.ErrNone) {
		t.Errorf("Remove of the user's: %v", err)
	}
	if _, err := r.Remove(ctx, dir, "refs/plait/t/1", git.Caches{}); !errors.Is(err, git.ErrNone) {
		t.Errorf("Remove of the main work tree: %v", err)
	}
	for _, at := range []string{user, dir} {
		if err := r.Discard(at); !errors.Is(err, git.ErrNone) {
			t.Errorf("Discard of %s: %v", at, err)
		}
	}
	if got := readFiles(t, user)["a"]; got != "precious" {
		t.Errorf("a is %q", got)
	}
}

// TestUsersWorktree takes a snapshot of a worktree that the user made.
func TestUsersWorktree(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	user := filepath.Join(newDir(t), "user")
	userGit(t, dir, "worktree", "add", "-q", user)
	files{"a": "2"}.write(t, user)
	files{"sub/x": "3"}.write(t, user)
	r := open(t, filepath.Join(user, "sub"))
	if r.Root() != user {
		t.Errorf("root %s, want %s", r.Root(), user)
	}
	tree := snapshot(t, r, "refs/plait/t/1")
	if diff := cmp.Diff(files{"a": "2", "sub/x": "3"}, treeFiles(t, dir, tree)); diff != "" {
		t.Error(diff)
	}
	w := checkout(t, r, tree)
	if got := userGit(t, dir, "worktree", "list"); strings.Count(got, "\n") != 2 ||
		!slices.ContainsFunc(strings.Split(got, "\n"), func(l string) bool { return strings.HasPrefix(l, w.Root()) }) {
		t.Errorf("worktrees:\n%s", got)
	}
}
