package proc

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// launched starts sh in its own session and returns it and its descendants once it has
// ended; what it left behind has not.
func launched(t *testing.T, script string) (*os.Process, *descendants) {
	t.Helper()
	tag := t.Name() + t.TempDir()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	child, err := launch("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
		Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"},
		Files: []*os.File{null, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	}, markOf(tag))
	if err != nil {
		t.Fatal(err)
	}
	k := newDescendants(child.Pid, tag, markOf(tag))
	await(child)
	return child, k
}

// TestLastWriterMayFinish lets the end of a pipeline outlive its beginning.
func TestLastWriterMayFinish(t *testing.T) {
	t.Parallel()
	child, k := launched(t, "sleep 0.2 & exit 0")
	defer reap(child, nil)
	if swept, left := k.end(time.Minute, time.Minute); swept != 0 || len(left) > 0 {
		t.Errorf("swept %d, left %v of a process that ends by itself", swept, left)
	}
}

func TestTermComesBeforeKill(t *testing.T) {
	t.Parallel()
	child, k := launched(t, "sleep 600 & exit 0")
	defer reap(child, nil)
	begin := time.Now()
	if swept, left := k.end(0, time.Minute); swept != 1 || len(left) > 0 {
		t.Errorf("swept %d, left %v; want 1 and none", swept, left)
	}
	if took := time.Since(begin); took >= time.Minute {
		t.Errorf("only SIGKILL ended it, after %v", took)
	}
}

// TestPrivilegedIsMarkedToo runs a program that cannot be stopped for marking.
func TestPrivilegedIsMarkedToo(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sleep")
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	if isPrivileged(path) {
		t.Error("a plain file is called privileged")
	}
	if err := os.Chmod(path, 0o700|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if !isPrivileged(path) {
		t.Error("a setuid file is not called privileged")
	}
	mark := markOf(path)
	child, err := launch(path, []string{"sleep", "600"},
		&os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true}}, mark)
	if err != nil {
		t.Fatal(err)
	}
	if !hasMark(child.Pid, mark) || hasMark(child.Pid, mark+1) {
		t.Error("the process has not its mark and no other")
	}
	child.Signal(unix.SIGKILL)
	child.Wait()
}

// TestAloneSeesWhatIsLeft checks that onlyLeader agrees with the process table.
func TestAloneSeesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		alone        bool
	}{
		{"nothing", "exit 0", true},
		{"one in the group", "sleep 600 & exit 0", false},
		{"one in a session of its own", "setsid sleep 600 & exit 0", false},
		{"the child of one in a session of its own", "setsid sh -c 'sleep 600; :' & exit 0", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			child, k := launched(t, tt.script)
			defer reap(child, nil)
			k.tag = "" // with a tag, the table would be read
			if got := k.onlyLeader(); got != tt.alone {
				t.Errorf("alone says %t, want %t", got, tt.alone)
			}
			if found := len(k.alive()); found > 0 == tt.alone {
				t.Errorf("%d processes are found", found)
			}
			if _, left := k.end(0, time.Minute); len(left) > 0 {
				t.Errorf("in the end %v is left", left)
			}
		})
	}
}
