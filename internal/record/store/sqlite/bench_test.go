package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// BenchmarkStep measures durable steps per second: content of 2.1 KB, state of
// 1.2 KB, the thread's row and one event. The ratio is to a plain file to which
// the same bytes are appended, with one fdatasync for all who wait, measured
// right before and after on the same disk: it cancels out the disk.
func BenchmarkStep(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			const slice = 400 * time.Millisecond
			dir := b.TempDir()
			s := open(b, dir)
			defer s.Close()
			step := stepper(b, s, writers)
			raw := appender(b, filepath.Join(dir, "raw"))
			rate(writers, slice, step) // warm up
			var plain, ours float64
			var busy time.Duration
			steps := unique.Load()
			rounds := 0
			for b.Loop() {
				before := rate(writers, slice, raw)
				begin := cpu()
				ours += rate(writers, slice, step)
				busy += cpu() - begin
				plain += (before + rate(writers, slice, raw)) / 2
				rounds++
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours/float64(rounds), "steps/s")
			b.ReportMetric(plain/float64(rounds), "appends/s")
			b.ReportMetric(ours/plain, "ratio")
			b.ReportMetric(float64(busy.Microseconds())/float64(unique.Load()-steps), "cpu-us/step")
		})
	}
}

// rate runs f in writers goroutines and returns how often it ran per second.
func rate(writers int, d time.Duration, f func(writer, n int)) float64 {
	var count atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for w := range writers {
		wg.Go(func() {
			for time.Since(begin) < d {
				f(w, int(count.Add(1)))
			}
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(begin).Seconds()
}

// cpu returns the processor time used by this process. Unlike the ratio, it
// hardly depends on what else the machine does.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var unique atomic.Int64

func stepper(b *testing.B, s *sqlite.Store, writers int) func(int, int) {
	ctx := context.Background()
	content, state := strings.Repeat("c", 2080), strings.Repeat("s", 1180)
	rows := make([]store.Thread, writers)
	for i := range rows {
		o := object("start", store.Node)
		id := fmt.Sprintf("01J%023d", i)
		rows[i] = store.Thread{ID: id, Task: id, Root: id, Kind: store.KindRoot, Bundle: o.Hash, Flow: "fix", Start: o.Hash,
			Head:   o.Hash,
			Status: store.Running, InFlight: id + ".1", Tree: "/home/someone/work", Workspace: "/home/someone/work",
			CreatedAt: 1}
		if err := s.Commit(ctx, store.Batch{Objects: []store.Object{o},
			Threads: []store.ThreadChange{{Row: rows[i]}}}); err != nil {
			b.Fatal(err)
		}
	}
	return func(w, _ int) {
		n := fmt.Sprintf("%020d", unique.Add(1))
		c, st := object(n+content, store.Node), object(n+state, store.Node)
		from := rows[w].State()
		rows[w].Head = st.Hash
		rows[w].Steps++
		err := s.Commit(ctx, store.Batch{
			Objects: []store.Object{c, st},
			Threads: []store.ThreadChange{{Row: rows[w], From: from}},
			Events: []store.Event{{Type: "step.committed", Task: rows[w].ID, Thread: rows[w].ID, Attempt: rows[w].InFlight,
				Payload: []byte(`{"step":"` + st.Hash.String() + `","role":"coder"}`)}},
		})
		if err != nil {
			b.Error(err)
		}
	}
}

func object(text string, k store.Kind) store.Object {
	return store.Object{Hash: dag.Sum([]byte(text)), Kind: k, Data: []byte(text)}
}

// appender is the fastest durable log there is: nothing but appending.
func appender(b *testing.B, path string) func(int, int) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	queue := make(chan chan error)
	b.Cleanup(func() { close(queue) })
	go func() {
		record := make([]byte, 3300)
		var buf []byte
		for first := range queue {
			waiting := []chan error{first}
			buf = append(buf[:0], record...)
			for more := true; more; {
				select {
				case w, ok := <-queue:
					if !ok {
						return
					}
					waiting, buf = append(waiting, w), append(buf, record...)
				default:
					more = false
				}
			}
			_, err := f.Write(buf)
			if err == nil {
				err = syscall.Fdatasync(int(f.Fd()))
			}
			for _, w := range waiting {
				w <- err
			}
		}
	}()
	return func(int, int) {
		done := make(chan error, 1)
		queue <- done
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
