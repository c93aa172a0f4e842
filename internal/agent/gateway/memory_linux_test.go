package gateway

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// keeper is a process that opens a gateway, with a child that looks for the key before and after.
func keeper() {
	look := func(what string) {
		for _, file := range []string{"environ", "mem"} {
			path := filepath.Join("/proc", strconv.Itoa(os.Getpid()), file)
			err := exec.Command("/bin/sh", "-c", "exec <"+path).Run()
			fmt.Println(what, file, err == nil)
		}
	}
	look("before")
	g, err := Open(Config{Upstream: Upstream{URL: &url.URL{}, Key: os.Getenv("PLAIT_TEST_KEEPER")}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	look("after")
	g.Close()
}

// TestKeyIsOutOfReach checks that no child of a process with a key can read its environment or memory. Root can
// read every process, so the test then runs as another user.
func TestKeyIsOutOfReach(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self)
	if os.Getuid() == 0 {
		program, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = filepath.Join(dir, "keeper")
		if err := os.WriteFile(cmd.Path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		for at := dir; at != os.TempDir() && len(at) > 1; at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	cmd.Env = []string{"PLAIT_TEST_KEEPER=the-real-key", "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	// Some systems let no child read memory at all, see ptrace_scope.
	want := regexp.MustCompile(`^before environ true\nbefore mem (true|false)\nafter environ false\nafter mem false\n$`)
	if err != nil || !want.Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
