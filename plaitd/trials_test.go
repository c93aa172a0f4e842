package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// A trial is a trouble of one of three workers.
type trial struct {
	name         string
	begins, ends func()
	reason       string // what people read
	idle         bool   // it takes the worker out of service
	during       bool   // it begins while the worker's agents are at work
	flow         string // "": made
}

// An inTrouble is three workers, and a person with tasks for them.
type inTrouble struct {
	*isolated
	record  *postgres.Store
	calls   *rollCall
	trials  []trial
	commits int
	starts  int
}

// sh runs a script of the shell as root.
func sh(t *testing.T, script string, args ...string) {
	t.Helper()
	if out, err := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// needRoot skips a test of workers with their own users and disks unless it is run as root.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const why = "workers with their own users and disks need root"
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip("NOT TESTED: " + why)
}

// connect opens the workers' record until the test ends.
func (w *isolated) connect() *postgres.Store {
	w.t.Helper()
	s, err := postgres.Open(context.WithoutCancel(w.t.Context()), postgres.Config{URL: w.url})
	w.must(err)
	w.t.Cleanup(func() { s.Close() })
	return s
}

// mount puts the places of a worker on a disk of their own.
func (w *isolated) mount(a *apart) {
	w.t.Helper()
	sh(w.t, `mount -t tmpfs -o size=1g,mode=755,uid=$1,gid=$1 none "$2"`, fmt.Sprint(a.user.Uid), a.places)
	w.t.Cleanup(func() { syscall.Unmount(a.places, syscall.MNT_DETACH) })
}

// TestTroubles has one of three isolated workers in trouble while there are tasks: all complete, none has spent an
// attempt, people read what is wrong, and the worker works again once it is mended.
func TestTroubles(t *testing.T) {
	needRoot(t)
	for _, engine := range []string{engineLocal, engineRiver} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			x := newInTrouble(t, engine)
			if engine == engineRiver { // whose own suite has its laws
				rand.Shuffle(len(x.trials), func(i, j int) { x.trials[i], x.trials[j] = x.trials[j], x.trials[i] })
				x.trials = x.trials[:min(soak.Rounds(t, 2), len(x.trials))]
			}
			for _, trial := range x.trials {
				if !t.Run(trial.name, func(t *testing.T) { x.run(t, trial) }) {
					break
				}
			}
			soak.Figure(t, "%d troubles of one of three isolated workers on %s, under %d tasks: all completed, no attempt spent",
				len(x.trials), engine, x.starts)
		})
	}
}

