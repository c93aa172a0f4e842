package gc_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/soak"
)

// sequences makes the test binary a process that writes: its arguments are a directory and a name, its
// value is how many sequences of twenty steps each of two writers does.
const sequences = "PLAIT_TEST_SEQUENCES"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(sequences)); err == nil {
		if err := writeTwice(os.Args[1], os.Args[2], n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func writeTwice(dir, name string, n int) error {
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Now: newClock().now})
	if err != nil {
		return err
	}
	defer s.Close()
	errs := make(chan error)
	for i := range 2 {
		go func() {
			var err error
			for j := 0; j < n && err == nil; j++ {
				err = write(s, fmt.Sprintf("%s%d-%d", name, i, j), 20)
			}
			errs <- err
		}()
	}
	err = <-errs
	if other := <-errs; err == nil {
		err = other
	}
	return err
}

// TestBesideProcesses has two processes, with two writers each, put what was just collected again, fork
// and remove, while this one collects without any grace: whatever a row names exists, all the way down.
// The writers check after each step, too.
func TestBesideProcesses(t *testing.T) {
	const writers = 4
	each := (soak.Rounds(t, soak.Tries(500, 40)) + writers - 1) / writers
	dir := t.TempDir() + "/home"
	s := openSQLite(t, dir, newClock().now)
	var children sync.WaitGroup
	for _, name := range []string{"A", "B"} {
		c := exec.Command(os.Args[0], dir, name)
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", sequences, each))
		children.Go(func() {
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		children.Wait()
		close(ended)
	}()
	collections := 0
	for done := false; !done; collections++ {
		select {
		case <-ended:
			done = true
		default:
		}
		if _, err := gc.Run(ctx, gc.Config{Store: s, Now: newClock().now}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Threads(ctx, store.ThreadFilter{})
	if err != nil || len(rows) < writers {
		t.Fatalf("%d threads, %v", len(rows), err)
	}
	for _, r := range rows {
		if err := closed(s, r.Head, r.Start, r.Bundle); err != nil {
			t.Errorf("thread %s: %v", r.ID, err)
		}
	}
	soak.Figure(t, "%d sequences of 4 writers in 2 processes beside %d collections: nothing reachable was removed",
		writers*each, collections)
}
