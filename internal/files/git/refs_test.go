package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

func TestOpen(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"d/e/a": "1"})
	for _, at := range []string{dir, filepath.Join(dir, "d/e")} {
		if r := open(t, at); r.Root() != dir {
			t.Errorf("root of %s: %s", at, r.Root())
		}
	}
	link := filepath.Join(newDir(t), "link")
	if err := os.Symlink(filepath.Join(dir, "d"), link); err != nil {
		t.Fatal(err)
	}
	if r := open(t, link); r.Root() != dir {
		t.Errorf("root through a link: %s", r.Root())
	}
	if _, err := git.Open(ctx, newDir(t)); !errors.Is(err, git.ErrNone) {
		t.Errorf("no repository: %v", err)
	}
	if _, err := git.Open(ctx, filepath.Join(dir, "missing")); err == nil || errors.Is(err, git.ErrNone) {
		t.Errorf("no directory: %v", err)
	}
	sub := commit(t, files{"a": "1"})
	userGit(t, sub, "submodule", "--quiet", "add", dir, "sub")
	if r := open(t, filepath.Join(sub, "sub")); r.Root() != filepath.Join(sub, "sub") {
		t.Errorf("root of a submodule: %s", r.Root())
	}
}

// TestCheckoutInside makes worktrees where Plait keeps them.
func TestCheckoutInside(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	at := filepath.Join(dir, ".plait/worktrees/w")
	if err := r.Checkout(ctx, at, tree); err != nil {
		t.Fatal(err)
	}
	files{"a": "2"}.write(t, at)
	if got := snapshot(t, r, ""); got != tree {
		t.Errorf("the worktree is in its parent's snapshot %s, want %s", got, tree)
	}
	w := open(t, filepath.Join(at))
	if got := treeFiles(t, dir, snapshot(t, w, "")); w.Root() != at || got["a"] != "2" {
		t.Errorf("root %s has %v", w.Root(), got)
	}
	if _, err := r.Remove(ctx, at, "refs/plait/t/1", git.Caches{}); err != nil {
		t.Error(err)
	}
}

func TestRefs(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	var want []git.Ref
	for _, name := range []string{"refs/plait/t/1", "refs/plait/t/2", "refs/plait/tt/1"} {
		files{"a": name}.write(t, dir)
		tree := snapshot(t, r, name)
		want = append(want, git.Ref{Name: name, Tree: tree})
	}
	userGit(t, dir, "pack-refs", "--all")
	got, err := r.Refs(ctx, "refs/plait/t/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:2], got); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	for range 2 { // it is not an error if there are none
		if err := r.DropRefs(ctx, "refs/plait/t/"); err != nil {
			t.Fatal(err)
		}
	}
	got, err = r.Refs(ctx, "refs/plait/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[2:], got); diff != "" {
		t.Errorf("refs left (-want +got):\n%s", diff)
	}
	if heads := userGit(t, dir, "for-each-ref", "--format=%(refname)"); heads != "refs/heads/main\nrefs/plait/tt/1" {
		t.Errorf("all refs: %s", heads)
	}
}

func TestRefNames(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	for _, name := range []string{
		"refs/heads/main", "HEAD", "refs/plait", "refs/plait/", "refs/plait//x", "refs/plait/x/",
		"refs/plait/../heads/main",
		"refs/plait/a..b", "refs/plait/.a", "refs/plait/a.", "refs/plait/a.lock", "refs/plait/-a", "refs/plait/a b",
		"refs/plait/a\nb",
		"refs/plait/a~1", "refs/plait/ü", "refs/plait/a@{1}", "-refs/plait/a", "refs/plait/" + strings.Repeat("a", 200),
	} {
		if _, err := r.Snapshot(ctx, name); err == nil {
			t.Errorf("Snapshot took %q", name)
		}
		if err := r.DropRefs(ctx, name); err == nil && name != "refs/plait/x/" {
			t.Errorf("DropRefs took %q", name)
		}
	}
	snapshot(t, r, "refs/plait/01J/a-b_c.d/1")
}

