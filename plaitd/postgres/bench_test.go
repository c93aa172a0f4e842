package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// BenchmarkStep measures durable steps per second, as package sqlite's does, alternating with
// SQLite in the same run: content of 2.1 KB, state of 1.2 KB, the thread's row, one event. To
// the server, several handles look like several processes; processes also do their own work.
// Each ratio is to SQLite in one process with as many writers, the median of the rounds.
//
//	go test ./postgres -run '^$' -bench Step -benchtime 9x
func BenchmarkStep(b *testing.B) {
	for _, x := range []struct {
		name      string
		writers   int
		handles   int           // in this process; 0: none
		processes int           // besides this one, each with a handle
		away      time.Duration // round trip
	}{
		{"writers=1", 1, 1, 0, 0},
		{"writers=64", 64, 1, 0, 0},
		{"writers=63/handles=3", 63, 3, 0, 0},
		{"writers=63/processes=3", 63, 0, 3, 0},
		{"writers=1/away=2.4ms", 1, 1, 0, 2400 * time.Microsecond},
		{"writers=63/handles=3/away=2.4ms", 63, 3, 0, 2400 * time.Microsecond},
		{"writers=63/processes=3/away=2.4ms", 63, 0, 3, 2400 * time.Microsecond},
	} {
		b.Run(x.name, func(b *testing.B) {
			const slice = 400 * time.Millisecond
			lite, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer lite.Close()
			at := migratedOn(b, pgtest.Start(b, pgtest.Config{})) // it waits for the disk, as SQLite does
			if x.away > 0 {
				at = pgtest.Far(b, at, x.away)
			}
			theirs := writing(b, 0, x.writers, []store.Store{lite})
			var ours func(time.Duration) float64
			if x.processes > 0 {
				ours = processes(b, at, x.processes, x.writers)
			} else {
				var handles []store.Store
				for range x.handles {
					handles = append(handles, open(b, Config{URL: at}))
				}
				ours = writing(b, 0, x.writers, handles)
			}
			ours(slice)
			theirs(slice)
			var rates, ratios []float64
			for b.Loop() {
				before := theirs(slice)
				r := ours(slice)
				rates = append(rates, r)
				ratios = append(ratios, 2*r/(before+theirs(slice)))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rates), "steps/s")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

func median(of []float64) float64 {
	slices.SortFunc(of, cmp.Compare)
	return of[len(of)/2]
}

// writing returns a function that lets writers take steps for a while and returns how many they took
// per second. Each has its own thread; first is the number of the first.
func writing(t testing.TB, first, writers int, handles []store.Store) func(time.Duration) float64 {
	t.Helper()
	var all []*stepper
	for w := range writers {
		s, err := newStepper(t.Context(), handles[w%len(handles)], first+w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return func(d time.Duration) float64 {
		r, err := rate(d, all)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// rate lets all take steps for a while and returns how many they took per second.
func rate(d time.Duration, all []*stepper) (float64, error) {
	var count atomic.Int64
	var g errgroup.Group
	begin := time.Now()
	for _, s := range all {
		g.Go(func() error {
			for time.Since(begin) < d {
				if err := s.step(); err != nil {
					return err
				}
				count.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	return float64(count.Load()) / time.Since(begin).Seconds(), err
}

// A stepper takes steps of a thread.
type stepper struct {
	in     store.Store
	thread store.Thread
}

func newStepper(ctx context.Context, in store.Store, n int) (*stepper, error) {
	batch, t := begin(fmt.Sprintf("01J%023d", n))
	return &stepper{in, t}, in.Commit(ctx, batch)
}

// What a step says, and how many ancestors its state names.
var (
	benchText      = strings.Repeat("What a worker says of what it has done. ", 52)
	benchAncestors = strings.Repeat(`"`+dag.Sum([]byte("an ancestor")).String()+`",`, 15)
)

func (s *stepper) step() error {
	t := &s.thread
	from := t.State()
	content := node(fmt.Sprintf(`{"text":"%s","of":"%s %d"}`, benchText, t.ID, t.Steps))
	state := node(fmt.Sprintf(`{"content":"%s","parent":"%s","ancestors":[%snull]}`, content.Hash, t.Head, benchAncestors))
	t.Head = state.Hash
	t.Steps++
	return s.in.Commit(context.Background(), store.Batch{
		Objects: []store.Object{content, state},
		Threads: []store.ThreadChange{{Row: *t, From: from}},
		Events: []store.Event{{Type: "step.committed", Task: t.ID, Thread: t.ID,
			Payload: []byte(`{"step":"` + state.Hash.String() + `"}`)}},
	})
}
