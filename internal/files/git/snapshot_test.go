package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// A scene is a work tree in some state, and what a snapshot of it must have.
type scene struct {
	name  string
	first files // committed
	then  func(t *testing.T, dir string)
	want  files
}

func put(f files) func(*testing.T, string) {
	return func(t *testing.T, dir string) { f.write(t, dir) }
}

func scenes() []scene {
	return []scene{
		{"unchanged", files{"a": "1", "d/b": "2"}, put(nil), files{"a": "1", "d/b": "2"}},
		{"changed, new and executable", files{"a": "1", "x": "exec:1"},
			put(files{"a": "2", "new/deep/file": "3", "y": "exec:2"}),
			files{"a": "2", "x": "exec:1", "new/deep/file": "3", "y": "exec:2"}},
		{"strange names", files{"a b": "1"},
			put(files{"new\nline": "2", "tab\there": "3", "\xff\xfe": "4", `q"\`: "5", "-rf": "6", ":(top)x": "7",
				"*": "8", "ü": "9"}),
			files{"a b": "1", "new\nline": "2", "tab\there": "3", "\xff\xfe": "4", `q"\`: "5", "-rf": "6",
				":(top)x": "7", "*": "8", "ü": "9"}},
		{"symbolic links", files{"l": "link:a", "f": "x"},
			put(files{"l": "link:/etc/passwd", "f": "link:nowhere", "d/l": "link:.."}),
			files{"l": "link:/etc/passwd", "f": "link:nowhere", "d/l": "link:.."}},
		{"deleted", files{"a": "1", "d/b": "2", "c": "3"}, func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "d"))
			remove(t, filepath.Join(dir, "a"))
		}, files{"c": "3"}},
		{"ignored", files{".gitignore": "*.o\n!keep.o\n", "a": "1"},
			put(files{"b.o": "x", "keep.o": "y", "d/c.o": "z", "key.secret": "of the user"}),
			files{".gitignore": "*.o\n!keep.o\n", "a": "1", "keep.o": "y"}},
		{"info/exclude", files{"a": "1"}, put(files{".git/info/exclude": "log\n", "log": "x", "b": "2"}),
			files{"a": "1", "b": "2"}},
		{"tracked though ignored", files{"a": "1"}, func(t *testing.T, dir string) {
			files{".gitignore": "*.o\n", "f.o": "1"}.write(t, dir)
			userGit(t, dir, "add", "-f", "f.o")
			files{"f.o": "2"}.write(t, dir)
		}, files{"a": "1", ".gitignore": "*.o\n", "f.o": "2"}},
		{"plait's own", files{".plait/config.yaml": "tracked", "a": "1", "sub/.plait/x": "not the root's"},
			put(files{".plait/tasks/t/x": "1", ".plaitx": "other", ".gitignore": "!/.plait/\n"}),
			files{"a": "1", ".plaitx": "other", ".gitignore": "!/.plait/\n", "sub/.plait/x": "not the root's"}},
		{"file becomes directory", files{"a": "1", "d/b": "2"}, func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "d"))
			remove(t, filepath.Join(dir, "a"))
			files{"a/x": "3", "d": "4"}.write(t, dir)
		}, files{"a/x": "3", "d": "4"}},
		{"directory becomes link to its like", files{"d/b": "2"}, func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
				t.Fatal(err)
			}
			files{"d": "link:e"}.write(t, dir)
		}, files{"d": "link:e", "e/b": "2"}},
		{"directory becomes ignored link", files{"d/b": "2", ".gitignore": "e\n"}, func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
				t.Fatal(err)
			}
			files{"d": "link:e", ".gitignore": "d\ne\n"}.write(t, dir)
		}, files{".gitignore": "d\ne\n"}},
		{"file becomes FIFO", files{"a": "1", "b": "2"}, func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "a"))
			for _, name := range []string{"a", "new"} {
				if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, files{"b": "2"}},
		{"staged, then changed again", files{"a": "1"}, func(t *testing.T, dir string) {
			files{"a": "2", "n": "1"}.write(t, dir)
			userGit(t, dir, "add", "-A")
			files{"a": "3", "n": "2", "i": "3"}.write(t, dir)
			userGit(t, dir, "add", "-N", "i")
		}, files{"a": "3", "n": "2", "i": "3"}},
		{"marked as unchanged", files{"a": "1", "s": "1", "gone": "1", "away": "1"}, func(t *testing.T, dir string) {
			userGit(t, dir, "update-index", "--assume-unchanged", "a", "gone")
			userGit(t, dir, "update-index", "--skip-worktree", "s", "away")
			files{"a": "2", "s": "2"}.write(t, dir)
			remove(t, filepath.Join(dir, "gone"))
			remove(t, filepath.Join(dir, "away"))
		}, files{"a": "2", "s": "2", "away": "1"}},
		{"in conflict", files{"a": "1", "b": "1"}, func(t *testing.T, dir string) {
			userGit(t, dir, "checkout", "-q", "-b", "other")
			files{"a": "2"}.write(t, dir)
			remove(t, filepath.Join(dir, "b"))
			userGit(t, dir, "commit", "-qam", "other")
			userGit(t, dir, "checkout", "-q", "main")
			files{"a": "3", "b": "3"}.write(t, dir)
			userGit(t, dir, "commit", "-qam", "main")
			runFails(t, dir, "merge", "other")
			files{"a": "merged"}.write(t, dir)
			remove(t, filepath.Join(dir, "b"))
		}, files{"a": "merged"}},
		{"sparse", files{"a": "1", "in/b": "2", "out/c": "3"}, func(t *testing.T, dir string) {
			userGit(t, dir, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
			files{"in/b": "4"}.write(t, dir)
		}, files{"a": "1", "in/b": "4", "out/c": "3"}},
		{"split index", files{"a": "1", "b": "2"}, func(t *testing.T, dir string) {
			userGit(t, dir, "update-index", "--split-index")
			files{"a": "3"}.write(t, dir)
		}, files{"a": "3", "b": "2"}},
		{"no index", files{"a": "1", "b": "2"}, func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git/index"))
		}, files{"a": "1", "b": "2"}},
		{"nested repositories", files{"a": "1"}, func(t *testing.T, dir string) {
			files{"n/x": "1", "e/y": "2", "a": "2"}.write(t, dir)
			userGit(t, dir, "init", "-q", "e") // without a commit
			userGit(t, dir, "init", "-q", "n")
			userGit(t, filepath.Join(dir, "n"), "add", "-A")
			userGit(t, filepath.Join(dir, "n"), "commit", "-qm", "nested")
		}, files{"a": "2"}},
		{"repository around what is tracked", files{"d/a": "1"}, func(t *testing.T, dir string) {
			userGit(t, dir, "init", "-q", "d")
			files{"d/a": "2", "d/b": "3"}.write(t, dir)
		}, files{"d/a": "2", "d/b": "3"}},
		{"submodule", files{"a": "1"}, func(t *testing.T, dir string) {
			from := commit(t, files{"s": "1"})
			userGit(t, dir, "submodule", "--quiet", "add", from, "sub")
			files{"sub/s": "2"}.write(t, dir)
			userGit(t, filepath.Join(dir, "sub"), "commit", "-qam", "moved on")
			remove(t, filepath.Join(dir, ".gitmodules"))
		}, files{"a": "1", "sub": "gitlink"}},
		{"line ends", files{"a": "1\n"}, func(t *testing.T, dir string) {
			files{".gitattributes": "*.txt text eol=crlf\n", "a.txt": "1\r\n", "b.bin": "2\r\n"}.write(t, dir)
		}, files{"a": "1\n", ".gitattributes": "*.txt text eol=crlf\n", "a.txt": "1\n", "b.bin": "2\r\n"}},
		{"empty", nil, put(nil), files{}},
	}
}

