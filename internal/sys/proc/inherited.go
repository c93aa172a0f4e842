package proc

import (
	"os"
	"strconv"
	"syscall"
)

// closeListed marks the open descriptors that the system lists, except those of the standard streams, to be closed
// in children.
func closeListed() {
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // without a list they cannot be found
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
