package cli

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A fault is how a disk operation fails.
type fault string

const (
	notKept fault = "not kept"   // it reports failure, and did fail
	kept    fault = "kept"       // it reports failure, but did not fail
	noSpace fault = "no space"   // there is no room for this one
	short   fault = "short"      // half is written
	noSync  fault = "sync fails" // only sync operations fail
	full    fault = "disk full"  // there is no room for this one, nor for any that follows
)

var faults = []fault{notKept, kept, noSpace, short, noSync, full}

// A faultDisk is a directory whose changes can be made to fail: a file system that passes everything
// on to another directory. Writes to mapped memory are not counted: their time is up to the kernel.
type faultDisk struct {
	fuse.RawFileSystem

	mu    sync.Mutex
	armed fault
	left  int // changes until the armed fault, counting only those that can have it
	seen  map[fault]int
	hit   string // the change that failed
}

// newFaultDisk mounts a disk at dir, which requires root.
func newFaultDisk(t *testing.T, dir string) *faultDisk {
	t.Helper()
	root, err := fs.NewLoopbackRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	minute := time.Minute // nothing else changes the directory below
	d := &faultDisk{
		RawFileSystem: fs.NewNodeFS(root, &fs.Options{EntryTimeout: &minute, AttrTimeout: &minute, NegativeTimeout: &minute}),
		seen:          map[fault]int{},
	}
	server, err := fuse.NewServer(d, dir, &fuse.MountOptions{DirectMountStrict: true, FsName: "faults",
		DisableXAttrs: true})
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a disk that fails: %v", err)
		}
		t.Skipf("NOT TESTED: mounting a disk that fails takes root and /dev/fuse: %v", err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return d
}

// arm makes the n-th change that f can happen to fail, counted from now.
func (d *faultDisk) arm(f fault, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed, d.left, d.hit = f, n, ""
}

// disarm returns the change that failed, "" if none did.
func (d *faultDisk) disarm() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = ""
	return d.hit
}

// can reports whether a fault can happen to an operation.
func can(f fault, op string) bool {
	switch f {
	case short:
		return op == "write"
	case noSync:
		return op == "sync"
	case noSpace, full:
		return op != "sync" && op != "unlink" && op != "rmdir"
	}
	return true
}

// next returns the fault of one change, "" for none.
func (d *faultDisk) next(op, name string) fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range faults {
		if can(f, op) {
			d.seen[f]++
		}
	}
	if d.armed == "" || !can(d.armed, op) {
		return ""
	}
	if d.left--; d.left > 0 || d.left < 0 && d.armed != full {
		return ""
	}
	if d.hit == "" {
		d.hit = op + " " + name
	}
	return d.armed
}

// change makes one change, or makes it fail.
func (d *faultDisk) change(op, name string, do func() fuse.Status) fuse.Status {
	switch d.next(op, name) {
	case "":
		return do()
	case kept:
		do()
	case noSpace, full:
		return fuse.Status(syscall.ENOSPC)
	}
	return fuse.EIO
}

func (d *faultDisk) Write(c <-chan struct{}, in *fuse.WriteIn, data []byte) (n uint32, status fuse.Status) {
	switch d.next("write", "") {
	case "":
		return d.RawFileSystem.Write(c, in, data)
	case kept:
		d.RawFileSystem.Write(c, in, data)
	case short:
		if len(data) > 1 {
			return d.RawFileSystem.Write(c, in, data[:len(data)/2])
		}
	case noSpace, full:
		return 0, fuse.Status(syscall.ENOSPC)
	}
	return 0, fuse.EIO
}

func (d *faultDisk) Fsync(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return d.change("sync", "", func() fuse.Status { return d.RawFileSystem.Fsync(c, in) })
}

func (d *faultDisk) FsyncDir(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return d.change("sync", "of a directory", func() fuse.Status { return d.RawFileSystem.FsyncDir(c, in) })
}

func (d *faultDisk) SetAttr(c <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return d.change("setattr", "", func() fuse.Status { return d.RawFileSystem.SetAttr(c, in, out) })
}

func (d *faultDisk) Mkdir(c <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return d.change("mkdir", name, func() fuse.Status { return d.RawFileSystem.Mkdir(c, in, name, out) })
}

func (d *faultDisk) Create(c <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	f := d.next("create", name)
	if f == kept { // a failed create must not leave an open file: the file exists, but is not open
		var entry fuse.EntryOut
		d.RawFileSystem.Mknod(c, &fuse.MknodIn{InHeader: in.InHeader, Mode: syscall.S_IFREG | in.Mode}, name, &entry)
		d.RawFileSystem.Forget(entry.NodeId, 1)
	}
	switch f {
	case "":
		return d.RawFileSystem.Create(c, in, name, out)
	case noSpace, full:
		return fuse.Status(syscall.ENOSPC)
	}
	return fuse.EIO
}

func (d *faultDisk) Unlink(c <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return d.change("unlink", name, func() fuse.Status { return d.RawFileSystem.Unlink(c, in, name) })
}

// Open makes the kernel repeat the lookup of a name that it still has, since its removal was reported as failed.
func (d *faultDisk) Open(c <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if status := d.RawFileSystem.Open(c, in, out); status != fuse.ENOENT {
		return status
	}
	return fuse.Status(syscall.ESTALE)
}

func (d *faultDisk) Rmdir(c <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return d.change("rmdir", name, func() fuse.Status { return d.RawFileSystem.Rmdir(c, in, name) })
}

func (d *faultDisk) Rename(c <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return d.change("rename", from+" "+to, func() fuse.Status { return d.RawFileSystem.Rename(c, in, from, to) })
}

func (d *faultDisk) Link(c <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return d.change("link", name, func() fuse.Status { return d.RawFileSystem.Link(c, in, name, out) })
}

func (d *faultDisk) Symlink(c <-chan struct{}, in *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	return d.change("symlink", name, func() fuse.Status { return d.RawFileSystem.Symlink(c, in, to, name, out) })
}

func (d *faultDisk) Fallocate(c <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	return d.change("allocate", "", func() fuse.Status { return d.RawFileSystem.Fallocate(c, in) })
}

// Writev is not implemented, so that every write is a Write.
func (d *faultDisk) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
