package sqlite_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// smallDisk mounts a file system of the given size, which requires root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Skipf("NOT TESTED: mounting a small disk takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	for _, kind := range []string{"commit", "stage"} {
		t.Run(kind, func(t *testing.T) {
			dir := smallDisk(t, "2m")
			s := open(t, dir)
			defer s.Close()
			rng := rand.NewChaCha8([32]byte{})
			put := func(size int) (store.Object, error) {
				data := make([]byte, size)
				rng.Read(data)
				o := object(string(data), store.Blob)
				if kind == "commit" {
					return o, s.Commit(t.Context(), store.Batch{Objects: []store.Object{o}, Events: []store.Event{{Type: "x"}}})
				}
				_, _, err := s.Stage(t.Context(), "p", strings.NewReader(string(data)))
				return o, err
			}
			var kept []store.Object
			var err error
			for err == nil {
				var o store.Object
				if o, err = put(300 << 10); err == nil {
					kept = append(kept, o)
				}
			}
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "disk full") ||
				errors.Is(err, store.ErrBroken) {
				t.Fatalf("a full disk was told as: %v", err)
			}
			if len(kept) == 0 {
				t.Fatal("nothing fitted")
			}
			if temps, err := os.ReadDir(filepath.Join(dir, "objects", "tmp")); err != nil || len(temps) > 0 {
				t.Errorf("%d temporary files are left (%v)", len(temps), err)
			}
			for _, o := range kept {
				if _, err := s.Get(t.Context(), o.Hash); err != nil {
					t.Error(err)
				}
			}
			// With room again the same handle continues.
			if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"); err != nil {
				t.Fatal(err)
			}
			if _, err := put(300 << 10); err != nil {
				t.Fatal(err)
			}
			gapless(t, s)
			clean(t, s)
		})
	}
}

func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, "16m")
	small, large := filled(t, dir, 3)
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err == nil {
		s.Close()
		t.Error("opened for writing")
	} else if !errors.Is(err, syscall.EROFS) {
		t.Errorf("a read-only disk was told as: %v", err)
	}
	readOnly(t, dir, append(small, large))
}

// TestReadsFullDisk checks that a store on a full disk, with no room for what SQLite opens it with, can be read, and
// says why it takes nothing.
func TestReadsFullDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	small, large := filled(t, dir, 3)
	ballast := filepath.Join(dir, "ballast")
	for size := 1 << 20; size > 0; size /= 2 {
		for f, err := os.OpenFile(ballast, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil; {
			_, err = f.Write(make([]byte, size))
			f.Close()
			if err == nil {
				f, err = os.OpenFile(ballast, os.O_APPEND|os.O_WRONLY, 0o600)
			}
		}
	}
	s, err := sqlite.OpenHome(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range append(small, large) {
		if _, err := s.Get(t.Context(), h); err != nil {
			t.Error(err)
		}
	}
	o := object("no room", store.Blob)
	if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{o}}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a commit returned %v", err)
	}
	s.Close()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	defer again.Close()
	if err := again.Commit(t.Context(), store.Batch{Objects: []store.Object{o}}); err != nil {
		t.Error(err)
	}
}

// TestReadOnly opens a store while another process writes to it, and afterwards.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	small, large := filled(t, dir, 3)
	all := append(small, large)
	readOnly(t, dir, all)
	s := open(t, dir)
	defer s.Close()
	o := object("in the log", store.Blob)
	if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{o}}); err != nil {
		t.Fatal(err)
	}
	readOnly(t, dir, append(all, o.Hash))
}

func readOnly(t *testing.T, dir string, hs []dag.Hash) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, h := range hs {
		if _, err := s.Get(t.Context(), h); err != nil {
			t.Error(err)
		}
	}
	clean(t, s)
	if err := s.Commit(t.Context(), store.Batch{}); err == nil {
		t.Error("a commit was taken")
	}
	if _, _, err := s.Stage(t.Context(), "p", strings.NewReader("x")); err == nil {
		t.Error("a blob was staged")
	}
	if _, err := s.Acquire(t.Context(), "x"); err == nil {
		t.Error("a lease was given")
	}
	if err := s.Compact(t.Context(), 0); err == nil {
		t.Error("compacted")
	}
}
