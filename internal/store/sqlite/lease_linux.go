package sqlite

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mark locks f for others to see. Unlike flock this lock can be asked about, and
// unlike the older ones of fcntl it belongs to the open file, not to the process:
// closing another file of the same name does not end it, and its own process sees it.
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
