package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// TestRemove checks that tasks are removed one by one up to one that is driven, and that the views show none of them.
func TestRemove(t *testing.T) {
	h := newHouse(t, loopAgents())
	row := h.run(loop)
	c := h.controller()
	fork, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: "3"})
	if err != nil {
		t.Fatal(err)
	}
	begin := func() store.Thread {
		row, err := c.Begin(t.Context(), Spec{Bundle: mustPack(t, loop).Bundle, Prompt: "do it", Workspace: h.dir})
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	other, driven := h.drive(c, begin().ID, Resume{}), begin()
	bundle := filepath.Join(h.home, "bundles", row.Bundle.String())
	if _, err := os.Stat(filepath.Join(bundle, "threads.json")); err != nil || other.Bundle != row.Bundle {
		t.Fatalf("the views of %s: %v", other.Bundle, err)
	}
	instructions := filepath.Join(h.home, "instructions", row.ID+".json")
	if _, err := os.Stat(instructions); err != nil {
		t.Error(err)
	}
	lease, err := h.store.Acquire(t.Context(), driven.ID)
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	each := func(row store.Thread) error { removed = append(removed, row.ID); return nil }
	var held *store.HeldError
	if err := c.Remove(t.Context(), []string{row.ID, other.ID, driven.ID}, each); !errors.As(err, &held) {
		t.Fatalf("a task that is driven: %v", err)
	}
	if !slices.Equal(removed, []string{row.ID, other.ID}) {
		t.Errorf("removed: %v", removed)
	}
	lease.Release()
	for _, file := range []string{"threads.json", "history"} {
		err := filepath.WalkDir(filepath.Join(bundle, file), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if strings.Contains(string(data), row.ID) || strings.Contains(string(data), other.ID) {
				t.Errorf("%s tells of what was removed:\n%s", path, data)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := h.store.Thread(t.Context(), row.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the row is still there: %v", err)
	}
	for _, path := range []string{filepath.Join(h.dir, ".plait", "tasks", row.ID), instructions} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	wantStatus(t, h.drive(c, fork.ID, Resume{}), store.Completed, "")
}

// TestExpire removes the tasks that ended before a time, and none that has not ended.
func TestExpire(t *testing.T) {
	h := newHouse(t, loopAgents())
	c := h.controller()
	row := h.run(loop)
	open, err := c.Begin(t.Context(), Spec{Bundle: mustPack(t, loop).Bundle, Prompt: "do it", Workspace: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		before int64
		dry    bool
		want   []string
	}{{row.EndedAt, false, nil}, {row.EndedAt + 1, true, []string{row.ID}}, {row.EndedAt + 1, false, []string{row.ID}},
		{row.EndedAt + 1, false, nil}} {
		if gone, left, err := c.Expire(t.Context(), try.before, try.dry); err != nil || left != 0 || !slices.Equal(gone, try.want) {
			t.Errorf("%+v: %v, %d left: %v", try, gone, left, err)
		}
	}
	if _, err := h.store.Thread(t.Context(), open.ID); err != nil {
		t.Errorf("one that has not ended: %v", err)
	}
}
