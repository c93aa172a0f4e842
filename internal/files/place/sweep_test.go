package place_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
)

// What is no longer needed is removed; what is being driven is not, however large it is.
func TestSweep(t *testing.T) {
	m := newTeam(t, working)
	m.begin(project(t), "", two)
	w := m.worker("a", t.TempDir())
	if err := w.trees.Prepare(t.Context(), w.row(t, taskID)); err != nil {
		t.Fatal(err)
	}
	at := w.row(t, taskID).Workspace
	there := func(want bool) {
		t.Helper()
		if err := w.place.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("%s: %v, want it there: %v", at, err, want)
		}
	}
	there(true)
	small, err := place.New(place.Config{Dir: w.dir, Store: m.record.Share(), Most: 10, Ended: func(task string) error {
		t.Errorf("task %s goes on, and what its agents kept is removed", task)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.place = small
	lease, err := m.record.Acquire(t.Context(), "thread-"+taskID)
	if err != nil {
		t.Fatal(err)
	}
	there(true)
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	there(false)
	w = m.worker("a", w.dir)
	w.finish(t) // it is made again
	if _, err := os.Lstat(at); err != nil {
		t.Fatal(err)
	}
	there(false)
	if !slices.Equal(w.ended, []string{taskID}) {
		t.Errorf("ended: %q", w.ended)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "trash", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSweepKeeps leaves the working trees of an ended task that have what the record cannot have, until the task is
// removed.
func TestSweepKeeps(t *testing.T) {
	m := newTeam(t, working)
	m.begin(project(t), "", two)
	w := m.worker("a", t.TempDir())
	w.finish(t)
	row := w.row(t, taskID)
	top := worktree.TreeIn(row.Workspace, taskID, "")
	ended := 0
	var log bytes.Buffer
	p, err := place.New(place.Config{Dir: w.dir, Store: m.record.Share(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Ended: func(string) error { ended++; return nil },
		Left: func(_ context.Context, row store.Thread) (bool, error) {
			return row.Workspace != "" && row.ID == taskID, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		trees, err := filepath.Glob(filepath.Join(filepath.Dir(top), "*"))
		if err != nil || !slices.Contains(trees, top) || slices.ContainsFunc(trees, func(name string) bool {
			return !strings.HasPrefix(name, top)
		}) {
			t.Errorf("left: %q, %v", trees, err)
		}
	}
	if n := strings.Count(log.String(), top); n != 1 || ended != 1 {
		t.Errorf("said %d times: %s; ended %d times", n, &log, ended)
	}
	if err := m.record.Commit(t.Context(), store.Batch{Remove: []string{taskID}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(row.Workspace); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left after the task: %v", row.Workspace, err)
	}
}

// A working tree that is removed to make room is made again, without what the record does not have.
func TestShed(t *testing.T) {
	m := newTeam(t, working)
	m.begin(project(t), "", two)
	w := m.worker("a", t.TempDir())
	row := w.row(t, taskID)
	prepare := func() {
		t.Helper()
		if err := w.trees.Prepare(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	prepare()
	large := filepath.Join(row.Tree, "large")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.trees.Shed(row); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(row.Tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree: %v", err)
	}
	prepare()
	if _, err := os.Lstat(large); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the record does not have: %v", err)
	}
	w.finish(t)
}
