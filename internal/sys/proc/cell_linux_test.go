package proc

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A worker is a machine's directory with a secret, two trees, and a process that has the secret in its environment,
// all owned by one user, who is not root.
type worker struct {
	dir  string
	cell *Cell
	cred *syscall.Credential // nil: the user who runs the tests
	pid  int
}

// workerSecret is new for each run: files in /tmp may contain the sources of these tests.
var workerSecret = "canary-" + rand.Text()

func newWorker(t *testing.T) *worker {
	t.Helper()
	bwrap := needWalls(t)
	dir, err := os.MkdirTemp("", "plait-worker-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &worker{dir: dir, cell: &Cell{Bwrap: bwrap, Hide: []string{dir, "/run"}}}
	for _, name := range []string{"secrets", "record", "trees/mine/.git", "trees/other", "tasks/mine/artifacts",
		"tasks/other", "mirror/hooks"} {
		w.must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for name, text := range map[string]string{
		"secrets/password": workerSecret, "record/wal": workerSecret, "trees/other/main.go": workerSecret,
		"tasks/other/report": workerSecret, "trees/mine/main.go": "mine", "mirror/config": "[core]\n",
	} {
		w.must(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	if os.Geteuid() == 0 {
		w.cred = &syscall.Credential{Uid: 65534, Gid: 65534}
		w.must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, 65534, 65534)
		}))
	}
	process := exec.Command("sleep", "600")
	process.Env = []string{"PGPASSWORD=" + workerSecret}
	process.Dir = dir
	process.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred}
	w.must(t, process.Start())
	t.Cleanup(func() { process.Process.Kill(); process.Wait() })
	w.pid = process.Process.Pid
	return w
}

func (w *worker) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command returns a program of an agent in its own tree.
func (w *worker) command(t *testing.T, script string) *exec.Cmd {
	mine := filepath.Join(w.dir, "trees", "mine")
	path, args := w.cell.Around(Given{Read: []string{""},
		Write: []string{mine, filepath.Join(w.dir, "tasks", "mine", "artifacts")}}, "/bin/bash", []string{"-c", script})
	c := exec.CommandContext(t.Context(), path, args...)
	c.Dir, c.Env = mine, []string{"PATH=" + os.Getenv("PATH"), "W=" + w.dir, "PID=" + strconv.Itoa(w.pid)}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred, Setsid: true}
	return c
}