func TestDiff(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1\n", "gone": "2\n", "mode": "x\n", "type": "y\n", "bin": "\x00\x01",
		"old": strings.Repeat("line\n", 50)})
	r := open(t, dir)
	from := snapshot(t, r, "")
	files{"a": "2\n", "new file": "3\n", "bin": "\x00\x02", "type": "link:a", ".gitattributes": "* -diff\n",
		"n\n": "1"}.write(t, dir)
	remove(t, filepath.Join(dir, "gone"))
	if err := os.Chmod(filepath.Join(dir, "mode"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "renamed")); err != nil {
		t.Fatal(err)
	}
	to := snapshot(t, r, "refs/plait/t/1")
	list, err := r.Changed(ctx, from, to)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".gitattributes", "a", "bin", "gone", "mode", "n\n", "new file", "old", "renamed", "type"}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	patch, err := r.Diff(ctx, from, userGit(t, dir, "rev-parse", "refs/plait/t/1"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(patch), "-1\n+2\n") {
		t.Errorf("the attributes hide a change:\n%s", patch)
	}
	w := checkout(t, r, from).Root()
	files{"patch": string(patch)}.write(t, filepath.Dir(w))
	userGit(t, w, "apply", "../patch")
	if got := snapshot(t, open(t, w), ""); got != to {
		t.Errorf("applied it gives %s, want %s", got, to)
	}
	if _, err := r.Diff(ctx, from, "HEAD"); err == nil {
		t.Error("Diff took a revision")
	}
	if same, err := r.Diff(ctx, from, from); err != nil || len(same) > 0 {
		t.Errorf("no difference: %q, %v", same, err)
	}
}

// TestFile reads files of a tree, by names that git could take for something else, and none beside it.
func TestFile(t *testing.T) {
	ctx := t.Context()
	r := open(t, commit(t, files{"d/a b.txt": "one\ntwo\n", "-x:y": "odd"}))
	tree := snapshot(t, r, "")
	for name, want := range map[string]string{"d/a b.txt": "one\ntwo\n", "-x:y": "odd"} {
		if got, err := r.File(ctx, tree, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"none", "d", "../d/a b.txt", "./d/a b.txt", "", "/etc/passwd", "a\x00b"} {
		if got, err := r.File(ctx, tree, bad); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
	if _, err := r.File(ctx, "--help", "d/a b.txt"); err == nil {
		t.Error("an option is taken for a tree")
	}
}

func TestDiffIsBounded(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	from := snapshot(t, r, "")
	files{"big": strings.Repeat("0123456789012345678901234567890123456789\n", git.MaxPatch/40)}.write(t, dir)
	patch, err := r.Diff(context.Background(), from, snapshot(t, r, ""))
	if !errors.Is(err, git.ErrTooLarge) || len(patch) == 0 || len(patch) > git.MaxPatch {
		t.Errorf("%d bytes, %v", len(patch), err)
	}
}

// BenchmarkSnapshot uses 2,000 files of 4 KiB, few of them changed; the floor is
// what git status takes, which looks at every file too; cold is a snapshot that
// must read every file.
func BenchmarkSnapshot(b *testing.B) {
	dir := newDir(b)
	userGit(b, dir, "init", "-q")
	f := files{}
	for i := range 2000 {
		f[fmt.Sprintf("d%d/f%d", i%50, i)] = strings.Repeat(fmt.Sprintln(i), 4096/5)
	}
	f.write(b, dir)
	userGit(b, dir, "add", "-A")
	userGit(b, dir, "commit", "-qm", "x")
	files{"d0/f0": "changed", "new": "1"}.write(b, dir)
	r := open(b, dir)
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			snapshot(b, r, "")
		}
	})
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			snapshot(b, r, "refs/plait/t/1")
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			userGit(b, dir, "status", "--porcelain")
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			os.Remove(filepath.Join(dir, ".git/index"))
			b.StartTimer()
			snapshot(b, r, "")
		}
	})
}
