package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// writerEnv is set to the record's URL in the processes that write alongside a collector; writerName to its name.
const (
	writerEnv  = "PLAIT_TEST_WRITER"
	writerName = "PLAIT_TEST_WRITER_NAME"
)

// beWriter takes steps, each with bytes that were garbage before, until its input ends; then it prints how many.
func beWriter(url string) error {
	ctx := context.Background()
	s, err := postgres.Open(ctx, postgres.Config{URL: url})
	if err != nil {
		return err
	}
	defer s.Close()
	over := make(chan struct{})
	go func() {
		os.Stdin.Read(make([]byte, 1))
		close(over)
	}()
	text := os.Getenv(writerName)
	o := blob(text)
	row := store.Thread{ID: "01K" + text, Task: "01K" + text, Root: "01K" + text, Head: o.Hash, Start: o.Hash,
		Status: store.Running}
	if err := s.Commit(ctx, store.Batch{Objects: []store.Object{o},
		Threads: []store.ThreadChange{{Row: row}}}); err != nil {
		return err
	}
	fmt.Println("begun")
	for n := 0; ; n++ {
		select {
		case <-over:
			fmt.Println(n)
			return nil
		default:
		}
		o, next := blob(fmt.Sprintf("garbage %d", n)), row // which may be collected right now
		next.Head, next.Steps = o.Hash, row.Steps+1
		err := s.Commit(ctx, store.Batch{Objects: []store.Object{o},
			Threads: []store.ThreadChange{{Row: next, From: row.State()}}})
		if err != nil {
			return err
		}
		row = next
		if _, err := s.Get(ctx, row.Head); err != nil { // what the row names exists
			return err
		}
	}
}

func blob(text string) store.Object {
	return store.Object{Hash: dag.Sum([]byte(text)), Kind: store.Blob, Data: []byte(text)}
}

// writersBeside starts processes that write, and returns once all do; the function that it returns ends them
// and returns how many steps they took.
func writersBeside(t *testing.T, url string, names ...string) func() int {
	t.Helper()
	type writer struct {
		cmd  *exec.Cmd
		in   io.Closer
		said *bufio.Reader
	}
	var all []writer
	for _, name := range names {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+url, writerName+"="+name)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err = errors.Join(err, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		w := writer{cmd, in, bufio.NewReader(out)}
		if line, err := w.said.ReadString('\n'); err != nil || line != "begun\n" {
			t.Fatalf("a writer says %q: %v", line, err)
		}
		all = append(all, w)
	}
	return func() (steps int) {
		t.Helper()
		for _, w := range all {
			w.in.Close()
			line, err := w.said.ReadString('\n')
			n, err2 := strconv.Atoi(strings.TrimSpace(line))
			if err = errors.Join(err, err2, w.cmd.Wait()); err != nil || n == 0 {
				t.Errorf("a writer took %d steps: %q, %v", n, line, err)
			}
			steps += n
		}
		return steps
	}
}

// TestCollect removes garbage, half of all objects, without any grace while three processes write: all of it goes,
// nothing that is named does, commits continue meanwhile, and the record is sound. In make soak, of 200,000 objects.
func TestCollect(t *testing.T) {
	t.Parallel()
	objects := soak.Rounds(t, 8000)
	server := pgtest.Shared(t)
	url := newRecord(t, server)
	s := open(t, postgres.Config{URL: url})
	const part = 500
	var garbage, kept []dag.Hash
	for done := 0; done < objects; done += 2 * part {
		var b store.Batch
		for i := done; i < done+part; i++ {
			left, named := blob(fmt.Sprintf("garbage %d", i)), blob(fmt.Sprintf("kept %d", i))
			b.Objects = append(b.Objects, left, named)
			garbage, kept = append(garbage, left.Hash), append(kept, named.Hash)
			b.Threads = append(b.Threads, store.ThreadChange{Row: store.Thread{
				ID: id(i), Task: id(i), Root: id(i), Head: named.Hash, Start: named.Hash, Status: store.Completed,
			}})
		}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	writers := writersBeside(t, url, "A", "B", "C")
	began := time.Now()
	res, err := gc.Run(t.Context(), gc.Config{Store: s})
	took := time.Since(began)
	steps := writers()
	if err != nil || res.Deleted == 0 {
		t.Errorf("of %d that nothing names %d were deleted: %v", len(garbage), res.Deleted, err)
	}
	// What writers put again meanwhile, and abandoned, goes now that they are gone.
	if _, err := gc.Run(t.Context(), gc.Config{Store: s}); err != nil {
		t.Error(err)
	}
	left := 0
	for e, err := range s.List(t.Context()) {
		if left++; err != nil {
			t.Fatal(e, err)
		}
	}
	if most := len(kept) + 3 + 3; left < len(kept)+1 || left > most { // plus each writer's start and head
		t.Errorf("%d objects are left, named are %d", left, most)
	}
	began = time.Now()
	report, err := verify.All(t.Context(), verify.Config{Store: s})
	verified := time.Since(began)
	if err != nil || report.Objects < len(kept) {
		t.Errorf("verified %d of %d: %v", report.Objects, len(kept), err)
	}
	for _, p := range report.Problems { // that heads are not steps is expected
		if p.Kind == verify.Completeness || strings.Contains(p.What, "corrupt") {
			t.Errorf("%s: %s", p.Hash, p.What)
		}
	}
	for part := range slices.Chunk(kept, 1000) {
		if _, err := s.Many(t.Context(), part); err != nil {
			t.Error(err)
		}
	}
	if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
		t.Errorf("check: %q, %v", wrong, err)
	}
	soak.Figure(t, "%d of %d objects collected in %v beside %d steps of writers in 3 processes, none of them harmed; "+
		"verified in %v",
		res.Deleted, 2*len(garbage), took.Round(time.Millisecond), steps, verified.Round(time.Millisecond))
}
