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

// An isolated record has a person and workers on one machine, on a database that asks for a password. None of them is
// root. What the workers have, and what other tasks have, are canaries.
type isolated struct {
	t      *testing.T
	dir    string // of the workers
	person string // the home of the person, who is the user of the first worker
	work   string // the person's repository
	open   string // a directory without Git that the workers take tasks of
	url    string // with the password
	canary string // how all that no agent may see begins
	as     string // what the workers' program is, see TestMain
	flags  []string
	owner  string // the URL of the record for its owner
	all    []*apart
	*apart // the first of them

	mu   sync.Mutex
	said strings.Builder // by the workers
	more chan struct{}   // closed and replaced when one says more
}

// An apart is a worker with a user, a home and a place of its own.
type apart struct {
	name   string // its label, too
	user   *syscall.Credential
	home   string
	store  string // the file with the URL of the record
	places string
	config string
	env    []string

	process *os.Process
	ended   chan struct{} // closed when it has
}

// other is a task that stays pending.
const other = "01HZZZZZZZZZZZZZZZZZZZZZZZ"

// isolate starts workers in cells.
func isolate(t *testing.T, names ...string) *isolated {
	t.Helper()
	w := settle(t, pgtest.Shared(t), names...)
	for _, a := range w.all {
		w.start(a)
	}
	return w
}

// settle makes a record, a person, and workers that are not started.
func settle(t *testing.T, server *pgtest.Server, names ...string) *isolated {
	t.Helper()
	if proc.Bubblewrap() == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	w := &isolated{t: t, canary: "canary" + strings.ToLower(rand.Text()), as: "plaitd", more: make(chan struct{})}
	password := w.canary + ".password"
	admin := newHost(t, server.Database(t))
	w.owner = strings.TrimPrefix(admin.env[3], "PLAIT_STORE=")
	url, err := neturl.Parse(w.owner)
	w.must(err)
	role := "worker_of_" + strings.TrimPrefix(url.Path, "/")
	w.must(server.Admin(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'"))
	admin.run(0, "migrate", "--worker", role)
	url.User = neturl.UserPassword(role, password)
	w.url = url.String()

	base := "" // the directory for temporary files, where all is hidden in any case
	if os.Geteuid() == 0 {
		base = "/var/lib"
	}
	w.dir, err = os.MkdirTemp(base, "plaitd-workers-")
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(w.dir) })
	w.must(os.Chmod(w.dir, 0o755))
	w.open, err = os.MkdirTemp("/dev/shm", "plaitd-open-") // neither a home nor for temporary files
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(w.open) })
	program, err := os.ReadFile(os.Args[0])
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.dir, "plaitd"), program, 0o755))
	for i, name := range names {
		a := &apart{name: name, home: filepath.Join(w.dir, name), store: filepath.Join(w.dir, name+".store")}
		a.places, a.config = filepath.Join(a.home, "places"), filepath.Join(a.home, ".config", "plait", "config.yaml")
		if os.Geteuid() == 0 {
			a.user = &syscall.Credential{Uid: 65534 - uint32(i), Gid: 65534 - uint32(i)}
		}
		w.all = append(w.all, a)
		w.furnish(a)
	}
	w.apart = w.all[0]
	w.own(w.open, w.user)
	w.person, err = os.MkdirTemp("", "plaitd-person-") // hidden, as on another machine
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(w.person) })
	w.work = filepath.Join(w.person, "work")
	w.write(map[string]string{
		filepath.Join(w.person, "store"): w.url, filepath.Join(w.person, "record", "x"): "",
		filepath.Join(w.work, "sub", "file"): "here",
	})
	w.must(os.Symlink(filepath.Join(w.home, ".ssh"), filepath.Join(w.work, "link")))
	w.own(w.person, w.user)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := w.command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if out := w.run(t, w.work, asks(runs("true", "")), "-d", "--needs", "nothing", "--id", other); !strings.Contains(out,
		"continue it") {
		t.Fatal(out)
	}
	return w
}

// furnish makes the home of a worker, and puts canaries where it has secrets.
func (w *isolated) furnish(a *apart) {
	canary := w.canary + "." + a.name + "."
	files := map[string]string{a.store: w.url, a.config: "team: {directories: [" + w.open + "]} # " + canary + "config\n"}
	for _, name := range []string{
		".ssh/key", ".ssh/sub/key", ".codex/auth.json", ".netrc", ".aws/credentials", ".config/gh/hosts.yml", "open",
		"record/log", "record/ui.key", "record/homes/" + other + "/auth.json",
		"places/mirrors/other.git/packed", "places/mirrors/" + canary + "mirror.git/packed",
		"places/tasks/work/" + other + "/.plait/worktrees/" + other + "/file", "places/tasks/other/" + other + "/file",
		"work/file",
	} {
		files[filepath.Join(a.home, name)] = canary + "file." + strings.ReplaceAll(name, "/", ".") + "\n"
	}
	files[filepath.Join(a.places, "mirrors", "work.sha256.git", "packed")] = w.canary + ".seen\n"
	w.write(files)
	w.own(a.home, a.user)
	w.own(a.store, a.user)
	w.must(os.Chmod(a.home, 0o700))
}

