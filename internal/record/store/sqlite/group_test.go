package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Of batches that share a transaction, those that conflict fail and leave nothing behind; the
// others are applied, once.
func TestConflictsInAGroup(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	batch := func(thread string, n int) store.Batch {
		text := []byte(fmt.Sprint("object ", n))
		return store.Batch{
			Objects: []store.Object{{Hash: dag.Sum(text), Data: text}},
			Threads: []store.ThreadChange{{Row: store.Thread{ID: thread, Task: thread, Root: thread, Kind: store.KindRoot}}},
			Events:  []store.Event{{Type: "x", Task: thread, Thread: thread}},
		}
	}
	if err := s.Commit(t.Context(), batch("taken", 1000)); err != nil {
		t.Fatal(err)
	}
	const many = 60
	held, free := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := s.submit(t.Context(), alone, func(*tx) error { close(held); <-free; return nil })
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	errs := make([]error, many)
	for i := range many {
		all.Go(func() {
			name := fmt.Sprintf("T%d", i)
			if i%7 == 3 {
				name = "taken"
			}
			errs[i] = s.Commit(t.Context(), batch(name, i))
		})
	}
	time.Sleep(50 * time.Millisecond) // most of them wait by now; how many does not matter
	close(free)
	all.Wait()
	applied := 1
	for i, err := range errs {
		kept, hasErr := s.Has(t.Context(), dag.Sum([]byte(fmt.Sprint("object ", i))))
		if hasErr != nil {
			t.Fatal(hasErr)
		}
		switch conflict := i%7 == 3; {
		case conflict != errors.Is(err, store.ErrConflict), !conflict && err != nil:
			t.Errorf("batch %d: %v", i, err)
		case kept == conflict:
			t.Errorf("batch %d: its object is kept: %v", i, kept)
		case !conflict:
			applied++
		}
	}
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil || len(events) != applied || events[applied-1].Pos != int64(applied) {
		t.Errorf("%d events, want %d: %v", len(events), applied, err)
	}
	sound(t, s)
}

// An object put by a batch that failed is not visible to later batches in its transaction.
func TestFailedBatchKeepsNothing(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := store.Object{Hash: dag.Sum([]byte("x")), Data: []byte("x")}
	err = s.submit(t.Context(), alone, func(t *tx) error {
		result, err := t.try(newRequest(context.Background(), grouped, func(t *tx) error {
			return errors.Join(t.put(o, o.Data), store.ErrConflict)
		}))
		if !errors.Is(result, store.ErrConflict) || err != nil {
			return fmt.Errorf("tried: %w, %w", result, err)
		}
		if kept, err := t.has(o.Hash); err != nil || kept {
			return fmt.Errorf("it is there: %v, %w", kept, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// openTwo returns two handles on one store, as two processes have them.
func openTwo(t *testing.T) (two [2]*Store) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	for i := range two {
		s, err := Open(t.Context(), Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		two[i] = s
	}
	return two
}

// A commit by another process between two transactions is noticed: no position and no row is assigned
// twice.
func TestTransactionsInTurn(t *testing.T) {
	two := openTwo(t)
	const turns = 12
	for i := range turns {
		text := []byte(fmt.Sprint("object ", i))
		err := two[i/2%2].Commit(t.Context(), store.Batch{ // each twice in a row
			Objects: []store.Object{{Hash: dag.Sum(text), Data: text}}, Events: []store.Event{{Type: "x", Task: "T"}},
		})
		if err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
	}
	for i, s := range two {
		events, err := s.Events(t.Context(), 0, store.EventFilter{})
		if err != nil || len(events) != turns || events[turns-1].Pos != turns || events[turns-1].Seq != turns {
			t.Errorf("store %d has %d events of %d: %v", i, len(events), turns, err)
		}
		for i := range turns {
			if _, err := s.Get(t.Context(), dag.Sum([]byte(fmt.Sprint("object ", i)))); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCommitsReachTheDisk checks what the writer asks of the system before a commit is reported.
func TestCommitsReachTheDisk(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir() + "/home"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const full = 2
	for pragma, want := range map[string]int64{"synchronous": full, "fullfsync": 1, "checkpoint_fullfsync": 1} {
		got := int64(-1)
		err := s.submit(t.Context(), bare, func(t *tx) error {
			_, err := first(t.Conn, "PRAGMA "+pragma, func(r *row) { got = r.int() })
			return err
		})
		if err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", pragma, got, err, want)
		}
	}
}