// TestCell tries, as an agent, to get at what the worker has, and finds its own tree as it should be.
func TestCell(t *testing.T) {
	w := newWorker(t)
	cell := w.cell
	w.cell = &Cell{Bwrap: cell.Bwrap} // it hides nothing, so the files can be read
	if out, err := w.command(t, "cat $W/secrets/password").CombinedOutput(); err != nil ||
		string(out) != workerSecret+"\n" {
		t.Fatalf("without a cell: %s %v", out, err)
	}
	w.cell = cell
	for name, script := range map[string]string{
		"a file by its name":              "cat $W/secrets/password",
		"all files below":                 "grep -rs canary $W /dev/shm; grep -s canary /tmp/* /tmp/*/* /var/tmp/*",
		"the record":                      "cat $W/record/*",
		"another tree":                    "cat $W/trees/other/main.go ../other/main.go",
		"another task's files":            "cat $W/tasks/other/report",
		"the environment of the worker":   "cat /proc/$PID/environ /proc/[0-9]*/environ | tr '\\0' '\\n'",
		"the worker's directory in /proc": "cat /proc/$PID/cwd/secrets/password /proc/$PID/root$W/secrets/password",
		"the first process": "cat /proc/1/environ /proc/1/root$W/secrets/password " +
			"/proc/1/cwd/../../secrets/password",
		"its parent":             "cat /proc/$PPID/environ /proc/$PPID/root$W/secrets/password",
		"files that are open":    "cat /proc/self/fd/[3-9]* /proc/*/fd/[3-9]*",
		"unmounting":             "umount $W; umount -l $W; cat $W/secrets/password",
		"a namespace of its own": "unshare -rm sh -c \"umount -l $W; cat $W/secrets/password\"",
		"the namespaces of others": "nsenter -t $PID -m -p cat $W/secrets/password; nsenter -t 1 -m cat " +
			"$W/secrets/password",
		"binding what is hidden": "unshare -rm sh -c \"mkdir /tmp/x; mount --rbind / /tmp/x; cat " +
			"/tmp/x$W/secrets/password\"",
		"a link to it":               "ln -s $W/secrets/password link; cat link; rm -f link",
		"a second name of it":        "ln $W/secrets/password hard; cat hard",
		"a link in the tree's place": "ln -s ../../secrets up; cat up/password; rm -f up",
		"another root":               "unshare -r chroot /proc/$PID/root cat $W/secrets/password",
		"a debugger":                 "gdb -p $PID -batch -ex 'info proc'; strace -p $PID -e none; cat /proc/$PID/mem",
		"a disk of the machine":      "for d in /dev/[sv]d* /dev/nvme* /dev/mem; do head -c 100 $d; done",
		"a new device":               "mknod d b 8 0 && head -c 100 d; unshare -r mknod d b 8 0",
		"the old root": "cat /oldroot$W/secrets/password /newroot$W/secrets/password " +
			"../../../../../../..$W/secrets/password",
		"the keys of its user":              "cat /proc/keys; keyctl show @u",
		"shared memory and message queues":  "ipcs -a | grep $PID; ls /dev/mqueue",
		"core files of who is killed":       "ulimit -c unlimited; kill -SEGV $PID; cat core*",
		"sockets of the machine's services": "ls /run/postgresql /run/docker.sock /run/credentials /var/run/postgresql",
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := w.command(t, script).CombinedOutput() // it should fail
			if strings.Contains(string(out), workerSecret) {
				t.Errorf("%s\n%s", script, out)
			}
			if unix.Kill(w.pid, 0) != nil {
				t.Fatalf("the worker is gone: %s", out)
			}
		})
	}
	for name, script := range map[string]string{
		"the mirror":   "echo x >> $W/mirror/config; echo x > $W/mirror/hooks/post-checkout; rm -rf $W/mirror",
		"another tree": "rm -rf ../other $W/trees/other; echo x > $W/trees/other/main.go",
		"the system":   "echo x > /etc/plait-was-here; echo x > /usr/bin/plait-was-here; touch /var/plait-was-here",
		"the worker":   "kill -9 $PID; kill -9 -1; kill -STOP $PID",
		"its own tree": "echo new > main.go; echo it > $W/tasks/mine/artifacts/report",
	} {
		out, _ := w.command(t, script).CombinedOutput()
		t.Logf("%s: %s", name, out)
	}
	for name, want := range map[string]string{
		"mirror/config": "[core]\n\n", "trees/other/main.go": workerSecret + "\n", "trees/mine/main.go": "new\n",
		"tasks/mine/artifacts/report": "it\n",
	} {
		if got, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q: %v", name, got, want, err)
		}
	}
	for _, at := range []string{"/etc", "/usr/bin", "/var", filepath.Join(w.dir, "mirror/hooks")} {
		if list, err := filepath.Glob(filepath.Join(at, "p*t-*h*")); err != nil ||
			strings.Contains(strings.Join(list, " "), "plait-was-here") ||
			strings.Contains(strings.Join(list, " "), "post-checkout") {
			t.Errorf("written: %v %v", list, err)
		}
	}
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(w.pid) + "/stat"); err != nil ||
		!strings.Contains(string(stat), ") S ") {
		t.Errorf("the worker does not sleep as before: %s %v", stat, err)
	}
}

// TestCellEnds checks that nothing outlives the process that started a cell, not even what has left its session.
func TestCellEnds(t *testing.T) {
	w := newWorker(t)
	c := w.command(t, "setsid sleep 611 & (setsid sleep 612 &) ; echo begun; wait; sleep 613")
	// A process in between is killed: the cell ends with it, as it does with a worker.
	between := exec.CommandContext(t.Context(), "/bin/sh",
		append([]string{"-c", `"$0" "$@" & wait`, c.Path}, c.Args[1:]...)...)
	between.Dir, between.Env, between.SysProcAttr = c.Dir, c.Env, c.SysProcAttr
	out, err := between.StdoutPipe()
	w.must(t, err)
	w.must(t, between.Start())
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.must(t, between.Process.Kill())
	// The pipe ends when no process has it open any more.
	rest := make([]byte, 100)
	for {
		if _, err := out.Read(rest); err != nil {
			break
		}
	}
	between.Wait()
}