func (w *isolated) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write makes files that nobody but their user can read.
func (w *isolated) write(files map[string]string) {
	w.t.Helper()
	for at, text := range files {
		w.must(errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)))
	}
}

// own gives a directory or a file to a user.
func (w *isolated) own(path string, user *syscall.Credential) {
	w.t.Helper()
	if user == nil {
		return
	}
	w.must(filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(user.Uid), int(user.Gid)))
	}))
}

// command returns a program of the person, in the repository. The person's own variables hold no canary.
func (w *isolated) command(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), path, args...)
	cmd.Dir = w.work
	cmd.Env = append(environment(w.person, filepath.Join(w.person, "store")), be+"=careless", "PGPASSWORD=person",
		"AWS_SECRET_ACCESS_KEY=person")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	return cmd
}

// environment returns the environment of a user with a home directory and a file that says where the record is.
func environment(home, store string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8",
		"PLAIT_HOME=" + filepath.Join(home, "record"),
		"PLAIT_STORE_FILE=" + store}
}

// worker returns a worker that has canaries in its environment, and in a file that it has open.
func (w *isolated) worker(a *apart, args ...string) *exec.Cmd {
	cmd := w.command(filepath.Join(w.dir, "plaitd"), append([]string{"worker"}, args...)...)
	cmd.Env = append(environment(a.home, a.store), be+"="+w.as, "PLAIT_PLACES="+a.places)
	cmd.Env = append(cmd.Env, a.env...)
	cmd.Dir, cmd.SysProcAttr.Credential = filepath.Join(a.home, "work"), a.user
	for _, name := range []string{"PGPASSWORD", "PGSSLPASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"TEMPORAL_API_KEY",
		"PLAIT_OTHER", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"} {
		cmd.Env = append(cmd.Env, name+"="+w.canary+"."+a.name+"."+name)
	}
	return cmd
}

func (w *isolated) start(a *apart) {
	w.t.Helper()
	open, err := os.Open(filepath.Join(a.home, "open"))
	w.must(err)
	defer open.Close()
	worker := w.worker(a, append([]string{"--name", a.name, "--labels", a.name, "--listen", "127.0.0.1:0"}, w.flags...)...)
	worker.ExtraFiles = []*os.File{open}
	stderr, err := worker.StderrPipe()
	w.must(err)
	begun := w.mark()
	w.must(worker.Start())
	ended := make(chan struct{})
	a.process, a.ended = worker.Process, ended
	go func() {
		w.listen(stderr)
		worker.Wait()
		close(ended)
	}()
	w.t.Cleanup(func() {
		worker.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	w.hearsAfter(w.t, begun, "worker "+a.name+": engine")
}

// listen keeps what a worker says.
func (w *isolated) listen(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		w.mu.Lock()
		w.said.WriteString(lines.Text() + "\n")
		close(w.more)
		w.more = make(chan struct{})
		w.mu.Unlock()
	}
}

// mark returns how much the workers have said.
func (w *isolated) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Len()
}

// hears waits until a worker has said all of some texts in one line.
func (w *isolated) hears(t *testing.T, texts ...string) {
	t.Helper()
	w.hearsAfter(t, 0, texts...)
}

// hearsAfter is hears for what is said after a mark.
func (w *isolated) hearsAfter(t *testing.T, mark int, texts ...string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		w.mu.Lock()
		said, more := w.said.String()[mark:], w.more
		w.mu.Unlock()
		for line := range strings.Lines(said) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return
			}
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no worker says %q:\n%s", texts, said[max(0, len(said)-2000):])
		}
	}
}

// run runs a flow on the workers, in dir, as a person whose program asks for anything. It returns what the person sees.
func (w *isolated) run(t *testing.T, dir, flow string, args ...string) string {
	t.Helper()
	file := filepath.Join(w.person, rand.Text()+".yaml")
	w.write(map[string]string{file: flow})
	w.own(file, w.user)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := w.command(filepath.Join(w.dir, "plaitd"), append([]string{"run", file, "-p", "go", "--on", "team", "--trust"},
		args...)...)
	cmd.Dir = dir
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	w.must(cmd.Start())
	context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	cmd.Wait()
	return out.String()
}
