package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/testing/forgetest"
)

// TestForgeTheirs has a person with commits of their own: before the task, which are not published for them, and
// during a round, the same correction. At last the forge is broken for a while.
func TestForgeTheirs(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.git("checkout", "-q", "-b", "dev")
	p.git("commit", "-q", "--allow-empty", "-m", "Mine")
	if out, code := p.run("run", "--issue", "7", "-q"); code != 0 {
		t.Fatalf("run: exit code %d: %s", code, out)
	}
	if out, code := p.run("task", "pr", "last"); code != 7 || !strings.Contains(out, "is not on origin") ||
		len(p.forge.Requests) != 0 {
		t.Fatalf("commits that were not pushed: exit code %d: %s", code, out)
	}
	p.git("push", "-q", "-u", "origin", "dev")
	var done requested
	p.json(0, &done, "task", "pr", "last")
	if base := p.forge.Requests[0].Base; !done.Created || base != "dev" {
		t.Errorf("the base is %s", base)
	}

	other := filepath.Join(p.work, "other")
	p.git("clone", "-q", "-b", done.Branch, p.forge.Dir, other)
	for name, text := range map[string]string{"other/notes.md": "# Notes\nvalue: three\nend\n",
		"theirs": "rm " + p.work + "/theirs; cd " + other + " && git push -q origin HEAD\n"} {
		if err := os.WriteFile(filepath.Join(p.work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.git("-C", other, "commit", "-qam", "Make it three")
	p.check(done.Branch, "success")
	p.review(done.Branch)
	var w seenWatch
	p.json(0, &w, "pr", "watch", done.Task, "--once")
	if w.State != "wait" || len(w.Rounds) != 1 || p.value(done.Branch) != "three" || p.replies() != 1 {
		t.Fatalf("they pushed the same: %+v, value %s, %d replies", w, p.value(done.Branch), p.replies())
	}
	p.forge.Change(func(d *forgetest.Data) { d.Requests[0].Fused, d.Broken = true, 1 })
	p.json(0, &w, "pr", "watch", done.Task)
	if w.State != "ended" {
		t.Errorf("after a bad gateway: %+v", w)
	}
}
