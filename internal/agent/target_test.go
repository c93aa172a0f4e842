package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTarget(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"in": "a/b", "a/up": "..", "dangling": "a/new/x", "chain": "dangling",
		"out": "/nowhere/x",
		"abs": dir + "/in", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"": dir, "a/b": dir + "/a/b", "new/x": dir + "/new/x", "in/x": dir + "/a/b/x", "in/../x": dir + "/a/x",
		"a/up/x":   dir + "/x",
		"dangling": dir + "/a/new/x", "chain/y": dir + "/a/new/x/y", "out": "/nowhere/x", "abs/.": dir + "/a/b", "loop/x": "",
	} {
		if got, err := Target(dir + "/" + name); got != want || (err != nil) != (want == "") {
			t.Errorf("Target(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}
