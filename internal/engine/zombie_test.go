package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// deaf is the store of a suspended process: it is not told that its leases are lost.
type deaf struct{ *mem.Store }

func (d deaf) Acquire(ctx context.Context, name string) (store.Lease, error) {
	l, err := d.Store.Acquire(ctx, name)
	return deafLease{l}, err
}

type deafLease struct{ store.Lease }

func (deafLease) Lost() <-chan struct{} { return nil }

// waiting is an agent that reports that it has begun, and works once it is allowed to.
type waiting struct {
	said
	begun, on chan struct{}
}

func (w waiting) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	select {
	case <-w.on:
	case <-ctx.Done():
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
	return w.said.Run(ctx, req, emit)
}

// host is a process whose agents wait, and count their runs.
func host(s Store, runs *atomic.Int64) (*Engine, waiting) {
	a := waiting{said{runs}, make(chan struct{}, 1), make(chan struct{})}
	return New(shared(s, a)), a
}

// A process that was suspended while another took over its thread begins nothing and writes nothing when
// it comes back, although it was not told; the other one is not disturbed.
func TestZombie(t *testing.T) {
	want := newTown(t, nil).digest(1)
	w := newTown(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var zombies, others atomic.Int64
	stands, lives := w.store.Share(), w.store.Share()
	zombie, asleep := host(deaf{stands}, &zombies)
	other, awake := host(lives, &others)
	drive := func(e *Engine) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := e.Drive(ctx, w.row.ID)
			ended <- err
		}()
		return ended
	}
	first := drive(zombie)
	<-asleep.begun
	stands.Silence()
	second := drive(other)
	<-awake.begun
	attempts := func() []store.Attempt {
		rows, err := w.store.Attempts(ctx, store.AttemptFilter{Task: w.row.ID})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	before, err := w.store.Task(ctx, w.row.ID)
	if err != nil || len(attempts()) != 2 || attempts()[0].Status != store.AttemptInterrupted {
		t.Fatalf("after the takeover: %+v, %v", attempts(), err)
	}

	close(asleep.on)
	if err := <-first; !errors.Is(err, store.ErrFenced) {
		t.Errorf("the one that came back: %v, want fenced", err)
	}
	after, err := w.store.Task(ctx, w.row.ID)
	if err != nil || after.Position != before.Position || len(attempts()) != 2 {
		t.Errorf("it wrote up to %d, after %d; attempts %+v, %v", after.Position, before.Position, attempts(), err)
	}
	if n := zombies.Load(); n != 1 {
		t.Errorf("it had agents work %d times, want once", n)
	}
	close(awake.on)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if got := w.digest(2); got != want {
		t.Errorf("the digest is %s, want %s", got.Short(), want.Short())
	}
}

// A process that is told that its lease is lost stops its agent before another process starts one.
func TestLost(t *testing.T) {
	w := newTown(t, nil)
	var runs atomic.Int64
	s := w.store.Share()
	e, a := host(s, &runs)
	ended := make(chan error, 1)
	go func() {
		_, err := e.Drive(t.Context(), w.row.ID)
		ended <- err
	}()
	<-a.begun
	s.Silence()
	if err := <-ended; !errors.Is(err, ErrInterrupted) || runs.Load() != 0 {
		t.Errorf("got %v after %d runs, want it interrupted", err, runs.Load())
	}
}
