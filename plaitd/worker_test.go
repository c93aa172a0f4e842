package main

import (
	"bufio"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/plaitd/pgtest"
)

// short has one step.
const short = `version: 1
name: short
roles: {first: {description: says, agent: {kind: command, command: [echo, one]}}}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: $END}}
`

// TestWorker runs a task on a worker in another process, which reports on itself over HTTP and ends when told to.
func TestWorker(t *testing.T) {
	h := newHost(t, pgtest.Shared(t).Database(t))
	h.write("short.yaml", short)
	h.run(0, "migrate")
	wallless := *h // as a user other than root, a worker that finds bubblewrap can isolate its agents
	wallless.env = append(slices.Clip(h.env), "PATH="+t.TempDir())
	for _, x := range []struct {
		says string
		args []string
	}{
		{"could read the password", []string{"worker"}},
		{"--listen", []string{"worker", "--unsafe-agents", "--listen", "nowhere"}},
		{"--engine", []string{"worker", "--unsafe-agents", "--engine", "none"}},
		{"label", []string{"worker", "--unsafe-agents", "--labels", "a b"}},
		{"--needs", []string{"run", "short.yaml", "-p", "go", "--needs", "gpu", "--unsafe-agents"}},
		{"could read the password", []string{"run", "short.yaml", "-p", "go"}},
	} {
		if said := wallless.run(2, x.args...); !strings.Contains(said, x.says) {
			t.Errorf("%v says %q, and nothing of %q", x.args, said, x.says)
		}
	}
	worker := h.command("worker", "--unsafe-agents", "--name", "one", "--listen", "127.0.0.1:0",
		"--max-agents", "3", "--labels", "big,linux")
	home := t.TempDir()
	worker.Env = append(worker.Env, "PLAIT_HOME="+home)
	stderr, err := worker.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { worker.Process.Kill() })
	said := bufio.NewReader(stderr)
	line, err := said.ReadString('\n')
	at := regexp.MustCompile(`http://[^/]+`).FindString(line)
	if err != nil || at == "" {
		t.Fatalf("the worker says %q: %v", line, err)
	}
	wants := []string{"agents at once: 3, labels: big, linux, memory: ", "git version: 2", "disk: ", "codex: ",
		"limits: an agent can have 4096 processes and 8.0 GiB of memory"}
	for len(wants) > 0 {
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatalf("the worker does not say %q", wants)
		}
		wants = slices.DeleteFunc(wants, func(want string) bool { return strings.HasPrefix(line, "worker one: "+want) })
	}
	if out := h.run(0, "run", "short.yaml", "-p", "go", "--on", "team"); !strings.Contains(out, "one") {
		t.Errorf("the result is %q", out)
	}
	h.run(0, "run", "short.yaml", "-p", "go", "--on", "team", "--needs", "gpu", "-d")
	got := get(t, at+"/metrics")
	for _, want := range []string{
		"plait_worker_drives_total 1", "plait_worker_failures_total 0", "plait_worker_driving 0",
		"plait_worker_draining 0",
		"plait_worker_reconciles_total ", `plait_waiting_drives{labels="gpu"} 1`,
		`plait_waiting_oldest_seconds{labels="gpu"} `,
		"plait_worker_agents 0", "plait_worker_unable 0", `plait_worker_given_back_total{at="agent"} 0`,
		"plait_worker_slots 3", "plait_worker_leases_lost_total 0",
		"plait_worker_takeovers_total 0",
		`plait_record_commit_seconds_bucket{le="0.001"} `, "plait_record_silent_seconds ",
		"plait_worker_disk_free_bytes{", "plait_build_info{",
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("no %q in the metrics:\n%s", want, got)
		}
	}
	if got := get(t, at+"/healthz"); got != "ok\n" {
		t.Errorf("health: %q", got)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(said)
	if err := worker.Wait(); err != nil || !strings.Contains(string(rest), "stopped") {
		t.Errorf("the worker ends with %v and says %q", err, rest)
	}
	kept, err := filepath.Glob(filepath.Join(home, "records", "*", "checkpoint"))
	if err != nil || len(kept) != 1 {
		t.Errorf("the worker keeps the checkpoints %v of what it did, %v", kept, err)
	}
}

// TestWorkerWithoutEngine starts a worker whose engine fails, as River cannot take that many threads: it exits.
func TestWorkerWithoutEngine(t *testing.T) {
	h := newHost(t, pgtest.Shared(t).Database(t))
	h.run(0, "migrate")
	worker := h.command("worker", "--unsafe-agents", "--max-agents", "100000")
	var said strings.Builder
	worker.Stderr = &said
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(20*time.Second, func() { worker.Process.Kill() })
	defer hangs.Stop()
	err := worker.Wait()
	if code := worker.ProcessState.ExitCode(); code <= 0 {
		t.Errorf("the worker ends with %v and says %q", err, &said)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
