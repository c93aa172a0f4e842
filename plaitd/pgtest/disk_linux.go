package pgtest

import (
	"fmt"
	"syscall"
)

// mount mounts a file system of a size on dir, or resizes the one that is there.
func mount(dir, size string, again bool) error {
	var flags uintptr
	if again {
		flags = syscall.MS_REMOUNT
	}
	if err := syscall.Mount("none", dir, "tmpfs", flags, "mode=700,size="+size); err != nil {
		return fmt.Errorf("mount a disk of %s: %w", size, err)
	}
	return nil
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
