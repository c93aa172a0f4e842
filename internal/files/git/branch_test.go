package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func TestBranch(t *testing.T) {
	ctx := context.Background()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			dir := commit(t, files{"a": "1", ".plait/config.yaml": "tracked"}, "--object-format="+format)
			r := open(t, dir)
			head := userGit(t, dir, "rev-parse", "HEAD")
			tree := makeTree(t, dir, files{"a": "2", "z": "3"})
			before := state(t, dir)
			first, err := r.Branch(ctx, "plait/t/work", tree, "", "add z\n\n% of \"it\"", noon)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := r.Branch(ctx, "plait/t/work", tree, "", "add z\n\n% of \"it\"", noon); again != first ||
				err != nil {
				t.Errorf("again %s: %v", again, err)
			}
			got := userGit(t, dir, "log", "-1", "--format=%H|%P|%an %ae %ai|%cn %ce %ci|%B", "refs/heads/plait/t/work")
			by := "Plait plait@localhost 2026-03-01 12:00:00 +0000"
			if want := strings.Join([]string{first, head, by, by, "add z\n\n% of \"it\""}, "|"); got != want {
				t.Errorf("commit is %q, want %q", got, want)
			}
			if diff := cmp.Diff(files{"a": "2", "z": "3", ".plait/config.yaml": "tracked"},
				treeFiles(t, dir, first)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			second, err := r.Branch(ctx, "plait/t/work", makeTree(t, dir, files{"a": "3"}), "", "other", noon)
			if err != nil || second == first || userGit(t, dir, "rev-parse", "plait/t/work") != second {
				t.Errorf("not moved from %s to %s: %v", first, second, err)
			}
			userGit(t, dir, "update-ref", "-d", "refs/heads/plait/t/work")
			if after := state(t, dir); after != before {
				t.Errorf("state was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// TestBranchLocked checks that a lock left by a killed git does not block the branch forever.
func TestBranchLocked(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := makeTree(t, dir, files{"a": "2"})
	lock := filepath.Join(dir, ".git", "refs", "heads", "plait", "t", "work.lock")
	files{"work.lock": ""}.write(t, filepath.Dir(lock))
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(lock, before, before); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Branch(ctx, "plait/t/work", tree, "", "one", noon); err != nil {
		t.Errorf("an old lock: %v", err)
	}
	files{"work.lock": ""}.write(t, filepath.Dir(lock))
	stop, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Branch(stop, "plait/t/work", makeTree(t, dir, files{"a": "3"}), "", "two", noon); err == nil {
		t.Error("a lock that somebody may hold is not respected")
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("a new lock: %v", err)
	}
	if _, err := r.Branch(ctx, "plait/t/work", makeTree(t, dir, files{"a": "3"}), "", "two", noon); err != nil {
		t.Errorf("a lock that stays: %v", err)
	}
}

func TestBranchUnborn(t *testing.T) {
	dir := newDir(t)
	userGit(t, dir, "init", "-q")
	files{"a": "1"}.write(t, dir)
	r := open(t, dir)
	commit, err := r.Branch(context.Background(), "plait/x", snapshot(t, r, ""), "", "", noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := userGit(t, dir, "rev-list", "--parents", "plait/x"); got != commit {
		t.Errorf("has parents: %s", got)
	}
}

// TestBranchAsOf merges a branch into what was committed after its snapshot was taken:
// the commit must not be undone.
func TestBranchAsOf(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	snapshot(t, r, "refs/plait/t/fork")
	tree := makeTree(t, dir, files{"a": "2"})
	files{"later": "the person's"}.write(t, dir)
	userGit(t, dir, "add", "later")
	userGit(t, dir, "commit", "-q", "-m", "later")
	first, err := r.Branch(ctx, "plait/t/x", tree, "refs/plait/t/fork", "m", noon)
	if err != nil {
		t.Fatal(err)
	}
	userGit(t, dir, "merge", "-q", "-m", "merged", "plait/t/x")
	if diff := cmp.Diff(files{"a": "2", "later": "the person's"}, readFiles(t, dir)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	userGit(t, dir, "checkout", "-q", "plait/t/x") // the same commit needs no move
	if again, err := r.Branch(ctx, "plait/t/x", tree, "refs/plait/t/fork", "m", noon); again != first || err != nil {
		t.Errorf("again %s: %v", again, err)
	}
	for _, ref := range []string{"HEAD", "refs/heads/main", "refs/plait/t/none", "refs/plait/../heads/main"} {
		if _, err := r.Branch(ctx, "plait/t/y", tree, ref, "m", noon); err == nil {
			t.Errorf("a branch as of %s was made", ref)
		}
	}
}

// TestBranchOfOthers uses branches below plait/ that Plait must not move.
func TestBranchOfOthers(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		then func(t *testing.T, r *git.Repo, dir, tree string)
	}{
		{"made by the user", func(t *testing.T, r *git.Repo, dir, _ string) { userGit(t, dir, "branch", "plait/t/x") }},
		{"amended by the user", func(t *testing.T, r *git.Repo, dir, tree string) {
			made(t, r, tree)
			userGit(t, dir, "checkout", "-q", "-f", "plait/t/x")
			userGit(t, dir, "commit", "-q", "--amend", "-m", "better")
			userGit(t, dir, "checkout", "-q", "main")
		}},
		{"checked out", func(t *testing.T, r *git.Repo, dir, tree string) {
			made(t, r, tree)
			userGit(t, dir, "checkout", "-q", "-f", "plait/t/x")
		}},
		{"checked out in a worktree", func(t *testing.T, r *git.Repo, dir, tree string) {
			made(t, r, tree)
			userGit(t, dir, "worktree", "add", "-q", filepath.Join(newDir(t), "w"), "plait/t/x")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := commit(t, files{"a": "1"})
			r := open(t, dir)
			tt.then(t, r, dir, makeTree(t, dir, files{"a": "2"}))
			if _, err := r.Branch(ctx, "plait/t/ours", makeTree(t, dir, files{"a": "4"}), "", "m", noon); err != nil {
				t.Fatal(err)
			}
			want := userGit(t, dir, "rev-parse", "plait/t/x")
			if _, err := r.Branch(ctx, "plait/t/x", makeTree(t, dir, files{"a": "3"}), "", "m", noon); !errors.Is(err,
				git.ErrRefused) {
				t.Errorf("Branch returned %v", err)
			}
			if got := userGit(t, dir, "for-each-ref", "--format=%(objectname) %(refname)",
				"refs/heads/plait/t/x"); got != want+" refs/heads/plait/t/x" {
				t.Errorf("left is %s, want x at %s", got, want)
			}
		})
	}
}

func made(t *testing.T, r *git.Repo, tree string) {
	t.Helper()
	if _, err := r.Branch(context.Background(), "plait/t/x", tree, "", "m", noon); err != nil {
		t.Fatal(err)
	}
}

func TestBranchNames(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	for _, name := range []string{"", "main", "plait", "plait/", "plait//x", "plait/../main", "plait/a..b",
		"plait/a\nb", "plait/a b", "plait/a.lock",
		"plait/x/", "plait/*", "plait/@{1}", "plait/a\x00b", "-plait/a", "../plait/x", "plait/" +
			strings.Repeat("a", 300)} {
		if _, err := r.Branch(ctx, name, tree, "", "m", noon); !errors.Is(err, git.ErrRefused) {
			t.Errorf("Branch of %q returned %v", name, err)
		}
	}
	if _, err := r.Branch(ctx, "plait/ü/x-1.y", tree, "", "m", noon); err != nil {
		t.Error(err)
	}
	if _, err := r.Branch(ctx, "plait/ü", tree, "", "m", noon); err == nil {
		t.Error("made a branch where others are below")
	}
	if _, err := r.Branch(ctx, "plait/early", tree, "", "m", time.Time{}); err == nil {
		t.Error("took a time before there were any")
	}
	away := newDir(t)
	files{".git/refs/heads/plait/l": "link:" + away}.write(t, dir)
	if _, err := r.Branch(ctx, "plait/l/x", tree, "", "m", noon); !errors.Is(err, git.ErrRefused) {
		t.Errorf("Branch through a link returned %v", err)
	}
	if got := readFiles(t, away); len(got) > 0 {
		t.Errorf("written outside: %v", got)
	}
}
