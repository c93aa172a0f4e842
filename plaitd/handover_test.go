package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/plaitd/pgtest"
)

// repository makes the workspace a Git repository with a commit and uncommitted changes.
func (h *host) repository() {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.work, ".git")); err != nil {
		h.t.Fatal(err)
	}
	h.write("README", "read me\n")
	h.git("init", "-q", "-b", "main")
	h.git("add", "README")
	h.git("commit", "-q", "-m", "first")
	h.write("new", "not committed\n")
}

// git runs Git in the workspace, as a person would.
func (h *host) git(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", h.work, "-c", "user.name=Ada", "-c", "user.email=ada@example.com"},
		args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// interrupted runs a flow until a file exists, and kills the process. It returns the id of the task.
func (h *host) interrupted(begun string, during func(task string), args ...string) string {
	h.t.Helper()
	cmd := h.command(append(args, "--unsafe-agents", "-q")...)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(end) {
			h.t.Fatal("the step does not begin")
		}
	}
	tasks, _ := h.data(0, "ls")["tasks"].([]any)
	if len(tasks) != 1 {
		h.t.Fatalf("%d tasks, want 1", len(tasks))
	}
	id, _ := tasks[0].(map[string]any)["id"].(string)
	if during != nil {
		during(id)
	}
	return id
}

