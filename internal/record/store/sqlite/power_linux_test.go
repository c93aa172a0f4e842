package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
)

// shutdown is FS_IOC_SHUTDOWN, and noFlush its mode that does not write the file system's own log
// first: what a disk looks like after a power cut.
const (
	shutdown = 0x8004587d
	noFlush  = 2
)

// A disk is a file system on a file, whose power can be cut.
type disk struct {
	t          *testing.T
	image, dir string
}

// newDisk makes a file system and mounts it, which requires root.
func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	d := &disk{t, filepath.Join(t.TempDir(), "image"), t.TempDir()}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(320<<20), f.Close()) // the minimum for XFS, and sparse
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mkfs."+kind, "-q", d.image).CombinedOutput()
	if err == nil {
		out, err = d.mount()
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("make a disk: %v\n%s", err, out)
		}
		t.Skipf("NOT TESTED: making a disk with %s takes root, loop devices and mkfs.%s: %v: %s", kind, kind, err, out)
	}
	t.Cleanup(func() { syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	return d
}

func (d *disk) mount() ([]byte, error) {
	return exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
}

// cut cuts the power of the disk that a directory is on.
func cut(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noFlush)
}

// writeUntilCut writes, and cuts the power after a random number of writes reported as durable. What is
// reported from then on does not count, and is not printed: while it shuts down, ext4 can let a sync succeed
// whose transaction it drops, see jbd2_complete_transaction. A disk without power reports nothing.
func writeUntilCut(dir string) error {
	var mu sync.Mutex
	left := rand.IntN(120)
	return write(dir, func(line string) error {
		mu.Lock()
		defer mu.Unlock()
		if left < 0 {
			return nil
		}
		fmt.Println(line)
		if left--; left < 0 {
			return cut(dir)
		}
		return nil
	})
}

// again mounts the disk once more after a cut.
func (d *disk) again() {
	d.t.Helper()
	if err := syscall.Unmount(d.dir, 0); err != nil {
		d.t.Fatalf("unmount after a cut: %v", err)
	}
	if out, err := d.mount(); err != nil {
		d.t.Fatalf("mount after a cut: %v\n%s", err, out)
	}
}

// TestPowerCuts cuts the power of a disk while a process writes to a store on it: whatever was
// reported as durable is there when the disk is back, and the store needs no repair.
func TestPowerCuts(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) { powerCuts(t, kind) })
	}
}

func powerCuts(t *testing.T, kind string) {
	d := newDisk(t, kind)
	dir := filepath.Join(d.dir, "home")
	open(t, dir).Close()
	rounds := soak.Rounds(t, 25)
	var log storetest.Witness
	steps, acked := map[string]int{}, map[dag.Hash]bool{}
	for range rounds {
		c, out, _ := child(t, "cut", dir)
		for out.Scan() {
			f := strings.Fields(out.Text())
			h, err := dag.ParseHash(f[len(f)-1])
			if err != nil {
				t.Fatalf("the child said %q", out.Text())
			}
			acked[h] = true
			if f[0] != "blob" {
				steps[f[0]]++
			}
		}
		c.Wait() // it ends with an error: its disk is gone
		d.again()
		verify(t, dir, steps, acked, &log)
	}
	if len(acked) < rounds {
		t.Errorf("only %d things were acknowledged in %d rounds: the children hardly ran", len(acked), rounds)
	}
	soak.Figure(t, "%s: %d power cuts, %d steps and blobs reported as durable, none lost", kind, rounds, len(acked))
}
