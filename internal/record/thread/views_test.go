package thread_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestUpdateViews checks that an update yields the same as drawing everything, whatever happened to the
// threads and to the files in the meantime.
func TestUpdateViews(t *testing.T) {
	s := mem.New(mem.Config{})
	start := store.Object{Hash: dag.Sum([]byte("start")), Kind: store.Node, Data: []byte("start")}
	rows := map[string]store.Thread{}
	put := func(id, task string, status store.Status) {
		t.Helper()
		row := store.Thread{ID: id, Task: task, Root: task, Bundle: start.Hash, Start: start.Hash, Head: start.Hash,
			Status: status}
		if row.Ended() {
			row.EndedAt = 1700000000000 + int64(len(rows))
		}
		x := store.ThreadChange{Row: row}
		if old, ok := rows[id]; ok {
			x.From = old.State()
		}
		b := store.Batch{Objects: []store.Object{start}, Threads: []store.ThreadChange{x}}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		rows[id] = row
	}
	home, want := t.TempDir(), t.TempDir()
	file := func(name string) string { return filepath.Join(home, "bundles", start.Hash.String(), name) }
	day := file("history/2023-11-14.jsonl")
	update := func(what, task string) {
		t.Helper()
		for _, err := range []error{
			thread.Views{Dir: home, Index: s}.Update(t.Context(), start.Hash, task),
			thread.Views{Dir: want, Index: s}.Draw(t.Context(), start.Hash),
		} {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if diff := cmp.Diff(contents(t, want), contents(t, home)); diff != "" {
			t.Errorf("%s (-drawn +updated):\n%s", what, diff)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	put("A", "A", store.Running)
	update("the first task", "A")
	put("A.1", "A", store.Completed)
	update("a path that ended between two drawings", "A")
	put("B", "B", store.Blocked)
	put("A", "A", store.Failed)
	update("a task that ended, and another one", "A")
	update("nothing", "A")
	put("B", "B", store.Cancelled)
	put("C", "C", store.Pending)
	update("the end of a task whose Plait died before it drew it", "C")
	data, err := os.ReadFile(day)
	if err != nil {
		t.Fatal(err)
	}
	put("C", "C", store.Completed)
	write(day, string(data[:len(data)-3]))
	update("a torn history", "C")
	write(file("threads.json"), "{")
	update("torn threads", "C")
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	update("no files", "C")
	put("D", "D", store.Running)
	update("a fourth task", "D")
	if err := s.Commit(t.Context(), store.Batch{Remove: []string{"D"}}); err != nil {
		t.Fatal(err)
	}
	update("a task that was removed", "A")
}

// contents are the lines of all files below dir, sorted: a history lists threads as they were drawn.
func contents(t *testing.T, dir string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = slices.Sorted(strings.Lines(string(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
