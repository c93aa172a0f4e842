package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// mark locks f for others to see. Unlike flock, this lock can be queried, and unlike
// older fcntl locks it belongs to the open file, not to the process: closing another
// file of the same name does not end it, and its own process sees it.
func mark(f *os.File) error {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
}

// marked reports whether some other open file of the same name is marked.
func marked(f *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}

// dying reports whether a process of this machine has been killed, or is already gone: its locks end with the last
// of its threads, some milliseconds after kill returns.
func dying(pid int) bool {
	if pid <= 0 {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	var state string
	var pending uint64
	for line := range bytes.Lines(status) {
		fmt.Sscanf(string(line), "State: %1s", &state)
		fmt.Sscanf(string(line), "ShdPnd: %x", &pending)
	}
	return state == "Z" || state == "X" || pending&(1<<(unix.SIGKILL-1)) != 0
}
