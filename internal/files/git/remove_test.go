package git_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

func TestRemove(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1", ".gitignore": "*.o\n"})
	r := open(t, dir)
	at := checkout(t, r, snapshot(t, r, "")).Root()
	files{"a": "2", "new": "3", "cache.o/x": "4"}.write(t, at)
	userGit(t, at, "commit", "-qam", "work")
	files{"a": "5"}.write(t, at)
	commit := userGit(t, at, "rev-parse", "HEAD")
	if err := os.Chmod(filepath.Join(at, "cache.o"), 0o500); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(at, ".git")) // as an agent might
	tree, err := r.Remove(ctx, at, "refs/plait/t/1", git.Caches{Names: []string{"*.o"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files{"a": "5", "new": "3", ".gitignore": "*.o\n"}, treeFiles(t, dir, tree)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if got := userGit(t, dir, "rev-parse", "refs/plait/t/1^"); got != commit {
		t.Errorf("the agent's commit is not kept: %s, want %s", got, commit)
	}
	left, _ := os.ReadDir(filepath.Dir(at))
	registered, _ := filepath.Glob(filepath.Join(dir, ".git/worktrees/*"))
	if len(left)+len(registered) > 0 {
		t.Errorf("left: %v %v", left, registered)
	}
	for _, ref := range []string{"refs/plait/t/1", "refs/plait/t/1"} {
		if again, err := r.Remove(ctx, at, ref, git.Caches{}); err != nil || again != tree {
			t.Errorf("again: %s, %v", again, err)
		}
	}
	if none, err := r.Remove(ctx, at, "refs/plait/t/2", git.Caches{}); err != nil || none != "" {
		t.Errorf("of a ref that keeps nothing: %s, %v", none, err)
	}
}

// TestRemoveAfterCrash finishes what a killed Remove has begun.
func TestRemoveAfterCrash(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	want := snapshot(t, r, "refs/plait/t/1")
	at := checkout(t, r, want).Root()
	gone := filepath.Join(filepath.Dir(at), ".w.gone")
	if err := os.Rename(at, gone); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(gone, "a"))
	if tree, err := r.Remove(ctx, at, "refs/plait/t/1", git.Caches{}); err != nil || tree != want {
		t.Errorf("got %s, %v; want %s", tree, err, want)
	}
	registered, _ := filepath.Glob(filepath.Join(dir, ".git/worktrees/*"))
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) || len(registered) > 0 {
		t.Errorf("left: %v, %v", err, registered)
	}
}

func TestRemoveKeepsWhatItCannotKeep(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	at := checkout(t, r, snapshot(t, r, "")).Root()
	files{"n/x": "1"}.write(t, at)
	userGit(t, at, "init", "-q", "n")
	if _, err := r.Remove(ctx, at, "refs/plait/t/1", git.Caches{}); !errors.Is(err, git.ErrHeld) {
		t.Errorf("with a repository inside: %v", err)
	}
	remove(t, filepath.Join(at, "n/.git"))
	files{"refs/plait/t/1.lock/held": ""}.write(t, filepath.Join(dir, ".git"))
	if _, err := r.Remove(ctx, at, "refs/plait/t/1", git.Caches{}); err == nil {
		t.Error("removed though the ref could not be written")
	}
	if diff := cmp.Diff(files{"a": "1", "n/x": "1"}, readFiles(t, at)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, ref := range []string{"", "refs/heads/main"} {
		if _, err := r.Remove(ctx, at, ref, git.Caches{}); err == nil {
			t.Errorf("removed with ref %q", ref)
		}
	}
}

// TestDiscard removes what Remove would keep, also after a crash.
func TestDiscard(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	at := checkout(t, r, snapshot(t, r, "")).Root()
	files{"n/x": "1", "shut/x": "2"}.write(t, at)
	userGit(t, at, "init", "-q", "n")
	if err := os.Chmod(filepath.Join(at, "shut"), 0); err != nil {
		t.Fatal(err)
	}
	wantGone := func() {
		t.Helper()
		left, _ := os.ReadDir(filepath.Dir(at))
		registered, _ := filepath.Glob(filepath.Join(dir, ".git/worktrees/*"))
		if len(left)+len(registered) > 0 {
			t.Errorf("left: %v %v", left, registered)
		}
	}
	for range 2 { // it may be repeated
		if err := r.Discard(at); err != nil {
			t.Error(err)
		}
		wantGone()
	}
	if err := r.Checkout(context.Background(), at, snapshot(t, r, "")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at, filepath.Join(filepath.Dir(at), ".w.gone")); err != nil {
		t.Fatal(err)
	}
	if err := r.Discard(at); err != nil {
		t.Error(err)
	}
	wantGone()
}
