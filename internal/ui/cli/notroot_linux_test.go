package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestNotRoot runs tests of Codex as another user if the tests are run by root: Codex's home is elsewhere then. In a
// user namespace, that user owns the files of root, and finds what is installed.
func TestNotRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: all tests are run as another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestScripts$/^(codex_solo|codex_fix|keep_session)$", "-test.v")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 0, Size: 1}}}
	// In CI the tests fail where they cannot mount, as that user cannot.
	c.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CI=") })
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
		t.Skip("NOT TESTED: user namespaces are not allowed:", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP: TestScripts/")) {
		if os.Getenv("CI") != "" {
			t.Fatalf("they were skipped:\n%s", out)
		}
		t.Skipf("NOT TESTED:\n%s", out)
	}
}
