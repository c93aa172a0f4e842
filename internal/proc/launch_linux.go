package proc

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// launch starts a process and marks it before its program runs. For that the
// kernel is asked to stop it after exec, as for a debugger: marked a moment
// later, a child could be missed on a busy machine. A program that gains
// privileges by being run would not gain them under a debugger, and some
// sandboxes allow none; such a child is marked right after it has started.
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
	// The thread that forks is the one that may let go.
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
	// It can only be gone by now, killed from outside: an end like any other.
	unix.PtraceDetach(child.Pid)
	return child, nil
}

// isPrivileged reports whether running the file gives more rights than we have.
func isPrivileged(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return true
	}
	size, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && size > 0
}
