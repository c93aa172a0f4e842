package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// enough is how much memory must be available, in KiB: many times what the tests' temporary files need.
const enough = 8 << 20

// inMemory returns a command that runs a shell line with two file systems in memory: one for TMPDIR and one for the
// directory where Plait runs git. They are mounted for the command alone and go with the last of its processes. Tests
// create and remove several hundred thousand small files, which on a disk takes a third of their time; tests of a
// disk's file system mount one. The line runs unchanged if the user may not mount, has set TMPDIR or GOTMPDIR, or less
// than enough memory is available.
func inMemory() (command func(line string) *exec.Cmd, done func()) {
	nothing := func() {}
	if os.Getenv("TMPDIR") != "" || os.Getenv("GOTMPDIR") != "" || available() < enough {
		return shell, nothing
	}
	dir, err := os.MkdirTemp("", "plait-")
	if err != nil {
		return shell, nothing
	}
	mounts := fmt.Sprintf(`git="${XDG_CACHE_HOME:-$HOME/.cache}/plait/git" && mkdir -p -m 700 "$git" &&
		mount -t tmpfs -o mode=700 tmpfs "$git" &&
		mount -t tmpfs -o mode=1777 tmpfs %[1]s && export TMPDIR=%[1]s && `, dir)
	command = func(line string) *exec.Cmd {
		cmd := shell(mounts + line)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		return cmd
	}
	if command("true").Run() != nil {
		command = shell
	}
	return command, func() { os.Remove(dir) }
}

// available returns how much memory is available, in KiB.
func available() (kib int) {
	data, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(data)) {
		fmt.Sscanf(line, "MemAvailable: %d kB", &kib)
	}
	return kib
}
