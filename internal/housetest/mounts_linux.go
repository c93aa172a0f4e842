package housetest

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// ownMounts is set in the processes that have mounts of their own.
const ownMounts = "PLAIT_TEST_OWN_MOUNTS"

// OwnMounts begins the test program again with mounts that no other process has, which takes root; without it
// does nothing. The first line of a TestMain whose tests mount file systems: a sandbox that somebody starts
// meanwhile copies all mounts it sees. It fails when one of them goes before it is done, and a file system
// whose power was cut cannot be mounted again while there is a copy of it.
func OwnMounts() {
	if os.Geteuid() != 0 || os.Getenv(ownMounts) != "" {
		return
	}
	runtime.LockOSThread() // the namespace is that of the thread that calls exec
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		runtime.UnlockOSThread()
		return // the tests say what they cannot mount
	}
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), ownMounts+"=1"))
	}
	fmt.Println("begin again with own mounts:", err)
	os.Exit(1)
}