// TestCellCheck checks that the error says which promise a cell breaks.
func TestCellCheck(t *testing.T) {
	w := newWorker(t)
	if err := w.cell.Check(t.Context()); err != nil {
		t.Errorf("a cell that keeps all: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "bwrap")
	w.must(t, os.WriteFile(broken, []byte("#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"),
		0o755))
	if err := (&Cell{Bwrap: broken, Hide: w.cell.Hide}).Check(t.Context()); err == nil {
		t.Error("a cell that keeps nothing passes")
	} else {
		t.Log(err)
	}
	w.must(t, os.WriteFile(broken, []byte("#!/bin/sh\necho no namespaces >&2\nexit 1\n"), 0o755))
	if err := (&Cell{Bwrap: broken}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no namespaces") {
		t.Errorf("without namespaces: %v", err)
	}
	if err := (&Cell{}).Check(t.Context()); err == nil {
		t.Error("without bubblewrap it passes")
	}
}

// TestCellShowsNoMoreThanAProgram starts programs that are installed in hidden places: what is next to them can be
// read, unless that is hidden too.
func TestCellShowsNoMoreThanAProgram(t *testing.T) {
	w := newWorker(t)
	for program, shown := range map[string]bool{
		"agent.sh": false, "bin/agent.sh": true, "node_modules/agent/bin/agent.sh": true,
	} {
		t.Run(program, func(t *testing.T) {
			path := filepath.Join(w.dir, program)
			w.must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			w.must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "beside"), []byte("what is beside it\n"), 0o644))
			w.must(t, os.WriteFile(path, []byte("#!/bin/sh\ncat ${0%/*}/beside $W/secrets/password\nls $W\n"), 0o755))
			bwrap, args := w.cell.Around(Given{}, path, nil)
			c := exec.CommandContext(t.Context(), bwrap, args...)
			c.Dir, c.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "W=" + w.dir}
			c.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred, Setsid: true}
			out, err := c.CombinedOutput()
			if err != nil || strings.Contains(string(out), workerSecret) || strings.Contains(string(out), "record\n") ||
				strings.Contains(string(out), "what is beside it") != shown {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestCellNetwork has a program in a cell look for the machine's network.
func TestCellNetwork(t *testing.T) {
	w := newWorker(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(t, err)
	defer l.Close()
	abstract, err := net.Listen("unix", "@plait-test-"+rand.Text())
	w.must(t, err)
	defer abstract.Close()
	cell, err := w.cell.Enter(nil)
	w.must(t, err)
	w.cell = cell
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for script, want := range map[string]string{
		"tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '":                         "lo\n",
		"(echo hello > /dev/tcp/127.0.0.1/" + port + ") 2>/dev/null || echo refused": "refused\n",
		"grep -c plait-test /proc/net/unix":                                          "0\n",
	} {
		if out, _ := w.command(t, script).Output(); string(out) != want {
			t.Errorf("%s: %q", script, out)
		}
	}
	w.must(t, cell.Leave())
}

// The limits of a cell hold for all that its program starts, and for each cell on its own.
func TestCellLimits(t *testing.T) {
	w := newWorker(t)
	w.cell.Processes, w.cell.Memory, w.cell.FileSize = 40, 256<<20, 1<<20
	if w.cell.Prlimit = Prlimit(); w.cell.Prlimit == "" {
		t.Skip("NOT TESTED: prlimit is not installed")
	}
	const many = `sh -c 'for i in $(seq 60); do sleep 60 & done'` // not bash, which tries for a while
	out, _ := w.command(t, many).CombinedOutput()
	if !strings.Contains(strings.ToLower(string(out)), "fork") {
		t.Errorf("60 processes in a cell for 40: %s", out)
	}
	for script, want := range map[string]string{
		// The processes of other cells do not count.
		`for i in $(seq 30); do sleep 60 & done; echo started`:                      "started\n",
		`tail /dev/zero 2>&1 | grep -c exhausted`:                                   "1\n",
		`head -c 1048576 /dev/zero > fits && stat -c %s fits`:                       "1048576\n",
		`(head -c 2097152 /dev/zero > large) 2>/dev/null; stat -c %s large`:         "1048576\n",
		`ulimit -u 100 2>/dev/null || ulimit -f unlimited 2>/dev/null || ulimit -u`: "40\n",
		`unshare -Ur bash -c 'ulimit -u 100 2>/dev/null || ulimit -u'`:              "40\n",
	} {
		if out, _ := w.command(t, script).Output(); string(out) != want {
			t.Errorf("%s: %q", script, out)
		}
	}
	out, _ = w.command(t, "unshare -Ur "+many).CombinedOutput()
	if !strings.Contains(strings.ToLower(string(out)), "fork") {
		t.Errorf("60 processes in a namespace of a cell for 40: %s", out)
	}
}
