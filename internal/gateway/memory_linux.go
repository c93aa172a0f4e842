package gateway

import "golang.org/x/sys/unix"

// guardMemory sees to it that no other process of the user reads this one's memory or environment, where the
// key is: not by /proc, not by a debugger, not from a core file. Root can all the same.
func guardMemory() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it cannot fail
}