// worker starts a worker on the host, which ends with the test.
func (h *host) worker(args ...string) {
	h.t.Helper()
	cmd := h.command(append([]string{"worker", "--unsafe-agents"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.HasPrefix(line, "worker ") {
		h.t.Fatalf("the worker says %q: %v", line, err)
	}
}

// halves has a step that is interrupted the first time, after it has changed a file.
const halves = `version: 1
name: halves
roles:
  first:
    description: writes
    access: write
    agent: {kind: command, command: [sh, -c, 'echo one > one']}
  second:
    description: writes
    access: write
    agent: {kind: command, command: [sh, -c, 'test -e %[1]s || { echo half > half; touch %[1]s; sleep 600; }; grep . README new one half own > seen']}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: second, prompt: go on}}
  second: {done: {role: $END}}
`

// TestHandOver gives a task to a team in the middle of a step, after the process that ran it has died. A worker that
// shares nothing but the record with that machine continues, with the files as they were when it was handed over.
func TestHandOver(t *testing.T) {
	for _, how := range [][]string{nil, {"--keep-files"}} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			t.Parallel()
			url := pgtest.Shared(t).Database(t)
			a, w := newHost(t, url), newHost(t, url)
			a.run(0, "migrate")
			a.repository()
			begun := filepath.Join(t.TempDir(), "begun")
			a.write("halves.yaml", fmt.Sprintf(halves, begun))
			id := a.interrupted(begun, func(task string) {
				said := a.run(7, "resume", task, "--on", "team", "-q")
				if !strings.Contains(said, "is being driven by") || !strings.Contains(said, "end that process first") {
					t.Errorf("while it is driven here: %q", said)
				}
			}, append([]string{"run", "halves.yaml", "-p", "go"}, how...)...)
			if said := a.run(2, "resume", id, "--needs", "gpu"); !strings.Contains(said, "only with --on team") {
				t.Errorf("--needs alone: %q", said)
			}
			said := a.run(2, "resume", id, "--on", "team", "-q")
			if !strings.Contains(said, `"second" of task`) || !strings.Contains(said, "may have changed files") ||
				!strings.Contains(said, "--again") {
				t.Errorf("with half a step: %q", said)
			}
			a.write("own", "of a person\n")
			dir := filepath.Join(a.work, ".plait", "tasks", id)
			notes := filepath.Join(dir, "shared", "human-notes.md")
			old, err := os.ReadFile(notes)
			if err == nil {
				err = os.WriteFile(notes, append(old, "Mind the dog.\n"...), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			before := a.git("status", "--porcelain")
			a.run(0, "resume", id, "--on", "team", "--again", "-d")
			if log := a.run(0, "logs", id); !strings.Contains(log, "Mind the dog.") {
				t.Errorf("notes from before were not read:\n%s", log)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil ||
				!strings.Contains(string(text), "workers of a team") {
				t.Errorf("the directory that was left says %s, %v", text, err)
			}
			if text, err := os.ReadFile(notes); err != nil || !strings.HasSuffix(string(text), "Mind the dog.\n") {
				t.Errorf("a person's notes are %q, %v", text, err)
			}
			a.run(0, "resume", id, "--on", "team", "-d") // again: it is already the team's
			w.worker("--name", "w")
			a.run(0, "resume", id, "--on", "team", "-q")
			a.run(0, "verify")
			branch, _ := a.carry("task", "pull", id)["branch"].(string)
			want := "README:read me\nnew:not committed\none:one\nhalf:half\nown:of a person"
			if got := a.git("show", branch+":seen"); got != want {
				t.Errorf("the worker saw\n%s\nwant\n%s", got, want)
			}
			if after := a.git("status", "--porcelain"); after != before {
				t.Errorf("the person's directory was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// sides has two paths that write, one of which never ends the first time.
const sides = `version: 1
name: sides
roles:
  left: {description: writes, access: write, agent: {kind: command, command: [sh, -c, 'echo left > left']}}
  right: {description: writes, access: write, agent: {kind: command, command: [sh, -c, 'test -e %[1]s || { touch %[1]s; sleep 600; }; echo right > right']}}
  last: {description: reads, agent: {kind: command, command: [cat, left, right]}}
forks: {both: {forkPaths: [{pathId: a, childNodeId: left}, {pathId: b, childNodeId: right}]}}
joins: {met: {forkPathIds: [a, b]}}
gates:
  ask: {kind: input, question: "Which?"}
graph:
  $START: {new: {role: both, prompt: "{{ prompt }}"}}
  left: {done: {role: met}}
  right: {done: {role: met}}
  met: {joined: {role: ask}}
  ask: {answered: {role: last, prompt: "it is {{ answer }}"}}
  last: {done: {role: $END}}
`

// TestHandOverParts refuses a task whose parts have their own files on this machine. Once they are joined a team
// continues, and what it needs can be changed.
func TestHandOverParts(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).Database(t)
	a, w := newHost(t, url), newHost(t, url)
	a.run(0, "migrate")
	a.repository()
	begun := filepath.Join(t.TempDir(), "begun")
	a.write("sides.yaml", fmt.Sprintf(sides, begun))
	id := a.interrupted(begun, nil, "run", "sides.yaml", "-p", "go")
	said := a.run(2, "resume", id, "--on", "team")
	if !strings.Contains(said, "its parts a, b have working trees of their own") ||
		!strings.Contains(said, "until they are joined") {
		t.Errorf("with parts that have not joined: %q", said)
	}
	a.run(4, "resume", id, "--unsafe-agents", "-q")
	a.run(0, "resume", id, "--on", "team", "--needs", "gpu", "-p", "blue", "-d")
	w.worker("--name", "w", "--labels", "cpu")
	a.run(0, "resume", id, "--on", "team", "--needs", "cpu", "-d")
	if out := a.run(0, "resume", id, "-q"); !strings.Contains(out, "left\nright\n") {
		t.Errorf("the worker saw %q", out)
	}
	a.run(0, "verify")
	if out := a.run(0, "resume", id, "--on", "team", "-q"); !strings.Contains(out, "left\nright\n") {
		t.Errorf("a task that has ended says %q", out)
	}
}

// tells prints what it was told; the first time it never ends.
const tells = `version: 1
name: tells
roles:
  first: {agent: {kind: command, command: [echo, a long one]}}
  last: {agent: {kind: command, command: [sh, -c, 'test -e %[1]s || { touch %[1]s; sleep 600; }; cat']}}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: last, prompt: go on}}
  last: {done: {role: $END}}
`

// TestTeamContext has a worker give an agent the whole conversation, rather than a summary, if a person wants that.
func TestTeamContext(t *testing.T) {
	for flag, whole := range map[string]bool{"full": true, "summary": false} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Shared(t).Database(t)
			a, w := newHost(t, url), newHost(t, url)
			a.run(0, "migrate")
			a.repository()
			if err := os.MkdirAll(filepath.Join(a.work, ".plait"), 0o755); err != nil {
				t.Fatal(err)
			}
			a.write(".plait/config.yaml", "agents:\n  summer: {kind: command, command: [echo, in short]}\n")
			begun := filepath.Join(t.TempDir(), "begun")
			a.write("tells.yaml", fmt.Sprintf(tells, begun))
			id := a.interrupted(begun, nil, "run", "tells.yaml", "-p", "go", "--trust")
			a.run(0, "thread", "compact", id, "--agent", "summer", "--unsafe-agents", "--trust")
			a.run(0, "resume", id, "--on", "team", "--context", flag, "-d", "--trust")
			w.worker("--name", "w")
			out := a.run(0, "resume", id, "-q")
			if !strings.Contains(out, "in short") && !whole || strings.Contains(out, "a long one") != whole {
				t.Errorf("the agent was told %q", out)
			}
		})
	}
}