func runFails(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := userCommand(dir, args...)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("git %q was to fail: %s", args, out)
	}
}

// TestSnapshot takes a snapshot of each scene and checks that this changes nothing.
func TestSnapshot(t *testing.T) {
	for _, sc := range scenes() {
		for _, format := range []string{"sha1", "sha256"} {
			if sc.name == "submodule" && format == "sha256" {
				continue // git cannot mix formats
			}
			t.Run(sc.name+"/"+format, func(t *testing.T) {
				t.Parallel()
				dir := commit(t, sc.first, "--object-format="+format)
				sc.then(t, dir)
				before := still(t, dir)
				tree := snapshot(t, open(t, dir), "refs/plait/t/1")
				if diff := cmp.Diff(before, still(t, dir)); diff != "" {
					t.Errorf("the snapshot changed something (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(sc.want, treeFiles(t, dir, tree)); diff != "" {
					t.Errorf("tree (-want +got):\n%s", diff)
				}
				if got := userGit(t, dir, "rev-parse", "refs/plait/t/1^{tree}"); got != tree {
					t.Errorf("the ref keeps %s, want %s", got, tree)
				}
				if got := userGit(t, dir, "log", "-1", "--format=%P|%an|%cn|%at|%ct|%B",
					"refs/plait/t/1"); got != userGit(t, dir, "rev-parse", "HEAD")+"|plait|plait|0|0|refs/plait/t/1\n" {
					t.Errorf("the commit is %q", got)
				}
			})
		}
	}
}

// still returns what a snapshot must leave alone.
func still(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{"files": fmt.Sprint(readFiles(t, dir))}
	for _, name := range []string{"index", "HEAD", "config", "refs/heads/main", "logs/HEAD"} {
		b, _ := os.ReadFile(filepath.Join(dir, ".git", name))
		m[name] = string(b)
	}
	list, err := os.ReadDir(filepath.Join(dir, ".git"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		m["entries"] += d.Name() + " "
	}
	return m
}

func TestSnapshotWithoutCommits(t *testing.T) {
	dir := newDir(t)
	userGit(t, dir, "init", "-q")
	r := open(t, dir)
	if got := treeFiles(t, dir, snapshot(t, r, "refs/plait/t/1")); len(got) > 0 {
		t.Errorf("the tree of nothing has %v", got)
	}
	files{"a": "1"}.write(t, dir)
	tree := snapshot(t, r, "refs/plait/t/2")
	if diff := cmp.Diff(files{"a": "1"}, treeFiles(t, dir, tree)); diff != "" {
		t.Error(diff)
	}
	if parents := userGit(t, dir, "log", "-1", "--format=%P", "refs/plait/t/2"); parents != "" {
		t.Errorf("parents %q", parents)
	}
}

func TestSnapshotIsDeterministic(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	snapshot(t, r, "refs/plait/t/1")
	first := userGit(t, dir, "rev-parse", "refs/plait/t/1")
	if err := r.DropRefs(context.Background(), "refs/plait/t/"); err != nil {
		t.Fatal(err)
	}
	snapshot(t, open(t, dir), "refs/plait/t/1")
	if again := userGit(t, dir, "rev-parse", "refs/plait/t/1"); again != first {
		t.Errorf("commit %s, then %s", first, again)
	}
}

// TestSnapshotsAtOnce takes many snapshots of one tree concurrently, while the user's
// git works in it too.
func TestSnapshotsAtOnce(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	for i := range 50 {
		files{fmt.Sprintf("f%d", i): fmt.Sprint(i)}.write(t, dir)
	}
	r := open(t, dir)
	want := snapshot(t, r, "")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			other, err := git.Open(context.Background(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 3 {
				tree, err := other.Snapshot(context.Background(), fmt.Sprintf("refs/plait/t%d/%d", i, n))
				if err != nil || tree != want {
					t.Errorf("snapshot %s, want %s: %v", tree, want, err)
				}
			}
		})
	}
	for range 5 {
		userGit(t, dir, "add", "-A")
		userGit(t, dir, "reset", "-q")
	}
	wg.Wait()
	refs, err := r.Refs(context.Background(), "refs/plait/")
	if err != nil || len(refs) != 18 {
		t.Errorf("%d refs kept, want 18: %v", len(refs), err)
	}
}

// TestIndexKeepsItsTime checks that a copy keeps the index's time, which git needs to
// notice a file changed, without changing size, in the instant the index was written.
func TestIndexKeepsItsTime(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	index, copied := filepath.Join(dir, ".git/index"), filepath.Join(newDir(t), "index")
	long := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	if err := os.Chtimes(index, long, long); err != nil {
		t.Fatal(err)
	}
	if err := git.CopyIndex(index, copied); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	if !info.ModTime().Equal(long) {
		t.Errorf("the copy is of %v, the index of %v", info.ModTime(), long)
	}
}

func TestSnapshotEnds(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	// git would wait for a writer.
	if err := syscall.Mkfifo(filepath.Join(dir, ".gitignore"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Snapshot(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestSnapshotOfUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := commit(t, files{"a": "1"})
	files{"d/b": "2"}.write(t, dir)
	closed := filepath.Join(dir, "d")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o755)
	if tree, err := open(t, dir).Snapshot(context.Background(), ""); err == nil {
		t.Errorf("tree %s lacks what could not be read", tree)
	}
}
