package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// partialClone returns a partial clone of two commits with a sparse checkout of a directory, and what is not in it.
func partialClone(t *testing.T, sparse ...string) (dir string, missing func() string) {
	t.Helper()
	origin := commit(t, files{"a.txt": "a\n", "in/x": "x\n", "out/.gitattributes": "* text\n", "out/deep/y": "1\n2\n3\n",
		"out/z": "z\n"})
	userGit(t, origin, "config", "uploadpack.allowFilter", "true")
	files{"out/deep/y": "1\n2\n3\n4\n"}.write(t, origin)
	userGit(t, origin, "commit", "-qam", "second")
	dir = filepath.Join(newDir(t), "work")
	userGit(t, origin, "clone", "-q", "--filter=blob:none", "--sparse", "file://"+origin, dir)
	userGit(t, dir, append([]string{"sparse-checkout", "set"}, sparse...)...)
	return dir, func() string {
		return userGit(t, dir, "rev-list", "--objects", "--missing=print", "HEAD")
	}
}

// names returns the paths and objects of a tree, whether their files are there or not.
func names(t *testing.T, dir, tree string) string {
	return userGit(t, dir, "ls-tree", "-r", tree)
}

// TestPartialClone checks that worktrees of a partial clone leave out the files that are not there, that these are in
// all trees nevertheless, and that nothing is fetched.
func TestPartialClone(t *testing.T) {
	for name, sparse := range map[string][]string{
		"cone":    {"in"},
		"index":   {"--sparse-index", "in"},
		"pattern": {"--no-cone", "/a.txt", "/in/", "!/out/z", "!/out/deep"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, missing := partialClone(t, sparse...)
			before := missing()
			r, ctx := open(t, dir), t.Context()
			files{"a.txt": "mine\n", "in/new": "new\n"}.write(t, dir)
			tree := snapshot(t, r, "refs/plait/begin")
			if got := userGit(t, dir, "diff", "--name-status", "HEAD", tree); got != "M\ta.txt\nA\tin/new" {
				t.Fatalf("the snapshot differs in %q", got)
			}
			w := checkout(t, r, tree)
			here := readFiles(t, dir)
			if diff := cmp.Diff(here, readFiles(t, w.Root())); diff != "" {
				t.Errorf("files of the worktree (-want +got):\n%s", diff)
			}
			if a, b := userGit(t, dir, "status", "--porcelain"), userGit(t, w.Root(), "status", "--porcelain"); a != b {
				t.Errorf("status %q, and %q in the worktree", a, b)
			}
			if got := snapshot(t, w, ""); got != tree {
				t.Errorf("a snapshot of the worktree differs:\n%s", names(t, dir, got))
			}

			// Two agents work; one writes where a file was left out, one over a directory that was.
			other := checkout(t, r, tree)
			files{"in/x": "changed\n", "out/z": "z again\n"}.write(t, w.Root())
			remove(t, filepath.Join(w.Root(), "a.txt"))
			files{"in/y": "y\n"}.write(t, other.Root())
			one, two := snapshot(t, w, ""), snapshot(t, other, "")
			merged, err := r.Merge(ctx, tree, []git.Side{{Name: "w", Base: tree, Tree: one},
				{Name: "other", Base: tree, Tree: two}})
			if err != nil || len(merged.Conflicts) > 0 {
				t.Fatalf("%+v, %v", merged, err)
			}
			if err := r.Apply(ctx, tree, merged.Tree); err != nil {
				t.Fatal(err)
			}
			want := files{"in/x": "changed\n", "in/y": "y\n", "in/new": "new\n", "out/z": "z again\n"}
			if _, ok := here["out/.gitattributes"]; ok {
				want["out/.gitattributes"] = "* text\n"
			}
			if diff := cmp.Diff(want, readFiles(t, dir)); diff != "" {
				t.Errorf("after the merge (-want +got):\n%s", diff)
			}
			if got := userGit(t, dir, "diff", "--name-status", "HEAD", snapshot(t, r, "")); got !=
				"D\ta.txt\nM\tin/x\nA\tin/new\nA\tin/y\nM\tout/z" && got != "D\ta.txt\nA\tin/new\nM\tin/x\nA\tin/y\nM\tout/z" {
				t.Errorf("the merged files differ in %q", got)
			}

			// An index that was spoilt removes nothing, and a worktree can be reset.
			for _, w := range []*git.Repo{w, other} {
				remove(t, filepath.Join(w.Root(), "out"))
				if w == other {
					files{"out": "a file\n"}.write(t, w.Root())
				} else {
					files{"out/deep/y": "other\n"}.write(t, w.Root())
				}
				if err := w.Restore(ctx, tree); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(here, readFiles(t, w.Root())); diff != "" {
					t.Errorf("after a reset (-want +got):\n%s", diff)
				}
				index := strings.TrimPrefix(fileText(t, filepath.Join(w.Root(), ".git")), "gitdir: ")
				if err := os.WriteFile(filepath.Join(strings.TrimSpace(index), "index"), []byte("spoilt"), 0o600); err != nil {
					t.Fatal(err)
				}
				if got := snapshot(t, w, ""); got != tree {
					t.Errorf("without an index the snapshot is\n%s", names(t, dir, got))
				}
				if got, err := r.Remove(ctx, w.Root(), "refs/plait/kept", git.Caches{}); err != nil || got != tree {
					t.Errorf("removed as %s, %v", names(t, dir, got), err)
				}
			}
			if after := missing(); after != before {
				t.Errorf("missing before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPartialReasons checks that what needs a file that is not there says so, and what to do, and that this helps.
func TestPartialReasons(t *testing.T) {
	dir, missing := partialClone(t, "in")
	before := missing()
	r, ctx := open(t, dir), t.Context()
	old, now := userGit(t, dir, "rev-parse", "HEAD~1"), userGit(t, dir, "rev-parse", "HEAD")
	needs := map[string]func() error{
		"diff": func() error { _, err := r.Diff(ctx, old, now); return err },
		"bundle": func() error {
			_, f, err := r.Bundle(ctx, git.Packing{Ref: "refs/plait/sent", Tree: now, Bounded: true})
			f.Close()
			return err
		},
		"apply": func() error { return r.Apply(ctx, now, old) },
		"whole": func() error { return r.Whole(ctx) },
	}
	for name, do := range needs {
		err := do()
		if err == nil || !strings.Contains(err.Error(), "git fetch --refetch --no-filter") {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(err)
	}
	if after := missing(); after != before {
		t.Errorf("missing before:\n%s\nafter:\n%s", before, after)
	}
	userGit(t, dir, "fetch", "-q", "--refetch", "--no-filter")
	for name, do := range needs {
		if err := do(); err != nil && name != "apply" {
			t.Errorf("%s, with all that is needed: %v", name, err)
		}
	}
}
