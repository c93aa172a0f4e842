package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// An isolated worker runs beside a person, both as a user who is not root, on a database that asks for a password. What
// it has, and what other tasks have, are canaries.
type isolated struct {
	t      *testing.T
	dir    string // all of it
	home   string // of the worker's user
	places string
	work   string // the person's repository
	open   string // a directory without Git that the worker takes tasks of
	url    string // with the password
	canary string // what no agent may see
	cred   *syscall.Credential

	mu   sync.Mutex
	said strings.Builder // by the worker
	more chan struct{}   // closed and replaced when it says more
}

// other is a task that stays pending.
const other = "01HZZZZZZZZZZZZZZZZZZZZZZZ"

// isolate starts a worker in a cell.
func isolate(t *testing.T) *isolated {
	t.Helper()
	if proc.Walls() == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	w := &isolated{t: t, canary: "canary" + strings.ToLower(rand.Text()), more: make(chan struct{})}
	server := pgtest.Shared(t)
	admin := newHost(t, server.Database(t))
	url, err := neturl.Parse(strings.TrimPrefix(admin.env[3], "PLAIT_STORE="))
	w.must(err)
	role := "worker_of_" + strings.TrimPrefix(url.Path, "/")
	w.must(server.Admin(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD '"+w.canary+"'"))
	admin.run(0, "migrate", "--worker", role)
	url.User = neturl.UserPassword(role, w.canary)
	w.url = url.String()

	if w.dir, err = os.MkdirTemp("", "plaitd-worker-"); err == nil { // t's is closed to other users
		w.open, err = os.MkdirTemp("/dev/shm", "plaitd-open-") // neither a home nor for temporary files
	}
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(w.dir); os.RemoveAll(w.open) })
	w.home, w.work = filepath.Join(w.dir, "home"), filepath.Join(w.dir, "work")
	w.places = filepath.Join(w.home, "places")
	program, err := os.ReadFile(os.Args[0])
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.dir, "plaitd"), program, 0o755))
	for name, text := range map[string]string{
		"home/store": w.url, "home/.ssh/key": w.canary, "home/.ssh/sub/key": w.canary, "home/.codex/auth.json": w.canary,
		"home/places/mirrors/other.git/packed": w.canary, "home/places/mirrors/work.sha256.git/packed": "published",
		"home/places/tasks/work/" + other + "/.plait/worktrees/" + other + "/file": w.canary, "home/record/log": w.canary, "home/open": w.canary,
		"home/.config/plait/config.yaml": "team: {directories: [" + w.open + "]}\n",
		"person/store":                   w.url, "person/record/x": "", "work/sub/file": "here",
	} {
		at := filepath.Join(w.dir, name)
		w.must(errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)))
	}
	if os.Geteuid() == 0 {
		w.cred = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	w.must(os.Symlink(filepath.Join(w.home, ".ssh"), filepath.Join(w.work, "link")))
	w.own(w.dir)
	w.own(w.open)
	w.must(os.Chmod(w.dir, 0o755))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := w.command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if out := w.run(t, w.work, asks(runs("true", "")), "-d", "--needs", "nothing", "--id", other); !strings.Contains(out, "continue it") {
		t.Fatal(out)
	}
	w.start()
	return w
}

func (w *isolated) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// own gives a directory to the worker's user.
func (w *isolated) own(dir string) {
	w.t.Helper()
	if w.cred == nil {
		return
	}
	w.must(filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	}))
}

// command returns a program of the person, in the repository. The person's own variables hold no canary.
func (w *isolated) command(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), path, args...)
	cmd.Dir = w.work
	cmd.Env = append(w.environment("person"), be+"=careless", "PGPASSWORD=person", "AWS_SECRET_ACCESS_KEY=person")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred}
	return cmd
}

// environment returns the environment of a user with a home directory.
func (w *isolated) environment(who string) []string {
	home := filepath.Join(w.dir, who)
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8", "PLAIT_HOME=" + filepath.Join(home, "record"),
		"PLAIT_STORE_FILE=" + filepath.Join(home, "store")}
}

// worker returns a worker that has canaries in its environment, and in a file that it has open.
func (w *isolated) worker(args ...string) *exec.Cmd {
	cmd := w.command(filepath.Join(w.dir, "plaitd"), append([]string{"worker"}, args...)...)
	cmd.Env = append(w.environment("home"), be+"=plaitd", "PLAIT_PLACES="+w.places)
	for _, name := range []string{"PGPASSWORD", "PGSSLPASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "TEMPORAL_API_KEY",
		"PLAIT_OTHER"} {
		cmd.Env = append(cmd.Env, name+"="+w.canary)
	}
	return cmd
}

func (w *isolated) start() {
	w.t.Helper()
	open, err := os.Open(filepath.Join(w.home, "open"))
	w.must(err)
	defer open.Close()
	worker := w.worker("--name", "apart")
	worker.ExtraFiles = []*os.File{open}
	stderr, err := worker.StderrPipe()
	w.must(err)
	w.must(worker.Start())
	var reading sync.WaitGroup
	reading.Go(func() { w.listen(stderr) })
	w.t.Cleanup(func() {
		worker.Process.Signal(syscall.SIGTERM)
		reading.Wait()
		worker.Wait()
	})
	w.hears(w.t, "worker apart")
}

// listen keeps what the worker says.
func (w *isolated) listen(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		w.mu.Lock()
		w.said.WriteString(lines.Text() + "\n")
		close(w.more)
		w.more = make(chan struct{})
		w.mu.Unlock()
	}
}

// hears waits until the worker has said all of some texts in one line.
func (w *isolated) hears(t *testing.T, texts ...string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		w.mu.Lock()
		said, more := w.said.String(), w.more
		w.mu.Unlock()
		for line := range strings.Lines(said) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return
			}
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("the worker does not say %q:\n%s", texts, said[max(0, len(said)-2000):])
		}
	}
}

// run runs a flow on the worker, in dir, as a person whose program asks for anything. It returns what the person sees.
func (w *isolated) run(t *testing.T, dir, flow string, args ...string) string {
	t.Helper()
	file := filepath.Join(w.dir, rand.Text()+".yaml")
	w.must(os.WriteFile(file, []byte(flow), 0o644))
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := w.command(filepath.Join(w.dir, "plaitd"), append([]string{"run", file, "-p", "go", "--on", "team", "--trust"}, args...)...)
	cmd.Dir = dir
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	w.must(cmd.Start())
	context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	cmd.Wait()
	return out.String()
}
