package gateway

import "golang.org/x/sys/unix"

// guardMemory prevents the user's other processes from reading this one's memory or environment, which contain
// the key: through /proc, with a debugger or from a core file. Root still can.
func guardMemory() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // cannot fail
}
