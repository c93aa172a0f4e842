package hosts

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// made is a flow of two steps that change files, with a program that workers have. It may have two attempts: one that
// counts although its agent never began is one too many.
const made = `version: 1
name: made
limits: {maxAttempts: 2}
roles:
  one: {description: writes, access: write, agent: {kind: command, command: [maker, one]}}
  two: {description: writes, access: write, agent: {kind: command, command: [maker, two]}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: two, prompt: go on}}
  two: {done: {role: $END}}
`

// A trial is a trouble of one worker.
type trial struct {
	begins, ends func(h *host, pid int)
	reason       string // what people read
	idle         bool   // it takes the worker out of service
}

// within runs a command where a process of a host sees its files.
func within(t *testing.T, pid int, script string, args ...string) {
	t.Helper()
	all := append([]string{"-t", fmt.Sprint(pid), "-m", "sh", "-ec", script, "sh"}, args...)
	if out, err := exec.Command("nsenter", all...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// readOnly makes a directory of a worker read-only.
func readOnly(dir string) trial {
	return trial{
		begins: func(h *host, pid int) {
			h.t.Helper()
			within(h.t.(*testing.T), pid, `mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"`, h.path(h.name, dir))
		},
		ends:   func(h *host, pid int) { within(h.t.(*testing.T), pid, `umount -l "$1"`, h.path(h.name, dir)) },
		reason: "read-only file system", idle: true,
	}
}

var trials = map[string]trial{
	"read-only place": readOnly("home-places"),
	"read-only home":  readOnly("home"),
	"full disk": {
		begins: func(h *host, pid int) {
			within(h.t.(*testing.T), pid, `mount -t tmpfs -o size=2m none "$1"`, h.path(h.name, "home-places"))
		},
		ends:   func(h *host, pid int) { within(h.t.(*testing.T), pid, `umount -l "$1"`, h.path(h.name, "home-places")) },
		reason: "no space left on device", idle: true,
	},
	"broken configuration": {
		begins: func(h *host, _ int) { h.configure("machine: [") },
		ends:   func(h *host, _ int) { h.configure("team: {remotes: {shop: " + h.path("shop.git") + "}}") },
		reason: "its configuration cannot be read", idle: true,
	},
	"remote away": {
		begins: func(h *host, _ int) { h.rename("shop-a.git", "away.git") },
		ends:   func(h *host, _ int) { h.rename("away.git", "shop-a.git") },
		reason: "shop",
	},
	"program missing": {
		begins: func(h *host, _ int) { h.rename("a/bin/maker", "a/bin/away") },
		ends:   func(h *host, _ int) { h.rename("a/bin/away", "a/bin/maker") },
		reason: "maker not found",
	},
}

func (h *host) configure(text string) {
	h.t.Helper()
	dir := h.path(h.name, "user", "config", "plait")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text+"\n"), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) rename(from, to string) {
	h.t.Helper()
	if err := os.Rename(h.path(from), h.path(to)); err != nil {
		h.t.Fatal(err)
	}
}

// maker makes a host a worker with a place, a remote for it, and the program of the flow.
func (m *team) maker(name, remote string) *host {
	h := m.host(name)
	bin := m.path(name, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "maker"), []byte("#!/bin/sh\necho $1 > of-$1; echo made $1\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	h.own = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	h.configure("team: {remotes: {shop: " + remote + "}}")
	return h
}

// starts begins a task on the team, and returns its id.
func (h *host) starts(n int) string {
	h.t.Helper()
	id := fmt.Sprintf("%s%02d", taskID[:24], n)
	h.must("run", "made.yaml", "-p", "go", "-q", "-d", "--trust", "--id", id, "--on", control.OnTeam)
	return id
}

// ends reports whether a task has completed. It must not end otherwise.
func (h *host) ends(id string) bool {
	h.t.Helper()
	var one struct {
		Data struct {
			Status string
			Reason *struct{ Kind, Message string }
		}
	}
	h.read(&one, "thread", "show", id, "--json")
	switch one.Data.Status {
	case "completed":
		return true
	case "pending", "running":
		return false
	}
	h.t.Fatalf("task %s is %s: %+v", id, one.Data.Status, one.Data.Reason)
	return false
}

// TestTroubles has one of three workers in trouble while there are six tasks: all complete, none has spent an attempt,
// people read what is wrong, and the worker works again once it is mended.
func TestTroubles(t *testing.T) {
	server := pgtest.Shared(t)
	needHosts(t)
	for name, trial := range trials {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t, newRecord(t, server), impatient+"=2s")
			person := m.host("person")
			os.Remove(filepath.Join(person.workspace(), ".git"))
			person.write("made.yaml", made)
			person.write("README", "read me\n")
			person.git("init", "-q", "-b", "main")
			person.git("add", "README")
			person.git("commit", "-q", "-m", "all of it")
			for _, remote := range []string{"shop.git", "shop-a.git"} {
				person.git("clone", "-q", "--bare", ".", m.path(remote))
			}
			person.git("remote", "add", "origin", m.path("shop.git"))
			person.git("fetch", "-q", "origin")
			person.configure("team: {remote: origin}")
			person.write("README", "read me again\n")
			a := m.maker("a", m.path("shop-a.git"))
			p := a.worker("--listen", "127.0.0.1:0")
			trial.begins(a, p.cmd.Process.Pid)
			var tasks []string
			if trial.idle {
				m.until("it is out of service", func() bool { return strings.Contains(p.said.String(), "out of service: ") })
				if code, said := health(t, p); code != http.StatusServiceUnavailable || !strings.Contains(said, trial.reason) {
					t.Errorf("/healthz says %d, %s", code, said)
				}
			}
			for n := range 6 {
				tasks = append(tasks, person.starts(n))
			}
			listed := ""
			defer func() {
				if t.Failed() {
					t.Logf("people read\n%s", listed)
				}
			}()
			m.until("people read why", func() bool {
				listed = person.must("ls", "--all")
				return strings.Contains(listed, trial.reason)
			})
			var others []*process
			for _, name := range []string{"b", "c"} {
				others = append(others, m.maker(name, m.path("shop.git")).worker())
			}
			for _, id := range tasks {
				m.until("task "+id+" completes", func() bool { return person.ends(id) })
			}
			trial.ends(a, p.cmd.Process.Pid)
			person.must("verify")
			if trial.idle {
				m.until("it serves again", func() bool { return strings.Contains(p.said.String(), "in service again") })
				if code, said := health(t, p); code != http.StatusOK {
					t.Errorf("/healthz says %d, %s", code, said)
				}
			}
			for _, p := range others {
				p.kill()
			}
			last := person.starts(6)
			m.until("the last task completes", func() bool { return person.ends(last) })
		})
	}
}

var served = regexp.MustCompile(`http://[^/]+/`)

// health asks a worker how it is.
func health(t *testing.T, p *process) (code int, said string) {
	t.Helper()
	got, err := http.Get(served.FindString(p.said.String()) + "healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}
