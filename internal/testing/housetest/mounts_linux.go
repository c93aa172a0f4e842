package housetest

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// ownMounts is set in processes that have their own mounts.
const ownMounts = "PLAIT_TEST_OWN_MOUNTS"

// OwnMounts restarts the test program in its own mount namespace, which takes root; without root it does
// nothing. Call it first in a TestMain whose tests mount file systems. Otherwise a sandbox that starts meanwhile
// copies all mounts: it fails if one of them disappears before it is done, and a file system whose power was
// cut cannot be mounted again while there is a copy of its mount.
func OwnMounts() {
	if os.Geteuid() != 0 || os.Getenv(ownMounts) != "" {
		return
	}
	runtime.LockOSThread() // the new program gets the namespace of the thread that calls exec
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		runtime.UnlockOSThread()
		return // the tests report what they cannot mount
	}
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), ownMounts+"=1"))
	}
	fmt.Println("begin again with own mounts:", err)
	os.Exit(1)
}