func newInTrouble(t *testing.T, engine string) *inTrouble {
	w := settle(t, pgtest.Shared(t), "ann", "ben", "cleo")
	x := &inTrouble{isolated: w, record: w.connect(), calls: newRollCall(t)}
	w.as, w.flags = "hasty", []string{"--engine", engine, "--max-agents", "6"}
	ann := w.all[0]
	full := func() { // what is there stays, and some of what an agent writes fits
		sh(t, `mount -o remount,size=$(($(df -k --output=used "$1" | tail -n 1) + 8192))k "$1"`, ann.places)
	}
	empty := func() { sh(t, `mount -o remount,size=1g "$1"`, ann.places) }
	w.mount(ann)
	remote := filepath.Join(w.dir, "shop.git")
	x.git("clone", "-q", "--bare", ".", filepath.Join(w.person, "shop.git"))
	sh(t, `cp -a "$1" "$2"`, filepath.Join(w.person, "shop.git"), remote) // perhaps on another file system
	x.git("remote", "add", "origin", remote)
	for _, a := range w.all {
		own, key := filepath.Join(w.dir, a.name+".git"), filepath.Join(a.home, "shop.key")
		w.must(os.Symlink(remote, own))
		w.write(map[string]string{
			a.config: "team: {remotes: {shop: " + own + "}}\n" +
				"keys: {SHOP_KEY: {command: [cat, " + key + "]}}\n",
			filepath.Join(a.home, ".gitconfig"): "[safe]\n\tdirectory = *\n", key: "key-of-the-shop\n",
		})
		w.own(a.home, a.user)
		bin := filepath.Join(w.dir, a.name+".bin")
		a.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		w.must(os.Mkdir(bin, 0o755))
		w.must(os.WriteFile(filepath.Join(bin, "maker"), []byte("#!/bin/sh\necho made\n"), 0o755))
	}
	config := filepath.Join(w.person, ".config", "plait", "config.yaml")
	w.write(map[string]string{config: "team: {remote: origin}\nkeys: {SHOP_KEY: {command: [echo, of the person]}}\n"})
	w.own(w.person, w.user)

	model := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key-of-the-shop" {
			http.Error(out, "no", http.StatusUnauthorized)
			return
		}
		out.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(out, `data: {"choices":[{"delta":{"content":"{\"$status\": \"done\"}"},"finish_reason":"stop"}]}`+
			"\n\n")
	}))
	t.Cleanup(model.Close)

	settings, err := os.ReadFile(ann.config)
	w.must(err)
	rename := func(from, to string) func() { return func() { w.must(os.Rename(from, to)) } }
	key, own := filepath.Join(ann.home, "shop.key"), filepath.Join(w.dir, "ann.git")
	maker := filepath.Join(w.dir, "ann.bin", "maker")
	x.trials = []trial{
		{name: "no key", reason: "there is no key for ", begins: rename(key, key+"x"), ends: rename(key+"x", key),
			flow: x.steps(fmt.Sprintf("{kind: model, model: any, url: %s/v1, keyEnv: SHOP_KEY}", model.URL))},
		{name: "program missing", reason: "maker not found", begins: rename(maker, maker+"x"), ends: rename(maker+"x", maker),
			flow: x.steps("{kind: command, command: [maker]}")},
		{name: "remote away", reason: "ann.git", begins: rename(own, own+"x"), ends: rename(own+"x", own)},
		{name: "read-only place", reason: "read-only file system: cannot write to ", idle: true,
			begins: func() { sh(t, `mount -o remount,ro "$1"`, ann.places) },
			ends:   func() { sh(t, `mount -o remount,rw "$1"`, ann.places) }},
		{name: "home not writable", reason: "permission denied: cannot write to ", idle: true,
			begins: func() { sh(t, `chmod 500 "$1" "$1/record"`, ann.home) },
			ends:   func() { sh(t, `chmod 700 "$1" "$1/record"`, ann.home) }},
		{name: "broken configuration", reason: "its configuration cannot be read", idle: true,
			begins: func() { w.must(os.WriteFile(ann.config, []byte("machine: [\n"), 0o600)) },
			ends:   func() { w.must(os.WriteFile(ann.config, settings, 0o600)) }},
		{name: "full disk", reason: "no space left on device", idle: true,
			begins: full, ends: empty},
		{name: "disk that fills up", reason: "no space left on device", idle: true, during: true,
			begins: full, ends: empty,
			flow: x.steps(x.calls.command("head -c 24M /dev/zero > large; rm large; echo made"))},
	}
	t.Cleanup(func() {
		if t.Failed() {
			rows, err := x.record.Threads(context.Background(), store.ThreadFilter{})
			for _, r := range rows {
				t.Logf("thread %s: %s, reason %+v, worker %s", r.ID, r.Status, r.Reason, r.Host)
			}
			t.Logf("%v; the workers said\n%s", err, w.said.String())
		}
	})
	for _, a := range w.all {
		w.start(a)
	}
	return x
}

// steps is a flow of two steps of an agent. It may have two attempts: one that counts although it failed with its
// worker is one too many.
func (x *inTrouble) steps(agent string) string {
	return `version: 1
name: made
limits: {maxAttempts: 2}
roles:
  one: {description: writes, access: write, agent: ` + agent + `}
  two: {description: writes, access: write, agent: ` + agent + `}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: two, prompt: go on}}
  two: {done: {role: $END}}
`
}

