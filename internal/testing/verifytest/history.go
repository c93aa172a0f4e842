package verifytest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/storetest"
)

// A Record is what processes write to.
type Record struct {
	Open  func() store.Store // in this process
	Write *exec.Cmd          // a process that calls Write on it; it is started several times
}

// writerEnv has the name of the writer in a process of Histories.
const writerEnv = "PLAIT_TEST_VERIFYTEST"

// batch is what a writer prints after each batch.
const batch = "a batch"

// Write writes to a store until the process is killed, and prints a line after each batch.
func Write(ctx context.Context, s store.Store) error {
	w := NewWriter(s, os.Getenv(writerEnv), Bundle(process{}), rand.IntN)
	for {
		if err := w.Write(ctx); err != nil {
			return err
		}
		fmt.Println(batch)
	}
}

// A process is a housetest.T where there is no test.
type process struct{}

func (process) Helper()                   {}
func (process) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }

// Histories writes n histories, each to a record of its own, by one or two processes at a time that are killed again
// and again, and returns the number of kills. After each, the log is that over its entries and begins with all that it was
// before, and verification finds nothing.
func Histories(t *testing.T, n int, record func() Record) (kills int) {
	for range n {
		r := record()
		var w storetest.Witness
		for range 1 + rand.IntN(3) {
			names := []string{"A", "B"}[:1+rand.IntN(2)]
			killed(t, r.Write, names, rand.IntN(40))
			kills += len(names)
			s := r.Open()
			if err := w.See(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			Sound(t, s, w)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kills
}

// killed runs a process for each name, and kills all once the first has written n batches.
func killed(t *testing.T, write *exec.Cmd, names []string, n int) {
	t.Helper()
	var first *bufio.Scanner
	for _, name := range names {
		c := exec.Command(write.Path)
		c.Args, c.Stderr = write.Args, os.Stderr
		c.Env = append(write.Environ(), writerEnv+"="+name)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.Process.Kill()
			if c.Wait(); c.ProcessState.Exited() {
				t.Errorf("writer %s ended by itself: %v", name, c.ProcessState)
			}
		}()
		if first == nil {
			first = bufio.NewScanner(out)
		}
	}
	for ; n > 0; n-- {
		if !first.Scan() || first.Text() != batch {
			t.Fatalf("a writer ends by itself: %s (%v)", first.Text(), first.Err())
		}
	}
}

// A T is a test, of package testing or of rapid.
type T interface {
	housetest.T
	Context() context.Context
}

// Sound fails the test unless verification finds nothing, and the log begins with all that a witness has seen.
func Sound(t T, s store.Store, w storetest.Witness) {
	t.Helper()
	cfg := verify.Config{Store: s}
	for _, was := range w.Seen {
		cfg.Seen = append(cfg.Seen, verify.Seen{By: "a witness", Size: was.Size(), Root: was.Root()})
	}
	if r, err := verify.All(t.Context(), cfg); err != nil || !r.OK() || r.History != verify.OK {
		t.Fatalf("%s, %q: %v", r.History, r.Problems, err)
	}
}
