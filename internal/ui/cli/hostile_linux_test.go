package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/testing/soak"
)

// mostMemory is the most memory that plait may hold whatever its agents do, in bytes.
const mostMemory = 200 << 20

// peak returns the most memory that a process has held, 0 if it has ended.
func peak(pid int) (most int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(text, &most)
		}
	}
	return most << 10
}

// TestHostileAgents runs agents that do what none should: each ends, leaving nothing behind, in bounded
// memory, and the fault is reported; the record stays whole.
func TestHostileAgents(t *testing.T) {
	var worst int64
	tried := 0
	for _, tt := range []struct {
		name   string
		does   string // a shell script
		limits string
		code   int
		says   string
	}{
		{"10 GB of output", "exec fake flood=10000000000", "", exitLimit, "more than 256 MiB"},
		{"10 GB of errors", "exec fake flood=10000000000 >&2", "", exitLimit, "more than 256 MiB"},
		{"10 GB in lines", "exec fake lines=10000000000", "", exitLimit, "more than 256 MiB"},
		{"a line of 100 MB", "exec fake flood=100000000", "", 0, ""},
		{"an artifact of 10 GB", `truncate -s 10G "$PLAIT_ARTIFACTS/big"; echo done`, "", exitFailed,
			"at most 64 files and 64 MiB"},
		{"many artifacts", `cd "$PLAIT_ARTIFACTS"; i=0; while [ $i -lt 3000 ]; do : >f$i; i=$((i+1)); done; echo done`, "",
			exitFailed, "at most 64 files and 64 MiB"},
		{"deaf to signals", "exec fake hang=pid", ", timeout: 1", exitFailed, "longer than its timeout of 1s"},
		{"forks twice and goes away", "fake daemon=pid; echo done", "", 0, ""},
		{"many processes", "i=0; while [ $i -lt 200 ]; do setsid sh -c 'trap \"\" TERM HUP INT; sleep 50' & i=$((i+1)); done; echo done", "", 0, ""},
		{"keeps forking", "while :; do setsid sleep 50 & sleep 0.01; done", ", timeout: 1", exitFailed,
			"longer than its timeout of 1s"},
		{"links to other files", `ln -s /etc/passwd "$PLAIT_ARTIFACTS/a"; ln -s .. "$PLAIT_ARTIFACTS/b"; echo done`, "", 0,
			""},
		{"a pipe and a device", `mkfifo "$PLAIT_ARTIFACTS/pipe"; mknod "$PLAIT_ARTIFACTS/null" c 1 3; echo done`, "", 0, ""},
		{"its own directory is gone", `rm -rf "$PLAIT_ARTIFACTS"; ln -s / "$PLAIT_ARTIFACTS"; echo done`, "", 0, ""},
		{"git runs programs", "git config core.fsmonitor 'touch ran; false'; git config core.hooksPath .; printf '#!/bin/sh\\ntouch ran\\n' >pre-commit; chmod +x pre-commit; echo done", "", 0, ""},
		{"deep and broken answer", `printf -- '---\n'; head -c 1000000 /dev/zero | tr '\0' '['; printf '\n---\n'`, "",
			exitFailed, "max depth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			ws := filepath.Join(p.work, "ws")
			if err := os.RemoveAll(filepath.Join(ws, ".git")); err != nil {
				t.Fatal(err)
			}
			p.git("init", "-q")
			p.write("do.sh", tt.does)
			p.write("hostile.yaml", fmt.Sprintf("version: 1\nname: hostile\n"+
				"roles: {one: {access: write, retry: {max: 0}, agent: {kind: command, command: [sh, do.sh]}%s}}\n"+
				"graph: {$START: {new: {role: one, prompt: x}}, one: {done: {role: $END}}}\n", tt.limits))
			p.git("add", "-A")
			p.git("commit", "-q", "-m", "begin")
			cmd := p.command("run", "hostile.yaml", "-p", "x", "-q", "--id", killID)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var most int64
			for done := false; !done; most = max(most, peak(cmd.Process.Pid)) {
				select {
				case <-ended:
					done = true
				case <-time.After(20 * time.Millisecond):
				}
			}
			worst, tried = max(worst, most), tried+1
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit code %d, want %d and a word of %q: %.600q", code, tt.code, tt.says, out.String())
			}
			if most > mostMemory {
				t.Errorf("plait held %d MiB", most>>20)
			}
			if left := processesIn(p.work); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
			if _, err := os.Stat(filepath.Join(ws, "ran")); err == nil {
				t.Error("git ran what the agent planted")
			}
			if out, code := p.run("verify"); code != 0 {
				t.Errorf("verify: exit code %d: %s", code, out)
			}
			if out, _ := p.run("cas", "walk", killID); strings.Contains(out, "root:x:0:0") {
				t.Error("a file from outside is in the record")
			}
		})
	}
	soak.Figure(t, "%d hostile agents: all ended, nothing left of them, plait held %d MiB at most", tried, worst>>20)
}
