package proc

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// launch starts a process and marks it before its program runs. To that end the
// kernel stops it after exec, as for a debugger: if it were marked any later,
// its children could be missed on a busy machine. A setuid program would not
// gain its privileges under a debugger, and some sandboxes allow none; such a
// process is marked right after it has started.
func launch(path string, argv []string, attr *os.ProcAttr, mark uint64) (*os.Process, error) {
	if !isPrivileged(path) {
		child, err := launchStopped(path, argv, attr, mark)
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return child, err
		}
	}
	child, err := os.StartProcess(path, argv, attr)
	if err == nil {
		putMark(child.Pid, mark)
	}
	return child, err
}

func launchStopped(path string, argv []string, attr *os.ProcAttr, mark uint64) (*os.Process, error) {
	// Only the thread that forks may detach.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr.Sys.Ptrace = true
	defer func() { attr.Sys.Ptrace = false }()
	child, err := os.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
	}
	putMark(child.Pid, mark)
	// This fails only if the child was killed from outside: an end like any other.
	unix.PtraceDetach(child.Pid)
	return child, nil
}

// isPrivileged reports whether the program may run with more privileges than ours.
func isPrivileged(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return true
	}
	size, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && size > 0
}
