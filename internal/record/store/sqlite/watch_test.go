package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// TestWatch checks that a waiter is woken when another handle on the store, like that of another process,
// writes after a quiet period, and that it rarely looks meanwhile.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := openIn(t, dir), openIn(t, dir)
	ours.patience()
	if !ours.log.watched.Load() {
		t.Fatal("the log is not watched")
	}
	ours.log.written.Store(0)
	if got := ours.patience(); got != quietEvery {
		t.Errorf("patience while nobody writes = %v, want %v", got, quietEvery)
	}
	news := ours.news.Next()
	if err := theirs.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x", Task: "t"}}}); err != nil {
		t.Fatal(err)
	}
	<-news
	if got := ours.patience(); got != pollEvery {
		t.Errorf("patience after a write = %v, want %v", got, pollEvery)
	}
}

func openIn(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestRemoved checks that a waiter is told when the record is removed.
func TestRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	s := openIn(t, dir)
	told := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), 0)
		told <- err
	}()
	// A connection opened meanwhile creates a file again.
	for os.RemoveAll(dir) != nil {
		time.Sleep(time.Millisecond)
	}
	if err := <-told; !errors.Is(err, store.ErrBroken) {
		t.Errorf("the waiter is told: %v", err)
	}
}
