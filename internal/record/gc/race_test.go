package gc_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// between is a store in which something happens between mark and sweep.
type between struct {
	store.Store
	once sync.Once
	do   func()
}

func (b *between) Sweep(c ctxT, grace time.Duration, choose func(store.View) ([]dag.Hash, error)) ([]store.Entry,
	error) {
	b.once.Do(b.do)
	return b.Store.Sweep(c, grace, choose)
}

// What happens after the mark, before the sweep has the lock, is seen by the
// sweep. There is no grace and the clock does not move: marking alone must do it.
func TestBetweenMarkAndSweep(t *testing.T) {
	below := content(t, "below")
	old := content(t, "old", below.Hash)
	tests := []struct {
		name string
		do   func(t *testing.T, now *clock, s store.Store, row store.Thread)
		want []dag.Hash // exist afterwards
		gone []dag.Hash
	}{
		{"nothing", func(*testing.T, *clock, store.Store, store.Thread) {}, nil, []dag.Hash{old.Hash, below.Hash}},
		{"a writer dedups an old object", func(t *testing.T, _ *clock, s store.Store, row store.Thread) {
			step := state(t, "planner", row.Start, old.Hash, row.Head)
			was := row
			row.Head = step.Hash
			commit(t, s, store.Batch{Objects: []store.Object{old, step},
				Threads: []store.ThreadChange{{Row: row, From: was.State()}}})
		}, []dag.Hash{old.Hash, below.Hash}, nil},
		{"a row names an old object", func(t *testing.T, _ *clock, s store.Store, _ store.Thread) {
			commit(t, s, store.Batch{
				Attempts: []store.AttemptChange{
					{Row: store.Attempt{ID: "A.1", Thread: "A", Status: store.AttemptRunning, Prompt: old.Hash}}}})
		}, []dag.Hash{old.Hash, below.Hash}, nil},
		{"an old object is put again", func(t *testing.T, now *clock, s store.Store, _ store.Thread) {
			now.advance(time.Millisecond)
			commit(t, s, store.Batch{Objects: []store.Object{old}})
		}, []dag.Hash{old.Hash, below.Hash}, nil},
		{"an old object is staged", func(t *testing.T, _ *clock, s store.Store, _ store.Thread) {
			if _, _, err := s.Stage(ctx, "A.1", strings.NewReader(string(old.Data))); err != nil {
				t.Fatal(err)
			}
		}, []dag.Hash{old.Hash, below.Hash}, nil},
		{"a blob becomes a node", func(t *testing.T, now *clock, s store.Store, row store.Thread) {
			forged := content(t, "forged", old.Hash)
			commit(t, s, store.Batch{Objects: []store.Object{forged}})
		}, []dag.Hash{old.Hash, below.Hash}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forEachStore(t, func(t *testing.T, now *clock, s, other store.Store) {
				row, live := begin(t, s, "A")
				forged := content(t, "forged", old.Hash)
				forged.Kind = store.Blob
				commit(t, s, store.Batch{
					Objects: []store.Object{below, old, forged},
					Gates: []store.GateChange{
						{Row: store.Gate{ID: "G", Task: "A", Thread: "A", State: store.GateOpen, Diff: forged.Hash}}},
				})
				hooked := &between{Store: s, do: func() { tt.do(t, now, other, row) }}
				if _, err := gc.Run(ctx, gc.Config{Store: hooked, Now: now.now}); err != nil {
					t.Fatal(err)
				}
				for _, o := range live {
					if err := closed(s, o.Hash); err != nil {
						t.Errorf("live: %v", err)
					}
				}
				if err := closed(s, tt.want...); err != nil {
					t.Error(err)
				}
				for _, h := range tt.gone {
					mustBeGone(t, s, h)
				}
			})
		})
	}
}

