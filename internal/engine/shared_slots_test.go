package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// crowd counts how many of its agents work concurrently.
type crowd struct{ now, most *atomic.Int64 }

func (c crowd) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(2 * time.Millisecond) // so that concurrent ones would be seen
	c.now.Add(-1)
	return agent.Result{Output: []byte("---\n$status: done\n---\nso"), Sandbox: "none"}, nil
}

// However many processes drive a task, no more of its agents work concurrently than it allows.
func TestSlotsOfSharedTask(t *testing.T) {
	for limit, most := range map[string]int64{"limits: {maxConcurrent: 1}\n": 1, "limits: {maxConcurrent: 2}\n": 2} {
		w := townWith(t, limit, nil) // up to four at once without it
		var now, seen atomic.Int64
		ended := make(chan error, 3)
		for range 3 {
			e := New(shared(w.store.Share(), crowd{&now, &seen}))
			go func() { ended <- w.process(t.Context(), e) }()
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		if got := seen.Load(); got > most || got == 0 {
			t.Errorf("%q: %d agents at once", limit, got)
		}
	}
}

// A countingClaim counts the turns that are asked for.
type countingClaim struct {
	ThreadClaim
	asked *atomic.Int64
}

func (c countingClaim) turn(ctx context.Context, task string, most int) (store.Lease, error) {
	c.asked.Add(1)
	return c.ThreadClaim.turn(ctx, task, most)
}

// A taking agent takes that long.
type taking time.Duration

func (s taking) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	time.Sleep(time.Duration(s))
	return agent.Result{Output: []byte("---\n$status: done\n---\nso"), Sandbox: "none"}, nil
}

// A thread that would wait for its task's turn is not held: as many are offered as there are turns, and one that is
// driven all the same is let go.
func TestNothingWaitsForATurn(t *testing.T) {
	const flow = `
version: 1
name: three
limits: {maxConcurrent: 2}
roles: {plan: {description: d}, x: {description: d}, y: {description: d}, z: {description: d}}
forks: {all: {forkPaths: [{pathId: x, childNodeId: x}, {pathId: y, childNodeId: y}, {pathId: z, childNodeId: z}]}}
joins: {met: {forkPathIds: [x, y, z]}}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {done: {role: all}}
  x: {done: {role: met}}
  y: {done: {role: met}}
  z: {done: {role: met}}
  met: {joined: {role: $END}}
`
	ctx, s := t.Context(), mem.New(mem.Config{Proven: true})
	task := housetest.Begin(ctx, t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1,
		Workspace: t.TempDir()}, housetest.Bundle(t, flow), "go")
	var runs atomic.Int64
	e, a := host(s, &runs)
	first := New(shared(s.Share(), said{&runs}))
	var agenda Agenda
	look := func(drive, queued int) {
		t.Helper()
		var err error
		if agenda, err = first.Reconcile(ctx, task.ID); err != nil {
			t.Fatal(err)
		}
		if len(agenda.Drive) != drive || agenda.Queued != queued {
			t.Fatalf("to drive %v, and %d wait for a turn; want %d and %d", agenda.Drive, agenda.Queued, drive, queued)
		}
	}
	look(1, 0)
	if _, err := first.Drive(ctx, agenda.Drive[0]); err != nil { // the plan, up to the fork of three
		t.Fatal(err)
	}
	look(2, 1)
	rows, err := s.Threads(ctx, store.ThreadFilter{Task: task.ID, Statuses: []store.Status{store.Pending}})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d paths, %v", len(rows), err)
	}
	ended := make(chan error, 2)
	for _, id := range agenda.Drive {
		go func() {
			_, err := e.Drive(ctx, id)
			ended <- err
		}()
		<-a.begun
	}
	driven := agenda.Drive
	look(0, 1)
	for _, row := range rows {
		if !slices.Contains(driven, row.ID) {
			row, err = first.Drive(ctx, row.ID)
			if err != nil || row.Status != store.Pending {
				t.Errorf("without a turn it is %s, %v", row.Status, err)
			}
		}
	}
	if held, err := s.Held(ctx, store.ThreadLease("")); err != nil || len(held) != 2 {
		t.Errorf("%d threads are held, %v", len(held), err)
	}
	close(a.on)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	look(1, 0)
}

// A drive keeps its turn from its first agent to its end.
func TestTurnIsKept(t *testing.T) {
	const flow = `
version: 1
name: three
limits: {maxConcurrent: 1}
roles: {a: {description: a}, b: {description: b}, c: {description: c}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: b, prompt: go on}}
  b: {done: {role: c, prompt: go on}}
  c: {done: {role: $END}}
`
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Config{Proven: true})
		row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1,
			Workspace: t.TempDir()}, housetest.Bundle(t, flow), "go")
		var asked atomic.Int64
		cfg := shared(s, taking(time.Second))
		cfg.Claim = countingClaim{ThreadClaim{s}, &asked}
		row, err := New(cfg).Drive(t.Context(), row.ID)
		if err != nil || row.Status != store.Completed {
			t.Fatalf("%s: %v", row.Status, err)
		}
		if got := asked.Load(); got != 1 {
			t.Errorf("three steps ask for %d turns, want 1", got)
		}
		if held, err := s.Held(t.Context(), "slot-"); err != nil || len(held) > 0 {
			t.Errorf("turns are held by %v: %v", held, err)
		}
	})
}

// A rented place is a slot of a machine that others have until it is free.
type rented struct {
	free chan struct{}
	has  bool
}

func (p *rented) Pause() { p.has = false }

func (p *rented) Resume(context.Context) error {
	<-p.free
	p.has = true
	return nil
}

// An agent whose question was answered has neither a turn while it waits for its place, nor a place while it waits for
// a turn.
func TestAnsweredHoardsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), mem.New(mem.Config{Proven: true})
		const flow = `
version: 1
name: one
limits: {maxConcurrent: 1}
roles: {a: {description: a}}
graph: {$START: {new: {role: a, prompt: "{{ prompt }}"}}, a: {done: {role: $END}}}
`
		row := housetest.Begin(ctx, t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1,
			Workspace: t.TempDir()}, housetest.Bundle(t, flow), "go")
		e := New(shared(s.Share(), nil))
		task, err := e.slots.of(ctx, row)
		if err != nil {
			t.Fatal(err)
		}
		place := &rented{free: make(chan struct{})}
		d := &driveSlot{engine: e, place: place, begun: true, paused: true}
		resumed := make(chan error, 1)
		go func() { resumed <- d.resume(ctx, task) }()
		synctest.Wait()
		other, err := ThreadClaim{s}.turn(ctx, row.ID, 1)
		if err != nil {
			t.Fatalf("it has the turn: %v", err)
		}
		close(place.free)
		synctest.Wait()
		if place.has {
			t.Error("it has the place")
		}
		other.Release()
		if err := <-resumed; err != nil || !place.has || d.turn == nil {
			t.Errorf("it goes on without place and turn: %v", err)
		}
		d.release()
	})
}
