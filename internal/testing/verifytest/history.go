package verifytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/storetest"
)

// Draw writes a history in memory that rapid draws. Its writer is killed again and again, at times by a commit that
// failed, or that only seemed to. After each, the log is that over its entries and begins with all that it was before,
// and in the end verification finds nothing.
func Draw(rt *rapid.T) {
	bundle, disk := Bundle(rt), mem.New(mem.Config{Proven: true})
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
	var w storetest.Witness
	for range 1 + pick(3) {
		left, when := pick(15), []mem.When{mem.Before, mem.After}[pick(2)]
		s := disk.With(func(op mem.Op, at mem.When) error {
			if op != mem.OpCommit || at != when {
				return nil
			}
			if left--; left < 0 {
				return errFault
			}
			return nil
		})
		writer := NewWriter(s, "T", bundle, pick)
		var err error
		for err == nil {
			err = writer.Write(rt.Context())
		}
		if !errors.Is(err, errFault) {
			rt.Fatal(err)
		}
		s.Kill()
		if err := w.See(rt.Context(), disk); err != nil {
			rt.Fatal(err)
		}
	}
	sound(rt, disk, w)
}

var errFault = errors.New("a fault")

// A Record is what processes write to.
type Record struct {
	Open  func() store.Store // in this process
	Write *exec.Cmd          // a process that calls Write on it; it is started several times
}

// writerEnv has the name of the writer in a process of Histories.
const writerEnv = "PLAIT_TEST_WRITER"

// Write writes to a store until the process is killed, and prints a line after each batch.
func Write(ctx context.Context, s store.Store) error {
	w := NewWriter(s, os.Getenv(writerEnv), Bundle(process{}), rand.IntN)
	for {
		if err := w.Write(ctx); err != nil {
			return err
		}
		fmt.Println("a batch")
	}
}

// A process is a housetest.T where there is no test.
type process struct{}

func (process) Helper()                   {}
func (process) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }

// Histories writes n histories, each to a record of its own, by one or two processes at a time that are killed again
// and again, and returns the number of kills. It checks what [Draw] does.
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
			sound(t, s, w)
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
		if !first.Scan() {
			t.Fatalf("a writer ended by itself: %v", first.Err())
		}
	}
}

// A tester is a test, of package testing or of rapid.
type tester interface {
	Context() context.Context
	Helper()
	Fatalf(format string, args ...any)
}

// sound fails the test unless verification finds nothing, and the log begins with all that a witness has seen.
func sound(t tester, s store.Store, w storetest.Witness) {
	t.Helper()
	cfg := verify.Config{Store: s}
	for _, was := range w.Seen {
		cfg.Seen = append(cfg.Seen, verify.Seen{By: "a witness", Size: was.Size(), Root: was.Root()})
	}
	if r, err := verify.All(t.Context(), cfg); err != nil || !r.OK() || r.History != verify.OK {
		t.Fatalf("%s, %q: %v", r.History, r.Problems, err)
	}
}
