package worktree_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestMain gives git its own home directory: the configuration of the machine's user must not matter.
func TestMain(m *testing.M) {
	flag.Parse()
	home := housetest.GitHome(testing.Short(), "")
	if home == "" {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(home)
		os.Exit(code)
	}))
}

// files maps paths to file contents.
type files map[string]string

// A site is a task in a workspace, whose threads take steps that record the files.
type site struct {
	*testing.T
	dir   string // the workspace
	store *mem.Store
	nodes *thread.Reader
	trees *worktree.Trees
	root  store.Thread
	clock int64
}

// newSite begins a task in a directory with files, under git or not. The task has taken one
// step, at which it can fork.
func newSite(t *testing.T, underGit bool, f files, setup ...string) *site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := mem.New(mem.Config{})
	t.Cleanup(func() { s.Close() })
	nodes := thread.NewReader(s)
	h := &site{
		T: t, dir: dir, store: s, nodes: nodes, clock: 1_700_000_000_000,
		trees: worktree.New(worktree.Config{Store: s, Reader: nodes, Setup: setup}),
	}
	h.write(dir, f)
	if underGit {
		h.git("init", "-q")
		h.git("add", "-A")
		h.git("commit", "-q", "--allow-empty", "-m", "first")
	}
	objects, row, err := thread.Begin(thread.NewTask{
		Row:    store.Thread{ID: "TASK", Workspace: dir, CreatedAt: h.now()},
		Bundle: thread.Bundle{Name: "work", Flows: map[string]json.RawMessage{"work": json.RawMessage("{}")}},
		Prompt: "do it",
	})
	h.must(err)
	h.root = h.step(h.add(objects, row), nil)
	return h
}

func (h *site) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *site) now() int64 { h.clock++; return h.clock }

// git runs git as the user would, and returns what it prints.
func (h *site) git(args ...string) string {
	h.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = h.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// unregister makes the repository forget its worktrees, as an agent that writes there can.
func (h *site) unregister() {
	h.Helper()
	h.must(os.RemoveAll(filepath.Join(h.dir, ".git", "worktrees")))
}

func (h *site) write(dir string, f files) {
	h.Helper()
	for name, text := range f {
		at := filepath.Join(dir, name)
		h.must(os.MkdirAll(filepath.Dir(at), 0o755))
		h.must(os.WriteFile(at, []byte(text), 0o644))
	}
}

// wantFiles compares the files of a directory; "" wants a file not to be there.
func (h *site) wantFiles(dir string, want files) {
	h.Helper()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if text == "" && err == nil || text != "" && string(got) != text {
			h.Errorf("%s in %s holds %q, want %q: %v", name, dir, got, text, err)
		}
	}
}

func (h *site) wantGone(path string) {
	h.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		h.Errorf("%s is there: %v", path, err)
	}
}

func (h *site) add(objects []store.Object, row store.Thread) store.Thread {
	h.Helper()
	row.Status = store.Running
	h.must(h.store.Commit(h.Context(), store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}}))
	return row
}

// change commits the new state of a row.
func (h *site) change(was, row store.Thread) store.Thread {
	h.Helper()
	h.must(h.store.Commit(h.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row, From: was.State()}}}))
	return row
}

// step commits a step of row.
func (h *site) step(row store.Thread, d *thread.Detail) store.Thread {
	h.Helper()
	return housetest.Append(h.Context(), h, h.store, row,
		thread.Draft{Role: "writer", Meta: json.RawMessage(`{}`), Detail: d, At: h.now()})
}

// path adds a path that forks from the task at its head, writes, and works where Place puts it.
func (h *site) path(id string) store.Thread {
	h.Helper()
	row := thread.Path(h.root, h.clock, store.Path{ID: id, Join: "gathered", N: 1}, h.now())
	var err error
	row.Tree, err = h.trees.Place(h.Context(), h.root, row)
	h.must(err)
	return h.add(nil, row)
}

// fork returns a user's fork of row at its head.
func (h *site) fork(row store.Thread, id string) store.Thread {
	h.Helper()
	return thread.Fork(row, id, thread.Step{Hash: row.Head}, row.Steps, h.now())
}

// ready adds a path and makes its tree.
func (h *site) ready(id string) store.Thread {
	h.Helper()
	row := h.path(id)
	h.must(h.trees.Prepare(h.Context(), row))
	return row
}

// work performs an attempt of an agent that writes files in the tree of row, and commits its step.
func (h *site) work(row store.Thread, f files) store.Thread {
	h.Helper()
	n := row.Steps + 1
	before, err := h.trees.Snapshot(h.Context(), row, worktree.Before(n))
	h.must(err)
	h.write(row.Tree, f)
	after, err := h.trees.Hold(h.Context(), row, "after")
	h.must(err)
	return h.step(row, &thread.Detail{
		Attempt: thread.AttemptID(row.ID, n), Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{},
		TreeBefore: &before, TreeAfter: &after,
	})
}

// done returns a path that wrote files and has reached its join.
func (h *site) done(id string, f files) store.Thread {
	h.Helper()
	row := h.work(h.ready(id), f)
	was := row
	row.Status, row.EndedAt = store.Completed, h.now()
	return h.change(was, row)
}
