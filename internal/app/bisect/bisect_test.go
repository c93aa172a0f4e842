package bisect_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine/attempt"
)

// four is a flow whose steps add a line to n each.
const four = `
version: 1
name: four
roles:
  a: {access: write, agent: {kind: command, command: [sh, -ec, "echo a >> n"]}}
  b: {access: write, agent: {kind: command, command: [sh, -ec, "echo b >> n"]}}
  c: {access: write, agent: {kind: command, command: [sh, -ec, "echo c >> n"]}}
  d: {access: write, agent: {kind: command, command: [sh, -ec, "echo d >> n"]}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: b, prompt: go}}
  b: {done: {role: c, prompt: "more, please"}}
  c: {done: {role: d, prompt: go}}
  d: {done: {role: $END}}
`

// TestVerdicts checks what the exit codes of the command mean.
func TestVerdicts(t *testing.T) {
	w := newWorld(t)
	row := w.run(four)
	for name, tt := range map[string]struct {
		script  string
		bad     string // the role of the first bad step
		between string // roles
		err     string
		usage   bool
	}{
		"found":    {script: "! grep c n", bad: "c"},
		"any code": {script: "! grep b n || exit 99", bad: "b"},
		"skips":    {script: "! grep d n || exit 1; ! grep b n || exit 125", bad: "d", between: "bc"},
		"bad first": {script: "echo so; exit 3", err: "no step broke it: it fails on the files that the task began with: " +
			"exit code 3: so"},
		"good last":  {script: "true", err: "nothing is broken"},
		"skips last": {script: "! grep d n || exit 125", err: "the command skips (exit code 125)", usage: true},
		"no program": {script: "exec no-such-program", err: "the command cannot be run: exit code 127", usage: true},
		"signal":     {script: "! grep b n || kill -9 $$", err: "says nothing about the files"},
		"129":        {script: "! grep b n || exit 129", err: "exit code 129, which says nothing about the files"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := w.finder("sh", "-c", tt.script).Find(t.Context(), row)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || errors.Is(err, attempt.ErrUsage) != tt.usage {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			between := ""
			for _, s := range found.Between {
				between += s.Role
			}
			if err != nil || found.Bad.Role != tt.bad || between != tt.between {
				t.Errorf("it is %s after %q, want %s after %q: %v", found.Bad.Role, between, tt.bad, tt.between, err)
			}
		})
	}
	found, err := w.finder("sh", "-c", "! grep c n").Find(t.Context(), row)
	if err != nil || found.Bad.Prompt != "more, please" || found.Bad.Agent != "command" ||
		!strings.HasSuffix(found.Good.Step, "/2") || !strings.HasSuffix(found.Bad.Step, "/3") ||
		found.Trial.Output != "c" || found.Trial.Exit != 1 {
		t.Errorf("it says %+v: %v", found, err)
	}
	w.wantClean()
}

// TestInterrupted checks that an interrupted search leaves no worktree and changes no file.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	row := w.run(four)
	before := w.git("status", "--porcelain")
	ctx, interrupt := context.WithCancel(t.Context())
	f := w.finder("sh", "-c", "echo > began; exec sleep 60")
	go func() {
		for ctx.Err() == nil {
			if began, _ := filepath.Glob(filepath.Join(w.dir, ".plait", "worktrees", "trial-*", "began")); began != nil {
				interrupt()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := f.Find(ctx, row); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.wantClean()
	if after := w.git("status", "--porcelain"); after != before {
		t.Errorf("the files are %q, were %q", after, before)
	}
}

// TestTogether checks that a join is named if its paths break it only together, and that what people change is not
// taken for the work of a step.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	row := w.run(`
version: 1
name: together
roles:
  a: {access: write, agent: {kind: command, command: [sh, -ec, "echo a > a"]}}
  b: {access: write, agent: {kind: command, command: [sh, -ec, "echo b > b"]}}
graph:
  $START: {new: {role: f, prompt: go}}
  a: {done: {role: j}}
  b: {done: {role: j}}
  j: {joined: {role: $END}}
forks: {f: {forkPaths: [{pathId: a, childNodeId: a}, {pathId: b, childNodeId: b}]}}
joins: {j: {forkPathIds: [a, b]}}
`)
	found, err := w.finder("sh", "-c", "! test -e a -a -e b").Find(t.Context(), row)
	if err != nil || found.Bad.Role != "j" {
		t.Errorf("it is %+v: %v", found, err)
	}
}

// TestByHand changes files while a task waits between two steps.
func TestByHand(t *testing.T) {
	w := newWorld(t)
	yaml := strings.Replace(four, `"echo b >> n"`, `"test -e go || exit 1; echo b >> n"`, 1)
	row := w.start(yaml)
	if err := os.WriteFile(filepath.Join(w.dir, "go"), []byte("bug\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	row = w.resume(row)
	found, err := w.finder("sh", "-c", "! test -e go").Find(t.Context(), row)
	if err != nil || !found.Bad.ByHand || !strings.HasSuffix(found.Bad.Step, "/1") {
		t.Errorf("it is %+v: %v", found, err)
	}
}

// TestFromTheRecord checks that files which the repository has lost come from the record.
func TestFromTheRecord(t *testing.T) {
	w := newWorld(t)
	row := w.run(four)
	for _, ref := range strings.Fields(w.git("for-each-ref", "--format=%(refname)", "refs/plait/")) {
		w.git("update-ref", "-d", ref)
	}
	w.git("-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
	found, err := w.finder("sh", "-c", "! grep c n").Find(t.Context(), row)
	if err != nil || found.Bad.Role != "c" {
		t.Errorf("it is %+v: %v", found, err)
	}
}
