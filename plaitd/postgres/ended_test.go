package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestLeasesOfEndedTasks checks that a sweep removes the leases of tasks that have ended, and no other, and that no
// token of one is given out again.
func TestLeasesOfEndedTasks(t *testing.T) {
	s, ctx := open(t, Config{URL: migrated(t)}), t.Context()
	commit := func(b store.Batch) {
		t.Helper()
		if err := s.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	row := func(id, root string, status store.Status) store.Thread {
		return store.Thread{ID: id, Task: root, Root: root, Status: status}
	}
	ended, path, gone := row("ended", "ended", store.Running), row("path", "ended", store.Completed),
		row("gone", "gone", store.Completed)
	for _, r := range []store.Thread{
		ended, path, gone, row("live", "live", store.Running), row("done-path", "live", store.Completed),
	} {
		commit(store.Batch{Threads: []store.ThreadChange{{Row: r}}})
	}
	acquire := func(name string) store.Lease {
		t.Helper()
		l, err := s.Acquire(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	release := func(l store.Lease) {
		t.Helper()
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	var old store.Fence // of a drive that was cut off
	for _, name := range []string{
		"ended", "notes-ended", "slot-ended-1", "slot-ended-12", "thread-ended", "thread-path", "thread-gone",
		"live", "notes-live", "slot-live-1", "thread-done-path", "thread-live", "worker-build-1", "worker-build-2",
	} {
		for range 3 {
			l := acquire(name)
			if name == "thread-ended" {
				old = l.Fence()
			}
			release(l)
		}
	}
	held := acquire("thread-path")
	acquire("worker-build-2")
	change := store.ThreadChange{From: ended.State(), Row: ended}
	change.Row.Status = store.Completed
	commit(store.Batch{Threads: []store.ThreadChange{change}, Remove: []string{"gone"}})

	sweep := func(want ...string) {
		t.Helper()
		if _, err := s.Sweep(ctx, 0, func(store.View) ([]dag.Hash, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		rows, err := s.readers.Query(ctx, "SELECT name FROM plait.leases ORDER BY name")
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("leases after a sweep (-want +got):\n%s", diff)
		}
	}
	live := []string{"live", "notes-live", "slot-live-1", "thread-done-path", "thread-live", "worker-build-2"}
	sweep("live", "notes-live", "slot-live-1", "thread-done-path", "thread-live", "thread-path", "worker-build-2")
	if err := store.Under(s, held).Commit(ctx, store.Batch{}); err != nil {
		t.Errorf("under a lease of an ended task that is held: %v", err)
	}
	release(held)
	sweep(live...)

	again := acquire("thread-ended") // as to compact a context
	if again.Fence().Token <= old.Token {
		t.Errorf("the lease has the token %d, and had %d before", again.Fence().Token, old.Token)
	}
	b, _ := begin("zombie")
	b.Under = []store.Fence{old}
	if err := s.Commit(ctx, b); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a batch of an old holder: %v", err)
	}
	release(again)
	sweep(live...)
	if next := acquire("slot-ended-1"); next.Fence().Token <= again.Fence().Token {
		t.Errorf("the token %d, after %d", next.Fence().Token, again.Fence().Token)
	}
}

// A sweep that takes too long to choose gives up, and others can write again.
func TestSweepGivesUp(t *testing.T) {
	s, ctx := open(t, Config{URL: migrated(t), Patience: 3 * time.Second}), t.Context()
	_, err := s.Sweep(ctx, 0, func(v store.View) ([]dag.Hash, error) {
		time.Sleep(time.Second)
		return v.Resolve(ctx, "", 1)
	})
	if err == nil || !strings.Contains(err.Error(), "nobody could write for 1s") {
		t.Errorf("it ends with %v", err)
	}
	if err := s.Commit(ctx, store.Batch{}); err != nil {
		t.Error(err)
	}
}