// git runs Git in the person's repository.
func (x *inTrouble) git(args ...string) {
	x.t.Helper()
	cmd := x.command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		x.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// begin begins a task on the team, and returns its id.
func (x *inTrouble) begin(t *testing.T, flow string, more ...string) string {
	t.Helper()
	x.starts++
	id := fmt.Sprintf("%s%03d", other[:23], x.starts)
	if out := x.isolated.run(t, x.work, flow, append(more, "-d", "--id", id)...); !strings.Contains(out, "continue it") {
		t.Fatal(out)
	}
	return id
}

// until waits for something to happen, but not forever.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// says reports whether people read that a worker has a trouble: of a worker out of service in the list of tasks, and of
// any other in the events of tasks that it gave back.
func (x *inTrouble) says(t *testing.T, trial trial, tasks []string) bool {
	t.Helper()
	if trial.idle {
		out, err := x.command(filepath.Join(x.dir, "plaitd"), "ls", "--all").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Contains(string(out), "worker ann: "+trial.reason)
	}
	for _, id := range tasks {
		events, err := x.record.Events(t.Context(), 0, store.EventFilter{Task: id})
		x.must(err)
		for _, e := range events {
			if said := string(e.Payload); event.Is(e, event.ThreadDelayed{}) && strings.Contains(said, `"ann"`) &&
				strings.Contains(said, trial.reason) {
				return true
			}
		}
	}
	return false
}

func (x *inTrouble) run(t *testing.T, trial trial) {
	x.commits++
	x.write(map[string]string{filepath.Join(x.work, "at"): fmt.Sprint(x.commits)})
	x.own(x.work, x.user)
	x.git("add", "at")
	x.git("commit", "-q", "-m", trial.name)
	x.git("push", "-q", "origin", "HEAD")
	flow := trial.flow
	if flow == "" {
		flow = x.steps(x.calls.command("echo $PLAIT_ROLE > of-$PLAIT_ROLE; echo made"))
	}
	begins, ends := sync.OnceFunc(trial.begins), sync.OnceFunc(trial.ends)
	t.Cleanup(ends)
	mark := x.mark()
	goOn := x.calls.holds()
	t.Cleanup(goOn)
	own := x.calls.count(x.user.Uid)
	if !trial.during {
		begins()
		goOn()
	}
	var tasks []string
	for range 6 {
		tasks = append(tasks, x.begin(t, flow))
	}
	if trial.during {
		for more := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			if now := x.calls.count(x.user.Uid); now > own {
				break
			}
			if time.Since(more) > 2*time.Second {
				tasks, more = append(tasks, x.begin(t, flow)), time.Now()
			}
			if len(tasks) > 40 {
				t.Fatal("the worker takes no task")
			}
		}
		begins()
		goOn()
	}
	for more := time.Now(); !x.says(t, trial, tasks); time.Sleep(100 * time.Millisecond) { // others may have been faster
		if time.Since(more) > 2*time.Second {
			tasks, more = append(tasks, x.begin(t, flow)), time.Now()
		}
		if len(tasks) > 40 {
			t.Fatal("nobody reads why")
		}
	}
	if trial.idle {
		x.hearsAfter(t, mark, "worker ann: out of service: "+trial.reason)
		x.health(t, http.StatusServiceUnavailable, trial.reason)
	}
	for _, id := range tasks {
		x.completes(t, id)
	}
	mark = x.mark()
	ends()
	if trial.idle {
		x.hearsAfter(t, mark, "worker ann: in service again")
		x.health(t, http.StatusOK, "ok")
	}
	x.completes(t, x.begin(t, flow, "--needs", "ann"))
}

// health asks the worker how it is, from outside its machine's cells.
func (x *inTrouble) health(t *testing.T, code int, says string) {
	t.Helper()
	x.mu.Lock()
	at := regexp.MustCompile(`worker ann: engine .*(http://[^/]+)`).FindStringSubmatch(x.said.String())
	x.mu.Unlock()
	got, err := http.Get(at[1] + "/healthz")
	x.must(err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	x.must(err)
	if got.StatusCode != code || !strings.Contains(string(text), says) {
		t.Errorf("/healthz says %d, %s", got.StatusCode, text)
	}
}

// completes waits for a task to complete, with an attempt that counts for each step.
func (x *inTrouble) completes(t *testing.T, id string) {
	t.Helper()
	until(t, "task "+id+" completes", func() bool {
		row, err := x.record.Thread(t.Context(), id)
		x.must(err)
		switch row.Status {
		case store.Completed:
			return true
		case store.Pending, store.Running:
			return false
		}
		t.Fatalf("task %s is %s: %+v", id, row.Status, row.Reason)
		return false
	})
	attempts, err := x.record.Attempts(t.Context(), store.AttemptFilter{Task: id})
	x.must(err)
	for _, a := range attempts {
		if use := a.Use(); a.Status != store.AttemptDone && !use.Void {
			t.Errorf("task %s: attempt %s is %s: %+v", id, a.ID, a.Status, a.Failure)
		}
	}
}
