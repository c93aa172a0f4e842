package git_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
)

// A full disk is reported as one.
func TestSnapshotOnAFullDisk(t *testing.T) {
	dir := newDir(t)
	if err := syscall.Mount("none", dir, "tmpfs", 0, "mode=700,size=4m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Skipf("NOT TESTED: mounting a small disk takes root: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	userGit(t, dir, "init", "-q")
	large := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(large)
	files{"a": string(large)}.write(t, dir)
	if tree, err := open(t, dir).Snapshot(context.Background(), ""); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("snapshot %s: %v", tree, err)
	}
}
