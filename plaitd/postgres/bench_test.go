package postgres

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/sqlite"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// BenchmarkStep measures durable steps a second, as that of package sqlite does, in turn with
// SQLite in the same run: content of 2.1 KB, state of 1.2 KB, the thread's row, one event.
// Several handles are as several processes are for the server; here they share a processor.
// The ratio of each is to SQLite in one process with as many writers, its median of rounds.
//
//	go test ./postgres -run '^$' -bench Step -benchtime 9x
func BenchmarkStep(b *testing.B) {
	for _, x := range []struct {
		name             string
		writers, handles int
		away             time.Duration // there and back
	}{
		{"writers=1", 1, 1, 0},
		{"writers=64", 64, 1, 0},
		{"writers=63/handles=3", 63, 3, 0},
		{"writers=1/away=2.4ms", 1, 1, 2400 * time.Microsecond},
		{"writers=63/handles=3/away=2.4ms", 63, 3, 2400 * time.Microsecond},
	} {
		b.Run(x.name, func(b *testing.B) {
			const slice = 400 * time.Millisecond
			lite, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer lite.Close()
			at := migratedOn(b, pgtest.Start(b, pgtest.Config{})) // which waits for the disk, as SQLite does
			if x.away > 0 {
				at = far(b, at, x.away)
			}
			var handles []store.Store
			for range x.handles {
				handles = append(handles, open(b, Config{URL: at}))
			}
			ours, theirs := stepper(b, x.writers, handles), stepper(b, x.writers, []store.Store{lite})
			rate(x.writers, slice, ours)
			rate(x.writers, slice, theirs)
			var rates, ratios []float64
			for b.Loop() {
				before := rate(x.writers, slice, theirs)
				r := rate(x.writers, slice, ours)
				rates = append(rates, r)
				ratios = append(ratios, 2*r/(before+rate(x.writers, slice, theirs)))
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

// rate runs f in writers goroutines and returns how often it ran a second.
func rate(writers int, d time.Duration, f func(writer int)) float64 {
	var count atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for w := range writers {
		wg.Go(func() {
			for time.Since(begin) < d {
				f(w)
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(begin).Seconds()
}

// stepper returns a step of a writer, who has a thread of his own.
func stepper(b *testing.B, writers int, handles []store.Store) func(writer int) {
	threads := make([]store.Thread, writers)
	for w := range writers {
		batch, t := begin(fmt.Sprintf("01J%023d", w))
		if err := handles[w%len(handles)].Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		threads[w] = t
	}
	text := strings.Repeat("What a worker says of what it has done. ", 52)
	ancestors := strings.Repeat(`"`+dag.Sum([]byte("an ancestor")).String()+`",`, 15)
	return func(w int) {
		t := &threads[w]
		from := t.State()
		content := node(fmt.Sprintf(`{"text":"%s","of":"%s %d"}`, text, t.ID, t.Steps))
		state := node(fmt.Sprintf(`{"content":"%s","parent":"%s","ancestors":[%snull]}`, content.Hash, t.Head, ancestors))
		t.Head = state.Hash
		t.Steps++
		err := handles[w%len(handles)].Commit(context.Background(), store.Batch{
			Objects: []store.Object{content, state},
			Threads: []store.ThreadChange{{Row: *t, From: from}},
			Events:  []store.Event{{Type: "step.committed", Task: t.ID, Thread: t.ID, Payload: []byte(`{"step":"` + state.Hash.String() + `"}`)}},
		})
		if err != nil {
			b.Error(err)
		}
	}
}

// far returns a URL that leads to the same database by a way that takes a time there and back.
func far(b *testing.B, at string, away time.Duration) string {
	u, err := url.Parse(at)
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	server := u.Host
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			beyond, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			go carry(near, beyond, away/2)
			go carry(beyond, near, away/2)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

// carry takes bytes from one side to the other, each part of them so much later.
func carry(from, to net.Conn, late time.Duration) {
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 1<<10)
	go func() {
		defer from.Close()
		defer to.Close()
		for p := range parts {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				io.Copy(io.Discard, from)
			}
		}
	}()
	defer close(parts)
	for {
		buf := make([]byte, 64<<10)
		n, err := from.Read(buf)
		if n > 0 {
			parts <- part{time.Now().Add(late), buf[:n]}
		}
		if err != nil {
			return
		}
	}
}
