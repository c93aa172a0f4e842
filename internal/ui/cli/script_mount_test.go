package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// disks are the file systems that scripts have mounted. They stay until the last script has ended: a sandbox
// that another script starts copies all mounts, and fails if one of them disappears meanwhile.
type disks struct {
	mu   sync.Mutex
	dirs []string
	root string // the parent directory of all scripts
}

// usage: mount DIR OPTIONS mounts a tmpfs, or, with the option remount, changes it.
func (d *disks) mount(ts *testscript.TestScript, neg bool, args []string) {
	dir, opts := ts.MkAbs(args[0]), args[1]
	ts.Check(os.MkdirAll(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", opts, "tmpfs", dir).CombinedOutput(); err != nil {
		ts.Fatalf("mount: %v: %s", err, out)
	}
	if !strings.Contains(opts, "remount") {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.dirs, d.root = append(d.dirs, dir), filepath.Dir(ts.Getenv("WORK"))
	}
}

func (d *disks) remove(t *testing.T) {
	for _, dir := range d.dirs {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v: %s", dir, err, out)
		}
	}
	if d.root != "" {
		os.RemoveAll(d.root)
	}
}
