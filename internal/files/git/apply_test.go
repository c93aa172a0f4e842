package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

func TestApply(t *testing.T) {
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 12) + "f"
	for _, tt := range []struct {
		name     string
		from, to files // to: changes of from
	}{
		{"nothing", files{"a": "1"}, files{}},
		{"changed, new, gone", files{"a": "1", "b": "1", "d/e/f": "1"},
			files{"a": "2", "b": "", "d/e/f": "", "n/e/w": "3"}},
		{"strange names", files{"a\nb": "1", "\xff": "1"}, files{"a\nb": "2", "\xff": "", "-rf": "1", ":(top)x": "2",
			"*": "3", `q"\`: "4"}},
		{"long", files{"a": "1"}, files{deep: "1"}},
		{"modes", files{"a": "1", "x": "exec:1"}, files{"a": "exec:1", "x": "1"}},
		{"links", files{"l": "link:a", "f": "1", "m": "link:a"}, files{"l": "link:../../etc", "f": "link:/etc/passwd",
			"m": "1"}},
		{"file becomes directory", files{"a": "1", "l": "link:d", "d/x": "1"},
			files{"a": "", "a/b/c": "2", "l": "", "l/x": "2"}},
		{"directory becomes file", files{"a/b/c": "1", "a/d": "2", "l/x": "1"},
			files{"a/b/c": "", "a/d": "", "a": "1", "l/x": "", "l": "link:a"}},
		{"rules become directories", files{".gitignore": "*.o\n", "d/.gitattributes": "* text\n"},
			files{".gitignore": "", ".gitignore/x": "1", "d/.gitattributes": "", "d": "1"}},
		{"case", files{"readme": "1"}, files{"readme": "", "README": "1", "Readme": "2"}},
		{"rules", files{".gitignore": "*.o\n", "a": "1"}, files{".gitignore": "*.x\n", "a.o": "1"}},
		{"line ends of attributes", files{".gitattributes": "*.txt text eol=crlf\n", "a.txt": "1\n2\n", "b.txt": "1\n"},
			files{"a.txt": "1\n3\n", "b.txt": "", "c.txt": "1\n"}},
		{"attributes change", files{".gitattributes": "*.txt text eol=crlf\n", "a.txt": "1\n2\n", "gone.txt": "1\n"},
			files{".gitattributes": "a.txt text eol=lf\nb.txt text eol=crlf\n", "a.txt": "1\n3\n", "b.txt": "1\n",
				"gone.txt": ""}},
		{"ident", files{".gitattributes": "* ident\n", "a": "$Id$\n1\n"}, files{"a": "$Id$\n2\n"}},
		{"many", many("1"), many("2")},
	} {
		for _, how := range []string{"plain", "crlf"} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				dir := commit(t, files{"a": "first\r\n"})
				if how == "crlf" {
					userGit(t, dir, "config", "core.autocrlf", "true")
				}
				remove(t, filepath.Join(dir, "a"))
				r := open(t, dir)
				from, to := makeTree(t, dir, tt.from), makeTree(t, dir, tt.from.with(tt.to))
				empty := snapshot(t, r, "")
				roundTrip(t, r, dir, empty, from) // writes all
				roundTrip(t, r, dir, from, to)
				roundTrip(t, r, dir, to, from)
				roundTrip(t, r, dir, from, empty)
				if list, _ := os.ReadDir(dir); len(list) != 1 {
					t.Errorf("left over: %v", list)
				}
			})
		}
	}
}

func many(text string) files {
	f := files{}
	for i := range 300 {
		f[fmt.Sprintf("d%d/%d", i%7, i)] = text
	}
	return f
}

// roundTrip applies to twice and compares a snapshot with it.
func roundTrip(t testing.TB, r *git.Repo, dir, from, to string) {
	t.Helper()
	before := state(t, dir)
	for range 2 {
		if err := r.Apply(context.Background(), from, to); err != nil {
			t.Fatal(err)
		}
	}
	if after := state(t, dir); after != before {
		t.Error("index, HEAD or refs changed")
	}
	if got := snapshot(t, r, ""); got != to {
		t.Errorf("snapshot (-want +got):\n%s", cmp.Diff(treeFiles(t, dir, to), treeFiles(t, dir, got)))
	}
}

// TestApplyLineEnds uses an index with line endings that the settings would not have
// produced, and that git would therefore convert.
func TestApplyLineEnds(t *testing.T) {
	dir := commit(t, files{"a": "1\r\n2\r\n", "b": "1\r\n"})
	userGit(t, dir, "config", "core.autocrlf", "true")
	r := open(t, dir)
	from := snapshot(t, r, "")
	to := makeTree(t, dir, files{"a": "1\n3\n", "b": "1\r\n2\r\n", "c": "1\n"})
	roundTrip(t, r, dir, from, to)
	if diff := cmp.Diff(files{"a": "1\n3\n", "b": "1\r\n2\r\n", "c": "1\r\n"}, readFiles(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestApplyKeepsPermissions(t *testing.T) {
	dir := commit(t, files{"a": "1", "b": "1"})
	r := open(t, dir)
	from := snapshot(t, r, "")
	for _, name := range []string{"a", "b"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Apply(context.Background(), from, makeTree(t, dir, files{"a": "2", "b": "exec:"})); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"a": 0o600, "b": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// TestApplyChanged uses work trees that are not as in from: nothing may be touched.
func TestApplyChanged(t *testing.T) {
	from := files{".gitignore": "*.log\n", "a": "1", "d/x": "1", "gone": "1", "dir/x": "1"}
	to := files{"a": "2", "d/x": "2", "new/f": "3", "gone": "", "o.log": "4", "dir/x": "", "dir": "5", "d/n": "6"}
	fifo := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name string
		then func(t *testing.T, dir string)
		says string
	}{
		{"changed", put(files{"a": "mine"}), `["a"]`},
		{"changed, and marked as unchanged", func(t *testing.T, dir string) {
			userGit(t, dir, "update-index", "--assume-unchanged", "a")
			files{"a": "mine"}.write(t, dir)
		}, `["a"]`},
		{"changed mode", put(files{"a": "exec:"}), `["a"]`},
		{"changed type", put(files{"a": "link:d"}), `["a"]`},
		{"deleted", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "a")) }, `["a"]`},
		{"changed what is to go", put(files{"gone": "mine"}), `["gone"]`},
		{"FIFO in place of what is to go", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "gone"))
			fifo("gone")(t, dir)
		}, `["gone"]`},
		{"there already", put(files{"new/f": "mine"}), `["new/f"]`},
		{"file where a directory is to be", put(files{"new": "mine"}), `["new/f"]`},
		{"directory where a file is to be", put(files{"new/f/x": "mine"}), `["new/f"]`},
		{"FIFO", fifo("o.log"), `["o.log"]`},
		{"ignored file there already", put(files{"o.log": "mine"}), `["o.log"]`},
		{"ignored file in a directory that goes", put(files{"dir/my.log": "mine"}), `["dir"]`},
		{"link in place of a directory", func(t *testing.T, dir string) {
			away := newDir(t)
			files{"x": "1"}.write(t, away)
			remove(t, filepath.Join(dir, "d"))
			files{"d": "link:" + away}.write(t, dir)
		}, `["d/n" "d/x"]`},
		{"link to its like", func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
				t.Fatal(err)
			}
			files{"d": "link:e"}.write(t, dir)
		}, `["d/n" "d/x"]`},
		{"link where a directory is to be", put(files{"new": "link:."}), `["new/f"]`},
		{"link to the git directory", put(files{"new": "link:.git"}), `["new/f"]`},
		{"repository inside", func(t *testing.T, dir string) {
			userGit(t, dir, "init", "-q", "new")
			userGit(t, filepath.Join(dir, "new"), "commit", "-q", "--allow-empty", "-m", "x")
		}, `["new/f"]`},
		{"repository where a file is to be", func(t *testing.T, dir string) { userGit(t, dir, "init", "-q", "new/f") },
			`["new/f"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := commit(t, from)
			r := open(t, dir)
			base, target := snapshot(t, r, ""), makeTree(t, dir, from.with(to))
			tt.then(t, dir)
			before := readFiles(t, dir)
			err := r.Apply(context.Background(), base, target)
			if !errors.Is(err, git.ErrChanged) || !strings.HasSuffix(err.Error(), tt.says) {
				t.Errorf("Apply returned %v", err)
			}
			if diff := cmp.Diff(before, readFiles(t, dir)); diff != "" {
				t.Errorf("touched (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		dir := commit(t, many("1"))
		r := open(t, dir)
		base := snapshot(t, r, "")
		many("mine").write(t, dir)
		err := r.Apply(context.Background(), base, makeTree(t, dir, many("2")))
		if !errors.Is(err, git.ErrChanged) || !strings.HasSuffix(err.Error(), "and 280 more") {
			t.Errorf("Apply returned %v", err)
		}
	})
}

// TestApplyBesides makes changes that do not concern Apply.
func TestApplyBesides(t *testing.T) {
	from := files{".gitignore": "*.log\n", "a": "1", "b": "1", "d/x": "1", "e/x": "1"}
	dir := commit(t, from)
	r := open(t, dir)
	base := snapshot(t, r, "")
	change := files{"a": "2", "d/x": "", "e/x": "", "e": "2", "new": "3"}
	target := makeTree(t, dir, from.with(change))
	mine := files{"b": "mine", "d/my.log": "mine", "other": "mine", ".plait/x": "mine", "new": "3",
		git.Fresh("a"): "of a crash"}
	mine.write(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "e/empty/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.Apply(context.Background(), base, target); err != nil {
		t.Fatal(err)
	}
	want := from.with(mine).with(change).with(files{git.Fresh("a"): ""})
	if diff := cmp.Diff(want, readFiles(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestApplyRefused uses trees that cannot be applied to any work tree.
func TestApplyRefused(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1", "in/x": "1", "out/x": "1"})
	r := open(t, dir)
	base := snapshot(t, r, "")
	head := userGit(t, dir, "rev-parse", "HEAD")
	link := mkTree(t, dir, strings.ReplaceAll(userGit(t, dir, "ls-tree", base), "\n", "\x00"), "160000 commit "+head+
		"\tsub")
	if err := r.Apply(ctx, base, link); !errors.Is(err, git.ErrRefused) {
		t.Errorf("submodule: %v", err)
	}
	for _, name := range []string{git.Fresh("a"), git.Fresh("n")} {
		f := files{"a": "2", "in/x": "1", "out/x": "1", "n": "1", name: "1"}
		if err := r.Apply(ctx, base, makeTree(t, dir, f)); !errors.Is(err, git.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, changed := makeTree(t, dir, files{"a": "1", "in/x": "1"}),
		makeTree(t, dir, files{"a": "2", "in/x": "1", "out/x": "2"})
	userGit(t, dir, "sparse-checkout", "set", "--cone", "in")
	r = open(t, dir)
	if err := r.Apply(ctx, base, gone); !errors.Is(err, git.ErrRefused) {
		t.Errorf("sparse: %v", err)
	}
	roundTrip(t, r, dir, base, changed)
	if err := r.Apply(ctx, "HEAD", base); err == nil {
		t.Error("took a name for a tree")
	}
}
