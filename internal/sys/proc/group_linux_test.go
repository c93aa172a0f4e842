package proc

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// grouped returns a worker whose own part of the control groups has the controllers named, as a service manager
// delegates it.
func grouped(t *testing.T, controllers ...string) *worker {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: it takes root to make control groups for a worker")
	}
	top := "/sys/fs/cgroup"
	var found unix.Statfs_t
	for _, dir := range []string{top, top + "/unified"} {
		if err := unix.Statfs(dir, &found); err == nil && found.Type == unix.CGROUP2_SUPER_MAGIC {
			top = dir
			break
		}
	}
	list, err := os.ReadFile(filepath.Join(top, "cgroup.subtree_control"))
	if err != nil {
		t.Skip("NOT TESTED: this machine has no control groups of version 2")
	}
	for _, name := range controllers {
		if !slices.Contains(strings.Fields(string(list)), name) {
			t.Skipf("NOT TESTED: this machine's control groups of version 2 do not have %s", name)
		}
	}
	w := newWorker(t)
	base, err := os.MkdirTemp(top, "plait-test-")
	w.must(t, err)
	t.Cleanup(func() {
		filepath.WalkDir(base, func(dir string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				set(dir, "cgroup.kill", "1")
				defer unix.Rmdir(dir)
			}
			return nil
		})
		unix.Rmdir(filepath.Join(base, apart))
		w.must(t, unix.Rmdir(base))
	})
	w.cell.Groups, err = divide(base, controllers...)
	w.must(t, err)
	w.cell.Prlimit = Prlimit()
	w.delegate(t)
	return w
}

// delegate gives the control groups to the worker's user.
func (w *worker) delegate(t *testing.T) {
	t.Helper()
	w.must(t, filepath.WalkDir(w.cell.Groups.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, 65534, 65534)
	}))
}

// in runs a script of an agent in a cell, from where the worker is. It returns what the script says.
func (w *worker) in(t *testing.T, cell *Cell, script string) string {
	t.Helper()
	before := w.cell
	w.cell = cell
	defer func() { w.cell = before }()
	c := w.command(t, script)
	own, err := os.Open(filepath.Join(before.Groups.dir, apart))
	w.must(t, err)
	defer own.Close()
	c.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred, Setsid: true, UseCgroupFD: true, CgroupFD: int(own.Fd())}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Run()
	return out.String()
}

// Programs of an agent begin in a group of their own, which ends with all that is in it.
func TestGroup(t *testing.T) {
	w := grouped(t)
	cell, err := w.cell.Enter(nil)
	w.must(t, err)
	w.delegate(t)
	said := w.in(t, cell, "cat /proc/self/cgroup")
	if !strings.Contains(said, "/programs\n") {
		t.Errorf("a program is in\n%s", said)
	}
	if spent := cell.Spent(); spent != "" {
		t.Errorf("a program is said to have been killed: %s", spent)
	}
	dir := filepath.Join(cell.group.dir, inside)
	left := w.command(t, "sleep 600 & wait")
	own, err := os.Open(dir)
	w.must(t, err)
	left.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred, Setsid: true, UseCgroupFD: true, CgroupFD: int(own.Fd())}
	w.must(t, left.Start())
	own.Close()
	w.must(t, cell.Leave())
	if err := left.Wait(); err == nil || left.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what was left ended with %v", err)
	}
	if _, err := os.Stat(cell.group.dir); err == nil {
		t.Error("the group is still there")
	}
	for name, script := range map[string]string{
		"the group from outside": "echo 0 > " + filepath.Join(w.cell.Groups.dir, apart, "cgroup.procs"),
		"its group from inside":  "unshare -UrmC sh -c 'mount -t cgroup2 none /tmp && mkdir /tmp/more && echo made'",
	} {
		cell, err := w.cell.Enter(nil)
		w.must(t, err)
		w.delegate(t)
		said := w.in(t, cell, script)
		t.Logf("%s: %s", name, said)
		if procs, err := os.ReadFile(filepath.Join(w.cell.Groups.dir, apart, "cgroup.procs")); err != nil ||
			len(procs) > 0 || strings.Contains(said, "made") {
			t.Errorf("%s: a program changed where it is: %q, %v: %s", name, procs, err, said)
		}
		w.must(t, cell.Leave())
	}
}

// The limits of a group hold for all programs of an agent together, who cannot change them.
func TestGroupLimits(t *testing.T) {
	w := grouped(t, "memory", "pids")
	w.cell.Processes, w.cell.Memory, w.cell.FileSize = 40, 64<<20, 1<<20
	const spent = "out of memory: limit 64.0 MiB"
	for name, tt := range map[string]struct{ script, says, spent string }{
		"memory": {"tail /dev/zero; echo exit $?", "exit 137\n", spent},
		"memory of several": {"for i in 1 2 3 4; do head -c 30000000 /dev/zero | sort & done > /dev/null; wait; echo over",
			"over\n", spent},
		"temporary files": {"head -c 100000000 /dev/zero | split -b 500000 - /dev/shm/x", "", spent}, // which kills all
		"processes":       {"sh -c 'for i in $(seq 60); do sleep 60 & done'", "fork", ""},
		"what it may use": {"head -c 20000000 /dev/zero | tail -c 20000000 | wc -c", "20000000\n", ""},
		"files":           {"(head -c 2097152 /dev/zero > large) 2>/dev/null; stat -c %s large", "1048576\n", ""},
		"seeing them":     {"unshare -UrmC sh -c 'mount -t cgroup2 none /tmp && ls /tmp'", "cgroup.procs", ""},
		"changing them": {"unshare -UrmC sh -c 'mount -t cgroup2 none /tmp; (echo max > /tmp/memory.max) 2>/dev/null; " +
			"tail /dev/zero; echo exit $?'", "exit 137\n", spent},
	} {
		t.Run(name, func(t *testing.T) {
			cell, err := w.cell.Enter(nil)
			w.must(t, err)
			w.delegate(t)
			said := w.in(t, cell, tt.script)
			if got := cell.Spent(); !strings.Contains(strings.ToLower(said), tt.says) || got != tt.spent {
				t.Errorf("it says %q; %s", said, got)
			}
			if strings.Contains(said, "memory.max") {
				t.Errorf("a program sees the limits: %s", said)
			}
			w.must(t, cell.Leave())
		})
	}
}
