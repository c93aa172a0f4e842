package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// enough is how much memory, in KiB, has to be free for the temporary files of the tests: many times what they take.
const enough = 8 << 20

// inMemory returns what runs a shell command with a TMPDIR in memory, and the directory where Plait runs git: file systems of
// the command's own that nobody else sees and that go with the last of its processes. Tests make and remove some hundred thousand small files, which on a
// disk takes a third of their time; what is to be tried on a disk's file systems brings them. Where the user may mount
// nothing, has chosen a TMPDIR or GOTMPDIR or has not the memory, commands run as they are.
func inMemory() (command func(string) *exec.Cmd, done func()) {
	dir, err := os.MkdirTemp("", "plait-tests-")
	if os.Getenv("TMPDIR") != "" || os.Getenv("GOTMPDIR") != "" || available() < enough || err != nil {
		os.Remove(dir)
		return shell, func() {}
	}
	mounts := fmt.Sprintf(`git="${XDG_CACHE_HOME:-$HOME/.cache}/plait/git" && mkdir -p -m 700 "$git" && mount -t tmpfs -o mode=700 tmpfs "$git" &&
		mount -t tmpfs -o mode=1777,size=50%% tmpfs %s && export TMPDIR=%[1]s && `, dir)
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

// available returns how much memory can be had, in KiB.
func available() (kib int) {
	data, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(data)) {
		fmt.Sscanf(line, "MemAvailable: %d kB", &kib)
	}
	return kib
}
