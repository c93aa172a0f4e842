package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestNotRoot runs tests of Codex as another user, where this is root: its home is elsewhere then. The files of root
// belong to that user, so that it finds what is installed.
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
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
		t.Skip("NOT TESTED: user namespaces are not allowed:", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
