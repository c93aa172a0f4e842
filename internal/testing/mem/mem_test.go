package mem_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/storetest"
)

func TestStore(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	// A directory's contents live as long as its test.
	var mu sync.Mutex
	homes := map[string]*mem.Store{}
	storetest.Run(t, func(t *testing.T, dir string) store.Store {
		mu.Lock()
		defer mu.Unlock()
		if homes[dir] == nil {
			homes[dir] = mem.New(mem.Config{})
		}
		return homes[dir].Share()
	})
}

var errCable = errors.New("cable pulled")

// TestFaults fails every operation at both ends: the caller gets the error, and
// what a change leaves depends on the end.
func TestFaults(t *testing.T) {
	ctx := t.Context()
	o := store.Object{Hash: dag.Sum([]byte("o")), Data: []byte("o")}
	for op, x := range map[mem.Op]struct {
		run  func(*mem.Store) error
		kept func(*mem.Store) bool // nil: the operation changes nothing
	}{
		mem.OpGet:  {run: func(s *mem.Store) error { _, err := s.Get(ctx, o.Hash); return err }},
		mem.OpOpen: {run: func(s *mem.Store) error { _, _, err := s.Open(ctx, o.Hash); return err }},
		mem.OpHas:  {run: func(s *mem.Store) error { _, err := s.Has(ctx, o.Hash); return err }},
		mem.OpStat: {run: func(s *mem.Store) error { _, err := s.Stat(ctx, []dag.Hash{o.Hash}); return err }},
		mem.OpScan: {run: func(s *mem.Store) error {
			return s.Scan(ctx, func(store.Object) error { return nil })
		}},
		mem.OpResolve:  {run: func(s *mem.Store) error { _, err := s.Resolve(ctx, "ab", 1); return err }},
		mem.OpThread:   {run: func(s *mem.Store) error { _, err := s.Thread(ctx, "x"); return not(err, store.ErrNotFound) }},
		mem.OpThreads:  {run: func(s *mem.Store) error { _, err := s.Threads(ctx, store.ThreadFilter{}); return err }},
		mem.OpAttempt:  {run: func(s *mem.Store) error { _, err := s.Attempt(ctx, "x"); return not(err, store.ErrNotFound) }},
		mem.OpAttempts: {run: func(s *mem.Store) error { _, err := s.Attempts(ctx, store.AttemptFilter{}); return err }},
		mem.OpGate:     {run: func(s *mem.Store) error { _, err := s.Gate(ctx, "x"); return not(err, store.ErrNotFound) }},
		mem.OpGates:    {run: func(s *mem.Store) error { _, err := s.Gates(ctx, store.GateFilter{}); return err }},
		mem.OpFlow:     {run: func(s *mem.Store) error { _, err := s.Flow(ctx, "x"); return not(err, store.ErrNotFound) }},
		mem.OpFlows:    {run: func(s *mem.Store) error { _, err := s.Flows(ctx); return err }},
		mem.OpRequests: {run: func(s *mem.Store) error { _, err := s.Requests(ctx, store.RequestFilter{}); return err }},
		mem.OpHolder:   {run: func(s *mem.Store) error { _, _, err := s.Holder(ctx, "l"); return err }},
		mem.OpTask:     {run: func(s *mem.Store) error { _, err := s.Task(ctx, "x"); return err }},
		mem.OpUsed:     {run: func(s *mem.Store) error { _, err := s.Used(ctx, "x"); return err }},
		mem.OpMany:     {run: func(s *mem.Store) error { _, err := s.Many(ctx, []dag.Hash{o.Hash}); return err }},
		mem.OpRoots: {run: func(s *mem.Store) error {
			for _, err := range s.Roots(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		mem.OpPins:    {run: func(s *mem.Store) error { _, err := s.Pins(ctx); return err }},
		mem.OpEvents:  {run: func(s *mem.Store) error { _, err := s.Events(ctx, 0, store.EventFilter{}); return err }},
		mem.OpLog:     {run: func(s *mem.Store) error { _, err := s.Log(ctx); return err }},
		mem.OpOrigin:  {run: func(s *mem.Store) error { return s.SetOrigin(ctx, "o") }},
		mem.OpEntries: {run: func(s *mem.Store) error { _, err := s.Entries(ctx, 0, 0); return err }},
		mem.OpWait:    {run: func(s *mem.Store) error { _, err := s.Wait(ctx, 0); return err }},
		mem.OpCompact: {run: func(s *mem.Store) error { return s.Compact(ctx, 0) }},
		mem.OpCheck:   {run: func(s *mem.Store) error { _, err := s.Check(ctx); return err }},
		mem.OpList: {run: func(s *mem.Store) error {
			for _, err := range s.List(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		mem.OpCommit: {
			run: func(s *mem.Store) error {
				return s.Commit(ctx, store.Batch{Objects: []store.Object{{Hash: dag.Sum([]byte("new")), Data: []byte("new")}}})
			},
			kept: func(s *mem.Store) bool { return has(t, s, "new") },
		},
		mem.OpStage: {
			run:  func(s *mem.Store) error { _, _, err := s.Stage(ctx, "p", strings.NewReader("new")); return err },
			kept: func(s *mem.Store) bool { return has(t, s, "new") },
		},
		mem.OpSweep: {
			run: func(s *mem.Store) error {
				_, err := s.Sweep(ctx, 0, func(store.View) ([]dag.Hash, error) { return []dag.Hash{o.Hash}, nil })
				return err
			},
			kept: func(s *mem.Store) bool { return !has(t, s, "o") },
		},
		mem.OpAcquire: {
			run: func(s *mem.Store) error { _, err := s.Acquire(ctx, "l"); return err },
			kept: func(s *mem.Store) bool {
				_, err := s.Acquire(ctx, "l")
				return errors.Is(err, store.ErrConflict)
			},
		},
	} {
		for _, when := range []mem.When{mem.Before, mem.After} {
			t.Run(string(op)+" "+when.String(), func(t *testing.T) {
				var armed bool
				s := mem.New(mem.Config{Fault: func(o mem.Op, w mem.When) error {
					if armed && o == op && w == when {
						return errCable
					}
					return nil
				}})
				if err := s.Commit(ctx, store.Batch{Objects: []store.Object{o}, Events: []store.Event{{Type: "x"}}}); err != nil {
					t.Fatal(err)
				}
				armed = true
				// Where there is no row, the operation's own error comes first.
				if err := x.run(s); !errors.Is(err, errCable) && (err != nil || when == mem.Before) {
					t.Errorf("got %v, want %v", err, errCable)
				}
				armed = false
				if x.kept != nil && x.kept(s) != (when == mem.After) {
					t.Errorf("kept: %v", when == mem.Before)
				}
			})
		}
	}
}

// TestRequestFaults fails the commits that leave and take a request at both ends: the request is
// as it was, or as it should become.
func TestRequestFaults(t *testing.T) {
	ctx := t.Context()
	w := store.Request{ID: "W", Task: "T", Kind: store.RequestResume}
	taken := w
	taken.TakenAt = 5
	for _, when := range []mem.When{mem.Before, mem.After} {
		var armed bool
		s := mem.New(mem.Config{Fault: func(o mem.Op, w mem.When) error {
			if armed && o == mem.OpCommit && w == when {
				return errCable
			}
			return nil
		}})
		kept := func() []store.Request {
			rows, err := s.Requests(ctx, store.RequestFilter{})
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		try := func(c store.RequestChange, was []store.Request) {
			t.Helper()
			armed = true
			if err := s.Commit(ctx, store.Batch{Requests: []store.RequestChange{c}}); !errors.Is(err, errCable) {
				t.Errorf("got %v, want %v", err, errCable)
			}
			armed = false
			again := s.Commit(ctx, store.Batch{Requests: []store.RequestChange{c}})
			if done := when == mem.After; errors.Is(again, store.ErrConflict) != done || (again == nil) == done {
				t.Errorf("after a fault %s it: %v", when, again)
			}
			if diff := cmp.Diff(was, kept()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		}
		try(store.RequestChange{Row: w}, []store.Request{w})
		try(store.RequestChange{Row: taken, Take: true}, []store.Request{taken})
	}
}

func not(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

func has(t *testing.T, s *mem.Store, text string) bool {
	t.Helper()
	ok, err := s.Has(t.Context(), dag.Sum([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestReopen(t *testing.T) {
	ctx := t.Context()
	s := mem.New(mem.Config{})
	l, err := s.Acquire(ctx, "root")
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := s.Stage(ctx, "p", strings.NewReader("kept"))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := s.Wait(context.Background(), 0)
		waiting <- err
	}()
	again := s.Reopen()
	if err := <-waiting; !errors.Is(err, store.ErrBroken) {
		t.Errorf("who waits on the dead handle gets %v", err)
	}
	if err := s.Commit(ctx, store.Batch{}); !errors.Is(err, store.ErrBroken) {
		t.Errorf("the dead handle's commit gets %v", err)
	}
	if o, err := again.Get(ctx, h); err != nil || string(o.Data) != "kept" {
		t.Errorf("got %q, %v", o.Data, err)
	}
	if pins, err := again.Pins(ctx); err != nil || !cmp.Equal(pins, []dag.Hash{h}) {
		t.Errorf("pins are %v, %v", pins, err)
	}
	if _, err := again.Acquire(ctx, "root"); err != nil {
		t.Errorf("the crashed process's lease is held: %v", err)
	}
	l.Release()
	if _, err := again.Acquire(ctx, "root"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the crashed process released its successor's lease: %v", err)
	}
}

// A process that falls silent is told, loses its lease to another, and writes nothing under it.
func TestSilence(t *testing.T) {
	ctx := t.Context()
	s := mem.New(mem.Config{})
	other := s.Share()
	l, err := s.Acquire(ctx, "root")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := other.Acquire(ctx, "kept")
	if err != nil {
		t.Fatal(err)
	}
	s.Silence()
	<-l.Lost()
	select {
	case <-kept.Lost():
		t.Error("another process lost its lease")
	default:
	}
	if err := store.Under(s, l).Commit(ctx, store.Batch{}); err != nil {
		t.Errorf("before anybody took it: %v", err)
	}
	next, err := other.Acquire(ctx, "root")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Under(s, l).Commit(ctx, store.Batch{}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("after another took it: %v", err)
	}
	l.Release()
	if _, err := s.Acquire(ctx, "root"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("who lost it released its successor's lease: %v", err)
	}
	if err := store.Under(s, next).Commit(ctx, store.Batch{}); err != nil {
		t.Errorf("who has it: %v", err)
	}
	next.Release()
	if _, err = s.Acquire(ctx, "root"); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	if _, err = s.Acquire(ctx, "root"); err != nil {
		t.Errorf("its own process cannot take it again: %v", err)
	}
	s.Silence()
	s.Silence()
}

func TestCorrupt(t *testing.T) {
	ctx := t.Context()
	s := mem.New(mem.Config{})
	h, _, err := s.Stage(ctx, "p", strings.NewReader("bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Corrupt(h, func(b []byte) []byte { b[0] ^= 1; return b }) || s.Corrupt(dag.Hash{1}, nil) {
		t.Error("wrong about what there is to corrupt")
	}
	if _, err := s.Get(ctx, h); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.Many(ctx, []dag.Hash{h}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Many: %v", err)
	}
	r, _, err := s.Open(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
	if !s.Lose(h) || s.Lose(h) {
		t.Error("wrong about what there is to lose")
	}
	if _, err := s.Get(ctx, h); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of a lost object: %v", err)
	}
}

func TestClock(t *testing.T) {
	then := time.Date(2020, 1, 2, 3, 4, 5, 6e6, time.UTC)
	s := mem.New(mem.Config{Now: func() time.Time { return then }})
	if _, _, err := s.Stage(t.Context(), "p", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.List(t.Context()) {
		if err != nil || !e.Put.Equal(then) {
			t.Errorf("put at %v, %v", e.Put, err)
		}
	}
}
