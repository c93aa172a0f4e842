package taskdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestTrees checks which directory an entry's files are looked for in.
func TestTrees(t *testing.T) {
	s, dir := mem.New(mem.Config{}), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"ws", "tree", "own"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at(name), "name"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root := store.Thread{ID: "root", Root: "root", Task: "root", Workspace: at("ws"), Tree: at("tree")}
	var b store.Batch
	for id, tree := range map[string]string{"root": root.Tree, "own": at("own"), "plain": "", "lost": at("removed")} {
		row := root
		row.ID, row.Tree = id, tree
		b.Threads = append(b.Threads, store.ThreadChange{Row: row})
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	trees := NewTrees(s, root)
	defer trees.Close()
	for thread, want := range map[string]string{
		"root": "tree", "": "tree", "own": "own", "plain": "ws", "lost": "tree", "unknown": "tree",
	} {
		dir, err := trees.Of(t.Context(), Entry{Thread: thread})
		if err != nil || dir == nil {
			t.Fatalf("thread %q: %v, %v", thread, dir, err)
		}
		if got, err := dir.ReadFile("name"); err != nil || string(got) != want {
			t.Errorf("thread %q: files of %s, %v, want %s", thread, got, err, want)
		}
	}
	none := NewTrees(s, store.Thread{ID: "none", Workspace: at("removed")})
	if dir, err := none.Of(t.Context(), Entry{}); err != nil || dir != nil {
		t.Errorf("without a directory: %v, %v", dir, err)
	}
}
