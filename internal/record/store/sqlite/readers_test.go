package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/store"
)

// TestReadersAreReused checks that consecutive reads share one connection, that concurrent reads take one each
// up to the limit, and that one more waits.
func TestReadersAreReused(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir() + "/home"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 10 {
		if _, err := s.Flows(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.readers.idle); n != 1 {
		t.Errorf("%d connections are open", n)
	}
	var reading, ended sync.WaitGroup
	more := make(chan struct{})
	for range readerCount {
		reading.Add(1)
		ended.Go(func() {
			err := s.read(t.Context(), func(*sqlite.Conn) error { reading.Done(); <-more; return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	reading.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.read(ctx, func(*sqlite.Conn) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a read more than there may be: %v", err)
	}
	close(more)
	ended.Wait()
	if n := len(s.readers.idle); n != readerCount || len(s.readers.busy) != 0 {
		t.Errorf("%d connections are idle, %d busy", n, len(s.readers.busy))
	}
}

// TestCloseEndsReads checks that closing interrupts running reads, and that nothing is read afterwards.
func TestCloseEndsReads(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir() + "/home"})
	if err != nil {
		t.Fatal(err)
	}
	reading, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- s.read(t.Context(), func(c *sqlite.Conn) error {
			close(reading)
			return each(c, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n", func(*row) {})
		})
	}()
	<-reading
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a read without an end has ended")
	}
	if _, err := s.Flows(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("a read after closing: %v", err)
	}
	if _, err := s.readers.take(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("a connection after closing: %v", err)
	}
}

// TestReadSoon checks that short reads use the writer's connection while it is idle, and see there what others have
// committed, and that they use another one while it writes.
func TestReadSoon(t *testing.T) {
	dir := t.TempDir() + "/home"
	s, other := openIn(t, dir), openIn(t, dir)
	add := func(s *Store, id string) {
		t.Helper()
		row := store.Thread{ID: id, Task: id, Root: id, Status: store.Pending}
		if err := s.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row}}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(soon bool) {
		t.Helper()
		var by *sqlite.Conn
		err := s.soon(t.Context(), func(c *sqlite.Conn) error {
			by = c
			found, err := first(c, "SELECT 1 FROM threads WHERE id = 'b'", func(*row) {})
			if !found {
				t.Error("what another process committed is not seen")
			}
			return err
		})
		if err != nil || (by == s.writer) != soon {
			t.Errorf("read by the connection that writes: %v, want %v; %v", by == s.writer, soon, err)
		}
	}
	add(s, "a")
	add(other, "b")
	check(true)
	s.writing <- struct{}{}
	check(false)
	<-s.writing
	add(s, "c")
	check(true)
}
