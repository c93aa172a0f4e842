package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestCompactClears creates files that crashes leave behind, and files that must stay.
func TestCompactClears(t *testing.T) {
	dir := t.TempDir()
	_, large := filled(t, dir, 1)
	s := open(t, dir)
	defer s.Close()
	write := func(path string, old bool) string {
		path = filepath.Join(dir, "objects", path)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte("orphan"), 0o600); err != nil {
			t.Fatal(err)
		}
		if old {
			then := time.Now().Add(-2 * time.Hour)
			os.Chtimes(path, then, then)
		}
		return path
	}
	loose := func(text string) string {
		h := dag.Sum([]byte(text)).String()
		return filepath.Join(h[:2], h)
	}
	held := write("tmp/stage-held", true)
	f, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	pinned := dag.Sum([]byte("pinned"))
	statement(fmt.Sprintf("INSERT INTO pins VALUES ('p', x'%s')", pinned))(t, dir, dag.Hash{})
	goes := []string{write("tmp/stage-old", true), write(loose("old orphan"), true)}
	stays := []string{held, write("tmp/stage-new", false), write(loose("new orphan"), false), write(loose("pinned"), true),
		filepath.Join(dir, "objects", large.String()[:2], large.String())}
	if err := s.Compact(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, path := range goes {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stays {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if pins, err := s.Pins(t.Context()); err != nil || len(pins) != 1 || pins[0] != large {
		t.Errorf("pins are %v (%v), want only that of the blob that is there", pins, err)
	}
}

// TestCompactShrinks checks that space is returned to the file system.
func TestCompactShrinks(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	var hs []dag.Hash
	for i := range 200 {
		o := object(fmt.Sprint(i, strings.Repeat("x", 50<<10)), store.Blob)
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{o}}); err != nil {
			t.Fatal(err)
		}
		hs = append(hs, o.Hash)
	}
	_, err := s.Sweep(t.Context(), 0, func(store.View) ([]dag.Hash, error) { return hs, nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plait.db", "plait.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	clean(t, s)
}
