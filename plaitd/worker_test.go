package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/proc"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// short has one step.
const short = `version: 1
name: short
roles: {first: {description: says, agent: {kind: command, command: [echo, one]}}}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: $END, prompt: done}}
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
		{"loopback", []string{"worker", "--unsafe-agents", "--listen", "0.0.0.0:0"}},
		{"--engine", []string{"worker", "--unsafe-agents", "--engine", "none"}},
		{"label", []string{"worker", "--unsafe-agents", "--labels", "a b"}},
		{"--needs", []string{"run", "short.yaml", "-p", "go", "--needs", "gpu", "--unsafe-agents"}},
		{"could read the password", []string{"run", "short.yaml", "-p", "go"}},
	} {
		if said := wallless.run(2, x.args...); !strings.Contains(said, x.says) {
			t.Errorf("%v says %q, and nothing of %q", x.args, said, x.says)
		}
	}
	worker := h.command("worker", "--unsafe-agents", "--name", "one", "--listen", "127.0.0.1:0")
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
	if out := h.run(0, "run", "short.yaml", "-p", "go", "--on", "team"); !strings.Contains(out, "one") {
		t.Errorf("the result is %q", out)
	}
	if got := get(t, at+"/metrics"); !strings.Contains(got, "\nplait_worker_drives_total 1\n") {
		t.Errorf("metrics:\n%s", got)
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

// spies is a flow whose agent looks for what it must not have.
const spies = `version: 1
name: spies
roles:
  spy:
    description: looks around
    agent: {kind: command, command: [sh, -c, 'cat "$0" /proc/*/environ; ls -a %[1]s %[1]s/*; id -u; echo "that is all"', %[2]s]}
graph:
  $START: {new: {role: spy, prompt: "{{ prompt }}"}}
  spy: {done: {role: $END, prompt: done}}
`

// TestWorkerIsolates has an agent on a worker look for the password of the record and for the worker's files. The
// worker is not root, and has the role that migrate --worker grants.
func TestWorkerIsolates(t *testing.T) {
	if proc.Walls() == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	server := pgtest.Shared(t)
	admin := newHost(t, server.Database(t))
	url, err := neturl.Parse(strings.TrimPrefix(admin.env[3], "PLAIT_STORE="))
	if err != nil {
		t.Fatal(err)
	}
	const password = "canary-77aa"
	role := "worker_of_" + strings.TrimPrefix(url.Path, "/")
	if err := server.Admin(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'"); err != nil {
		t.Fatal(err)
	}
	admin.run(0, "migrate", "--worker", role)
	url.User = neturl.UserPassword(role, password)

	dir, err := os.MkdirTemp("", "plaitd-worker-") // t's is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(os.Args[0])
	program, secret, ws := filepath.Join(dir, "plaitd"), filepath.Join(dir, "home", "secret"), filepath.Join(dir, "ws")
	err = errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(program, data, 0o755), os.Mkdir(ws, 0o755),
		os.MkdirAll(filepath.Join(dir, "home", "record"), 0o755), os.WriteFile(secret, []byte(url.String()), 0o600),
		os.WriteFile(filepath.Join(ws, "spies.yaml"), fmt.Appendf(nil, spies, filepath.Join(dir, "home"), secret), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	var cred *syscall.Credential
	if os.Geteuid() == 0 {
		cred = &syscall.Credential{Uid: 65534, Gid: 65534}
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, 65534, 65534))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = ws
		cmd.Env = []string{be + "=plaitd", "PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "LC_ALL=C.UTF-8",
			"PLAIT_HOME=" + filepath.Join(dir, "home", "record"), "PLAIT_STORE_FILE=" + secret}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
		return cmd
	}
	worker := command("worker", "--name", "apart")
	stderr, err := worker.StderrPipe()
	if err == nil {
		err = worker.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Process.Signal(syscall.SIGTERM)
	if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.Contains(line, "worker apart") {
		t.Fatalf("the worker says %q: %v", line, err)
	}
	out, err := command("run", "./spies.yaml", "-p", "go", "--on", "team").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "that is all") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, found := range []string{password, "secret", "PLAIT_STORE", ".db", "logs"} {
		if strings.Contains(strings.ReplaceAll(string(out), secret, ""), found) {
			t.Errorf("the agent finds %q:\n%s", found, out)
		}
	}
}
