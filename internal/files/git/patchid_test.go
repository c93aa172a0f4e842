package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/files/git"
)

// TestChange names commits, ranges and roots, and finds the same patch after a rebase.
func TestChange(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) { t.Helper(); userGit(t, dir, args...) }
	file := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q", "-b", "main")
	const lines = "1\n2\n3\n4\n5\n6\n7\n"
	file("a", lines+"8\n")
	run("add", ".")
	run("commit", "-qm", "root")
	file("a", lines+"eight\n")
	file(".plait/flows/f.yaml", "x\n")
	run("add", "-f", ".")
	run("commit", "-qm", "change")
	r, err := git.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	look := func(named string) (git.Change, string) {
		t.Helper()
		c, err := r.Change(t.Context(), named)
		if err != nil {
			t.Fatal(err)
		}
		id, err := r.PatchID(t.Context(), c.Before, c.After)
		if err != nil || id == "" {
			t.Fatalf("%s: patch %q, %v", named, id, err)
		}
		return c, id
	}
	root, _ := look("HEAD~1")
	one, patch := look("HEAD")
	if ranged, again := look("HEAD~1..HEAD"); ranged != one || again != patch {
		t.Errorf("a range is %+v with %s, the commit %+v with %s", ranged, again, one, patch)
	}
	if one.Before != root.After {
		t.Errorf("before %s, the commit before left %s", one.Before, root.After)
	}
	if changed, err := r.Changed(t.Context(), one.Before, one.After); err != nil || len(changed) != 1 {
		t.Errorf("changed %q, %v: .plait/ is no part of it", changed, err)
	}
	run("checkout", "-q", "-b", "other", "HEAD~1")
	file("a", "0\n"+lines+"8\n")
	run("commit", "-qam", "other")
	run("cherry-pick", "main")
	if two, again := look("HEAD"); again != patch || two.After == one.After {
		t.Errorf("after a rebase the patch is %s, was %s", again, patch)
	}
	for i, text := range []string{"rm -rf /tmp/x\n", "rm -rf / tmp/x\n"} {
		run("checkout", "-q", "--detach", "main")
		file("a", lines+text)
		run("commit", "-qam", "white space")
		if _, id := look("HEAD"); i == 0 {
			patch = id
		} else if id == patch {
			t.Error("patches that differ in white space have one id")
		}
	}
	for _, named := range []string{"", "nothing", "HEAD..", "..HEAD", "--all", "HEAD..x", "HEAD^{tree}", "a\nb"} {
		if c, err := r.Change(t.Context(), named); !errors.Is(err, git.ErrNoCommit) {
			t.Errorf("%q: got %+v, %v", named, c, err)
		}
	}
}
