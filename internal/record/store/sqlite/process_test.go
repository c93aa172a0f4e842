package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/internal/testing/verifytest"
)

// childRole makes the test binary one of the processes that tests start.
const childRole = "PLAIT_TEST_CHILD"

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{
		"write": writeForever,
		"cut":   writeUntilCut,
		"count": count,
		"limit": writeOverLimit,
		"hold":  hold,
		"file":  fileForever,
	}
	if role, ok := roles[os.Getenv(childRole)]; ok {
		if err := role(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	housetest.OwnMounts()
	os.Exit(m.Run())
}

// child starts a process in a role and returns it with its output.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner, io.WriteCloser) {
	t.Helper()
	c := exec.Command(os.Args[0], dir)
	c.Env = append(os.Environ(), childRole+"="+role)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c, bufio.NewScanner(out), in
}

// step moves t and records it, as a batch; t is as it is after it.
func step(t *store.Thread, text string) store.Batch {
	o := object(text, store.Node)
	x := store.ThreadChange{From: t.State()}
	t.Head = o.Hash
	t.Steps++
	x.Row = *t
	return store.Batch{
		Objects: []store.Object{o},
		Threads: []store.ThreadChange{x},
		Events:  []store.Event{{Type: "step", Task: t.Task, Thread: t.ID}},
	}
}

func begin(ctx context.Context, s *sqlite.Store, id string) (store.Thread, error) {
	if t, err := s.Thread(ctx, id); !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	o := object("start of "+id, store.Node)
	t := store.Thread{ID: id, Task: id, Root: id, Start: o.Hash, Head: o.Hash, Status: store.Running}
	return t, s.Commit(ctx, store.Batch{Objects: []store.Object{o}, Threads: []store.ThreadChange{{Row: t}}})
}

// writeForever writes, and prints what was reported as durable.
func writeForever(dir string) error {
	return write(dir, func(line string) error {
		_, err := fmt.Println(line)
		return err
	})
}

// write commits steps of four threads and stages large blobs, until something fails. It passes to done
// what was reported as durable.
func write(dir string, done func(line string) error) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for i := range 4 {
		go func() {
			errs <- func() error {
				t, err := begin(ctx, s, fmt.Sprint("T", i))
				if err != nil {
					return err
				}
				for n := t.Steps; ; n++ {
					big := strings.NewReader(strings.Repeat(fmt.Sprint(n, i, os.Getpid()), 40<<10))
					if i == 0 {
						h, _, err := s.Stage(ctx, "pin", big)
						if err != nil {
							return err
						}
						if err := done(fmt.Sprintf("blob %s", h)); err != nil {
							return err
						}
					}
					if err := s.Commit(ctx, step(&t, fmt.Sprint(t.ID, n, os.Getpid()))); err != nil {
						return err
					}
					if err := done(fmt.Sprintf("%s %d %s", t.ID, t.Steps, t.Head)); err != nil {
						return err
					}
				}
			}()
		}()
	}
	return <-errs
}

// fileForever writes histories.
func fileForever(dir string) error {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	return verifytest.Write(context.Background(), s)
}

// TestHistories verifies histories whose writing processes were killed.
func TestHistories(t *testing.T) {
	n := soak.Rounds(t, soak.Tries(24, 3))
	kills := verifytest.Histories(t, n, func() verifytest.Record {
		dir := t.TempDir()
		c := exec.Command(os.Args[0], dir)
		c.Env = append(os.Environ(), childRole+"=file")
		return verifytest.Record{Open: func() store.Store { return open(t, dir) }, Write: c}
	})
	soak.Figure(t, "%d random histories with %d kills: verify is ok, and each log extends all that were seen before", n, kills)
}

// TestKill kills a writing process at random times: whatever was reported as
// durable is there, and the store needs no repair.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rounds := soak.Rounds(t, 30)
	var log storetest.Witness
	steps, acked := map[string]int{}, map[dag.Hash]bool{}
	for range rounds {
		c, out, _ := child(t, "write", dir)
		for n := rand.IntN(120); out.Scan(); n-- {
			if n == 0 {
				c.Process.Kill()
			}
			// What was printed before the kill counts, even if we read it later.
			f := strings.Fields(out.Text())
			h, err := dag.ParseHash(f[len(f)-1])
			if err != nil {
				continue // cut off by the kill
			}
			acked[h] = true
			if f[0] != "blob" {
				var n int
				fmt.Sscan(f[1], &n)
				steps[f[0]] = max(steps[f[0]], n)
			}
		}
		c.Wait()
		verify(t, dir, steps, acked, &log)
	}
	if len(acked) < rounds {
		t.Errorf("only %d things were acknowledged in %d rounds: the children hardly ran", len(acked), rounds)
	}
	soak.Figure(t, "%d kills, %d steps and blobs reported as durable, none lost", rounds, len(acked))
}

