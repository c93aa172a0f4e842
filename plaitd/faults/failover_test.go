package faults

import (
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/soak"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestFailover has the server go for good while writers work under leases, and its synchronous standby take
// over: they go on there, none loses its lease, and no step that was reported is missing or there twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Config{})
	at, err := url.Parse(newRecord(t, primary))
	if err != nil {
		t.Fatal(err)
	}
	standby := primary.Standby(t)
	at.Host += "," + standby.Addr()
	at.RawQuery += "&target_session_attrs=read-write"
	const writers = 6
	var (
		handles []store.Store
		lines   []*line
		wait    sync.WaitGroup
		stop    atomic.Bool
		steps   atomic.Int64
	)
	for range 2 {
		handles = append(handles, open(t, postgres.Config{URL: at.String(), Try: 3 * time.Second, Look: 200 * time.Millisecond}))
	}
	for i := range writers {
		s := handles[i%len(handles)]
		l, err := begin(t.Context(), s, id(i))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
		lease := take(t, s, fmt.Sprintf("line-%d", i))
		wait.Go(func() {
			under := store.Under(s, lease)
			for n := 0; !stop.Load(); n++ {
				if err := l.step(t.Context(), under, fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Errorf("writer %d, step %d: %v", i, n, err)
					return
				}
				steps.Add(1)
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	more := func(n int64) {
		for was := steps.Load(); steps.Load() < was+n && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	more(50)
	before := steps.Load()
	primary.Stop(pgtest.Immediate)
	began := time.Now()
	standby.Promote()
	more(1)
	took := time.Since(began)
	more(50)
	stop.Store(true)
	wait.Wait()
	check(t, handles[1], lines...)
	soak.Figure(t, "a standby took over after %d reported steps of %d writers: each there once, the next %v later",
		before, writers, took.Round(time.Millisecond))
}
