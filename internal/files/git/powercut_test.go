package git_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// An index that git cannot read keeps no worktree from being restored, snapshotted or removed.
func TestUnreadableIndex(t *testing.T) {
	for name, spoil := range map[string]func(index string) error{
		"empty":     func(index string) error { return os.WriteFile(index, nil, 0o644) },
		"garbage":   func(index string) error { return os.WriteFile(index, bytes.Repeat([]byte("garbage "), 99), 0o644) },
		"directory": func(index string) error { return errors.Join(os.Remove(index), os.Mkdir(index, 0o755)) },
		"link":      func(index string) error { return errors.Join(os.Remove(index), os.Symlink("/dev/zero", index)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, commit(t, files{"a": "a\n", "b": "b\n"}))
			tree := snapshot(t, r, "")
			w := checkout(t, r, tree)
			index := userGit(t, w.Root(), "rev-parse", "--path-format=absolute", "--git-path", "index")
			if err := spoil(index); err != nil {
				t.Fatal(err)
			}
			if got := snapshot(t, w, ""); got != tree {
				t.Errorf("the snapshot is %s, want %s", got, tree)
			}
			files{"a": "changed\n", "c": "new\n"}.write(t, w.Root())
			if err := w.Restore(t.Context(), tree); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(files{"a": "a\n", "b": "b\n"}, readFiles(t, w.Root())); diff != "" {
				t.Errorf("restored: -want +got\n%s", diff)
			}
			if status := userGit(t, w.Root(), "status", "--porcelain"); status != "" {
				t.Errorf("git status:\n%s", status)
			}
			if err := spoil(index); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Remove(t.Context(), w.Root(), "refs/plait/t/last", git.Caches{}); err != nil || got != tree {
				t.Errorf("removed: %s, %v; want %s", got, err, tree)
			}
		})
	}
}

// A mirror or a repository whose files a power cut emptied is made again.
func TestEmptiedRepository(t *testing.T) {
	from := commit(t, files{"a": "a\n"})
	mirror, repo := filepath.Join(newDir(t), "mirror"), newDir(t)
	opened := func() *git.Mirror {
		m, err := git.OpenMirror(t.Context(), mirror, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := git.Init(repo, "", m.Objects()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	opened()
	for _, name := range []string{"HEAD", "config"} {
		for _, dir := range []string{mirror, filepath.Join(repo, ".git")} {
			if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := opened().Fetch(t.Context(), from); err != nil {
			t.Errorf("%s is empty: %v", name, err)
		}
		head := userGit(t, from, "rev-parse", "HEAD")
		if err := open(t, repo).SetHead(t.Context(), head); err != nil {
			t.Errorf("%s is empty: %v", name, err)
		}
	}
}
