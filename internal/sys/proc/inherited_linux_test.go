package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInherited starts a program that has a file open, as a shell may leave one, and has it run another program.
func TestInherited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"controller", "lists"} {
		open, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		cmd := exec.Command(os.Args[0], how, newTag(), "/bin/sh", "-c", "ls -l /proc/self/fd; cat <&3; cat <&7; echo end")
		cmd.ExtraFiles = []*os.File{open, nil, nil, nil, open}
		hangs := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		out, err := cmd.Output()
		hangs.Stop()
		if err != nil || !strings.Contains(string(out), "end") || strings.Contains(string(out), "canary") ||
			strings.Contains(string(out), file) {
			t.Errorf("%s: %v\n%s", how, err, out)
		}
	}
}