// An object that is missing below a pinned one may be put after the mark, and be reached by a row at once.
func TestMissingObjectIsPut(t *testing.T) {
	forEachStore(t, func(t *testing.T, now *clock, s, other store.Store) {
		begin(t, s, "A")
		below := content(t, "below")
		old := content(t, "old", below.Hash)
		lost := content(t, "lost", old.Hash)
		kept := content(t, "kept", lost.Hash)
		commit(t, s, store.Batch{Objects: []store.Object{below, old, kept}})
		if _, _, err := s.Stage(ctx, "A.1", bytes.NewReader(kept.Data)); err != nil {
			t.Fatal(err)
		}
		hooked := &between{Store: s, do: func() {
			commit(t, other, store.Batch{
				Objects: []store.Object{lost},
				Attempts: []store.AttemptChange{
					{Row: store.Attempt{ID: "A.1", Thread: "A", Status: store.AttemptRunning, Prompt: lost.Hash}}}})
		}}
		if _, err := gc.Run(ctx, gc.Config{Store: hooked, Now: now.now}); err != nil {
			t.Fatal(err)
		}
		if err := closed(s, lost.Hash); err != nil {
			t.Error(err)
		}
	})
}

// A collection that is cut short leaves no object whose refs are gone.
func TestReferrersGoFirst(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	var objects []store.Object
	for i := range 22_000 { // more than two locks' worth
		var refs []dag.Hash
		if i > 0 {
			refs = append(refs, objects[i-1].Hash)
		}
		objects = append(objects, content(t, fmt.Sprint(i), refs...))
	}
	commit(t, s, store.Batch{Objects: objects})
	stop := errors.New("stop")
	sweeps := 0
	cut := &cutShort{Store: s, stop: func() error {
		sweeps++
		if sweeps == 2 {
			return stop
		}
		return nil
	}}
	r, err := gc.Run(ctx, gc.Config{Store: cut, Now: now.now})
	if !errors.Is(err, stop) || r.Deleted != 10_000 {
		t.Fatalf("run: %d deleted, %v, want 10000 and to be stopped", r.Deleted, err)
	}
	if err := closed(s, objects[11_999].Hash); err != nil {
		t.Error(err)
	}
	mustBeGone(t, s, objects[12_000].Hash)
	if r, err := gc.Run(ctx, gc.Config{Store: s, Now: now.now}); err != nil || r.Deleted != 12_000 {
		t.Errorf("second run: %d deleted, %v, want 12000", r.Deleted, err)
	}
}

// If another process removes and collects a thread while we mark, its objects
// seem to be missing. The mark is repeated.
func TestRemovedWhileMarking(t *testing.T) {
	forEachStore(t, func(t *testing.T, now *clock, s, other store.Store) {
		_, live := begin(t, s, "A")
		begin(t, s, "B")
		hooked := &afterRoots{Store: s, do: func() {
			commit(t, other, store.Batch{Remove: []string{"B"}})
			if _, err := gc.Run(ctx, gc.Config{Store: other, Now: now.now}); err != nil {
				t.Error(err)
			}
		}}
		r, err := gc.Run(ctx, gc.Config{Store: hooked, Now: now.now})
		if err != nil || r.Reachable != len(live) {
			t.Errorf("run: %+v, %v, want %d reachable", r, err, len(live))
		}
	})
}

// afterRoots is a store in which something happens after the roots were read.
type afterRoots struct {
	store.Store
	once sync.Once
	do   func()
}

func (a *afterRoots) Roots(c ctxT) iter.Seq2[store.Root, error] {
	return func(yield func(store.Root, error) bool) {
		for r, err := range a.Store.Roots(c) {
			if !yield(r, err) {
				return
			}
		}
		a.once.Do(a.do)
	}
}

type cutShort struct {
	store.Store
	stop func() error
}

func (c *cutShort) Sweep(x ctxT, grace time.Duration, choose func(store.View) ([]dag.Hash, error)) ([]store.Entry,
	error) {
	if err := c.stop(); err != nil {
		return nil, err
	}
	return c.Store.Sweep(x, grace, choose)
}

