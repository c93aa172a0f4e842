package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// hold takes a lease and keeps it until it is killed.
func hold(dir string) error {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	if _, err := s.Acquire(context.Background(), "root"); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestLeaseDiesWithProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	c, out, _ := child(t, "hold", dir)
	if !out.Scan() || out.Text() != "held" {
		t.Fatalf("the child said %q", out.Text())
	}
	_, err := s.Acquire(t.Context(), "root")
	held, ok := errors.AsType[*store.HeldError](err)
	if want := fmt.Sprintf("process %d on ", c.Process.Pid); !ok || !strings.HasPrefix(held.Owner, want) {
		t.Fatalf("got %v, want a lease held by %s…", err, want)
	}
	if owner, is, err := s.Holder(t.Context(), "root"); err != nil || !is || owner != held.Owner {
		t.Fatalf("looked up as held by %q: %v, %v", owner, is, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if owner, is, err := s.Holder(t.Context(), "root"); err != nil || is || owner != "" {
		t.Fatalf("after its death it is held by %q: %v, %v", owner, is, err)
	}
	if _, err := os.Stat(dir + "/leases/root"); err != nil {
		t.Fatalf("the dead process's file should be in the way: %v", err)
	}
	l, err := s.Acquire(t.Context(), "root")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestLeaseOfKilledProcess checks that the lease of a killed process is available immediately, although kill
// returns before its locks are gone.
func TestLeaseOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	for range 20 {
		c, out, _ := child(t, "hold", dir)
		if !out.Scan() || out.Text() != "held" {
			t.Fatalf("the child said %q", out.Text())
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		l, err := s.Acquire(t.Context(), "root")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
