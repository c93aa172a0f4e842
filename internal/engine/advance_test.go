package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A stubborn store refuses some batches, like one whose rows differ from what it shows.
type stubborn struct {
	*mem.Store
	left    *atomic.Int64 // how many it refuses, less than zero: all
	refuses func(store.Batch) bool
}

func (s stubborn) Commit(ctx context.Context, b store.Batch) error {
	if s.left.Load() != 0 && s.refuses(b) {
		s.left.Add(-1)
		return store.ErrConflict
	}
	return s.Store.Commit(ctx, b)
}

func makesPaths(b store.Batch) bool {
	return slices.ContainsFunc(b.Threads, func(c store.ThreadChange) bool { return c.From == nil && c.Row.Path != nil })
}

func joins(b store.Batch) bool {
	return slices.ContainsFunc(b.Events, func(e store.Event) bool { return e.Type == "thread.joined" })
}

// A batch that always conflicts ends the run with an error; one that conflicts a few times is built again.
func TestConflictForEver(t *testing.T) {
	for name, refuses := range map[string]func(store.Batch) bool{"fork": makesPaths, "join": joins} {
		for _, times := range []int64{-1, 3} {
			w := newTown(t, nil)
			var left atomic.Int64
			left.Store(times)
			e := New(Config{
				Store: stubborn{w.store, &left, refuses}, Reader: thread.NewReader(w.store), Desks: housetest.BareDesks{},
				Agents: doing(said{&w.runs}), Now: func() time.Time { return time.UnixMilli(1) },
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would run forever
			defer cancel()
			row, err := e.Run(ctx, w.row.ID)
			switch {
			case times > 0:
				if err != nil || row.Status != store.Completed || left.Load() != 0 {
					t.Errorf("%s: after %d conflicts: %s, %d left, %v", name, times, row.Status, left.Load(), err)
				}
			case err == nil || !strings.Contains(err.Error(), "no one has changed the thread"):
				t.Errorf("%s: %s, %v, want an error that says why it stopped", name, row.Status, err)
			case errors.Is(err, store.ErrConflict):
				t.Errorf("%s: the error is taken for somebody else's progress: %v", name, err)
			}
		}
	}
}