// verify opens the store and looks for everything that was acknowledged, and for all that log has seen.
func verify(t *testing.T, dir string, steps map[string]int, acked map[dag.Hash]bool, log *storetest.Witness) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	ctx := t.Context()
	for id, n := range steps {
		row, err := s.Thread(ctx, id)
		if err != nil || row.Steps < n {
			t.Fatalf("%s has %d steps (%v), %d were acknowledged", id, row.Steps, err, n)
		}
		if _, err := s.Get(ctx, row.Head); err != nil {
			t.Fatal(err)
		}
	}
	for h := range acked {
		if _, err := s.Get(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	gapless(t, s)
	extends(t, s, log)
}

func gapless(t *testing.T, s *sqlite.Store) int {
	t.Helper()
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	seq := map[string]int64{}
	for i, e := range events {
		if seq[e.Task]++; e.Pos != int64(i+1) || e.Seq != seq[e.Task] {
			t.Fatalf("event %d has position %d and number %d, want number %d", i+1, e.Pos, e.Seq, seq[e.Task])
		}
	}
	return len(events)
}

// clean fails the test if Check finds anything, or the log is not that over the journal.
func clean(t *testing.T, s *sqlite.Store) {
	t.Helper()
	extends(t, s, new(storetest.Witness))
}

// extends does what clean does, and fails the test if the log does not begin with what was seen of it.
func extends(t *testing.T, s *sqlite.Store, log *storetest.Witness) {
	t.Helper()
	lines, err := s.Check(t.Context())
	if err != nil || len(lines) > 0 {
		t.Fatalf("check: %v\n%s", err, strings.Join(lines, "\n"))
	}
	if err := log.See(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

const (
	counters   = 4
	increments = 50
)

// count adds to a thread's steps, as other processes do, from several
// goroutines, and retries until it succeeds.
func count(dir string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	var wg sync.WaitGroup
	errs := make(chan error, counters)
	for i := range counters {
		wg.Go(func() {
			for n := 0; n < increments; {
				t, err := s.Thread(ctx, "counter")
				if err == nil {
					err = s.Commit(ctx, step(&t, fmt.Sprint(i, n, os.Getpid())))
				}
				if err == nil {
					n++
				} else if !errors.Is(err, store.ErrConflict) {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// TestProcesses has three processes open a fresh directory concurrently and count in it.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	if _, err := begin(t.Context(), s, "counter"); err != nil {
		t.Fatal(err)
	}
	var children []*exec.Cmd
	for range 3 {
		c, _, _ := child(t, "count", dir)
		children = append(children, c)
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	row, err := s.Thread(t.Context(), "counter")
	if want := 3 * counters * increments; err != nil || row.Steps != want {
		t.Fatalf("counted to %d (%v), want %d", row.Steps, err, want)
	}
	if n := gapless(t, s); n != row.Steps {
		t.Fatalf("%d events for %d steps", n, row.Steps)
	}
	clean(t, s)
}

// TestOpenTogether opens a fresh directory from many goroutines concurrently.
func TestOpenTogether(t *testing.T) {
	for range 5 {
		dir := t.TempDir() + "/home"
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if _, err := begin(t.Context(), s, fmt.Sprint("T", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// writeOverLimit writes until the system refuses to let a file grow, which
// SQLite sees as a failed write.
func writeOverLimit(dir string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return err
	}
	t, err := begin(ctx, s, "T0")
	for err == nil {
		err = s.Commit(ctx, step(&t, strings.Repeat(fmt.Sprint(t.Steps), 10<<10)))
		if err == nil {
			fmt.Printf("%s %d %s\n", t.ID, t.Steps, t.Head)
		}
	}
	if !errors.Is(err, store.ErrBroken) {
		return fmt.Errorf("a failed write was told as: %w", err)
	}
	if err := s.Commit(ctx, store.Batch{}); !errors.Is(err, store.ErrBroken) {
		return fmt.Errorf("the store went on after a failed write: %v", err)
	}
	if _, err := s.Thread(ctx, "T0"); !errors.Is(err, store.ErrBroken) {
		return fmt.Errorf("the store was still read after a failed write: %v", err)
	}
	return s.Close()
}

func TestFailedWriteStops(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	c, out, _ := child(t, "limit", dir)
	steps, acked := map[string]int{}, map[dag.Hash]bool{}
	for out.Scan() {
		f := strings.Fields(out.Text())
		h, err := dag.ParseHash(f[2])
		if err != nil {
			t.Fatal(err)
		}
		steps["T0"]++
		acked[h] = true
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(acked) == 0 {
		t.Fatal("nothing was written before the limit")
	}
	verify(t, dir, steps, acked, new(storetest.Witness))
}
