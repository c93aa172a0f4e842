package proc

import (
	"math"

	"golang.org/x/sys/unix"
)

// closeInherited keeps descriptors that this process was started with from its children: Go opens its own so, but
// who started it may have left files open.
func closeInherited() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		closeListed()
	}
}
