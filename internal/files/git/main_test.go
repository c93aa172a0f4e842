package git_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// TestMain gives the tests their own home directory: the configuration of the
// machine's user must not matter.
func TestMain(m *testing.M) {
	housetest.OwnMounts()
	flag.Parse()
	home := housetest.GitHome(testing.Short(),
		"[core]\n\texcludesFile = ~/ignored\n[protocol \"file\"]\n\tallow = always\n")
	if home == "" {
		return
	}
	os.WriteFile(filepath.Join(home, "ignored"), []byte("*.secret\n"), 0o600)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left, err := filepath.Glob(filepath.Join(home, ".cache/plait/git/*")); err != nil || len(left) > 0 {
			fmt.Println("private git directories are left:", left, err)
			code = 1
		}
		os.RemoveAll(home)
		os.Exit(code)
	}))
}

// userGit runs git as a user or an agent would, and returns its output.
func userGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, errs.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// files describes a tree: the content by path. "link:" means a symbolic link,
// "exec:" a program.
type files map[string]string

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for name, text := range f {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
		var err error
		if to, ok := strings.CutPrefix(text, "link:"); ok {
			err = os.Symlink(to, path)
		} else if strings.HasPrefix(text, "exec:") {
			err = os.WriteFile(path, []byte(text), 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readFiles reads back what files wrote; it skips git directories.
func readFiles(t testing.TB, dir string) files {
	t.Helper()
	f := files{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.Name() == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			f[rel] = "link:" + to
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, _ := d.Info()
			if want := strings.HasPrefix(string(b), "exec:"); want != (info.Mode()&0o100 != 0) {
				t.Errorf("%q: mode %v", rel, info.Mode())
			}
			f[rel] = string(b)
		default:
			f[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// treeFiles reads a git tree as files.
func treeFiles(t testing.TB, dir, tree string) files {
	t.Helper()
	f := files{}
	out := userGit(t, dir, "ls-tree", "-r", "-z", tree)
	for _, entry := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		what, path, ok := strings.Cut(entry, "\t")
		if !ok {
			continue
		}
		w := strings.Fields(what)
		switch w[0] {
		case "160000":
			f[path] = "gitlink"
		case "120000":
			f[path] = "link:" + blob(t, dir, w[2])
		default:
			f[path] = blob(t, dir, w[2])
			if want := strings.HasPrefix(f[path], "exec:"); want != (w[0] == "100755") {
				t.Errorf("%q in the tree: mode %s", path, w[0])
			}
		}
	}
	return f
}

func blob(t testing.TB, dir, id string) string {
	t.Helper()
	cmd := exec.Command("git", "cat-file", "blob", id)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// newDir returns an empty directory whose path has no links.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// commit makes a commit of f in a new repository.
func commit(t testing.TB, f files, initArgs ...string) string {
	t.Helper()
	dir := newDir(t)
	userGit(t, dir, append([]string{"init", "-q"}, initArgs...)...)
	f.write(t, dir)
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

func open(t testing.TB, dir string) *git.Repo {
	t.Helper()
	r, err := git.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func snapshot(t testing.TB, r *git.Repo, ref string) string {
	t.Helper()
	tree, err := r.Snapshot(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// checkout makes a worktree of tree and returns it.
func checkout(t testing.TB, r *git.Repo, tree string) *git.Repo {
	t.Helper()
	dir := filepath.Join(newDir(t), "w")
	if err := r.Checkout(context.Background(), dir, tree); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func userCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	return cmd
}
