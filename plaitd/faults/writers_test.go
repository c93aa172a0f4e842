package faults

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// writers take steps concurrently, each on its own thread and under a lease.
type writers struct {
	lines []*line
	steps atomic.Int64 // that were reported as committed
	stop  atomic.Bool
	wait  sync.WaitGroup
}

// write starts n writers, on the stores in turn. No step may fail, and no lease may be lost.
func write(t *testing.T, stores []store.Store, n int) *writers {
	t.Helper()
	w := &writers{}
	for i := range n {
		s := stores[i%len(stores)]
		l, err := begin(t.Context(), s, id(i))
		if err != nil {
			t.Fatal(err)
		}
		w.lines = append(w.lines, l)
		lease := take(t, s, fmt.Sprintf("line-%d", i))
		w.wait.Go(func() {
			under := store.Under(s, lease)
			for n := 0; !w.stop.Load(); n++ {
				if err := l.step(t.Context(), under, fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Errorf("writer %d, step %d: %v", i, n, err)
					return
				}
				w.steps.Add(1)
			}
			select {
			case <-lease.Lost():
				t.Errorf("writer %d was told that its lease is lost", i)
			default:
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// more waits until n more steps were reported.
func (w *writers) more(t *testing.T, n int64) {
	for was := w.steps.Load(); w.steps.Load() < was+n && !t.Failed(); {
		time.Sleep(time.Millisecond)
	}
}

// end stops the writers, and returns once they have ended.
func (w *writers) end() {
	w.stop.Store(true)
	w.wait.Wait()
}