// Writers commit, fork and remove through two handles while two collectors run
// without any grace. Whatever a row names afterwards exists, all the way down.
func TestBesideWriters(t *testing.T) {
	forEachStore(t, func(t *testing.T, _ *clock, a, b store.Store) {
		steps := 60
		if testing.Short() {
			steps = 20
		}
		stores := []store.Store{a, b}
		var writers, collectors sync.WaitGroup
		stop := make(chan struct{})
		fail := make(chan error, 64)
		for w := range 4 {
			writers.Go(func() {
				if err := write(stores[w%2], fmt.Sprintf("W%d", w), steps); err != nil {
					fail <- fmt.Errorf("writer %d: %w", w, err)
				}
			})
		}
		for _, s := range stores {
			collectors.Go(func() {
				for {
					// The clock does not move: no object ever becomes young.
					if _, err := gc.Run(ctx, gc.Config{Store: s, Now: newClock().now}); err != nil {
						fail <- fmt.Errorf("collector: %w", err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		writers.Wait()
		close(stop)
		collectors.Wait()
		close(fail)
		for err := range fail {
			t.Error(err)
		}
		rows, err := a.Threads(ctx, store.ThreadFilter{})
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d threads, %v", len(rows), err)
		}
		for _, r := range rows {
			if err := closed(b, r.Head, r.Start, r.Bundle); err != nil {
				t.Errorf("thread %s: %v", r.ID, err)
			}
		}
	})
}

// write drives one thread. Texts come from a small set and so are often put
// again just when they are garbage; every tenth step forks and removes.
func write(s store.Store, id string, steps int) error {
	f := &failure{}
	row, _ := begin(f, s, id+"-0")
	if f.err != nil {
		return f.err
	}
	for i := range steps {
		log, _, err := s.Stage(ctx, row.ID+".1", strings.NewReader(fmt.Sprintf("log %d", i%3)))
		if err != nil {
			return err
		}
		text := content(f, fmt.Sprintf("text %d", i%5), log)
		step := state(f, "planner", row.Start, text.Hash, row.Head)
		was := row
		row.Head = step.Hash
		err = s.Commit(ctx, store.Batch{
			Objects: []store.Object{text, step}, Unpin: []string{was.ID + ".1"},
			Threads: []store.ThreadChange{{Row: row, From: was.State()}},
		})
		if err != nil {
			return err
		}
		if err := closed(s, row.Head); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if i%10 == 9 {
			fork := row
			fork.ID = fmt.Sprintf("%s-%d", id, i)
			fork.Task, fork.Root = fork.ID, fork.ID
			if err := s.Commit(ctx, store.Batch{Threads: []store.ThreadChange{{Row: fork}}}); err != nil {
				return err
			}
			if i%20 == 19 {
				if err := s.Commit(ctx, store.Batch{Remove: []string{row.ID}}); err != nil {
					return err
				}
				row = fork
			}
		}
	}
	return f.err
}

// A failure collects what goes wrong outside the test's goroutine.
type failure struct{ err error }

func (f *failure) Helper() {}

func (f *failure) Fatalf(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// Where many roots are read under each lock, each lock covers more candidates.
func TestManyRootsFewLocks(t *testing.T) {
	s := &counted{Store: mem.New(mem.Config{})}
	row, _ := begin(t, s, "A")
	var b store.Batch
	for i := range 10_000 { // each names three objects
		row.ID = fmt.Sprintf("B%05d", i)
		row.Task, row.Root = row.ID, row.ID
		b.Threads = append(b.Threads, store.ThreadChange{Row: row})
	}
	for i := range 11_000 {
		b.Objects = append(b.Objects, blob(fmt.Sprint("garbage ", i)))
	}
	commit(t, s, b)
	r, err := gc.Run(ctx, gc.Config{Store: s})
	if err != nil || r.Deleted != 11_000 || s.sweeps != 1 {
		t.Errorf("%d deleted under %d locks, %v; want 11000 under one", r.Deleted, s.sweeps, err)
	}
}

type counted struct {
	store.Store
	sweeps int
}

func (c *counted) Sweep(x ctxT, grace time.Duration, choose func(store.View) ([]dag.Hash, error)) ([]store.Entry,
	error) {
	c.sweeps++
	return c.Store.Sweep(x, grace, choose)
}
