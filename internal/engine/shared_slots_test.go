package engine

import (
	"context"
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
	turns *atomic.Int64
}

func (c countingClaim) turn(ctx context.Context, task string, most int) (store.Lease, error) {
	c.turns.Add(1)
	return c.ThreadClaim.turn(ctx, task, most)
}

// A taking agent takes that long.
type taking time.Duration

func (s taking) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	time.Sleep(time.Duration(s))
	return agent.Result{Output: []byte("---\n$status: done\n---\nso"), Sandbox: "none"}, nil
}

// The next of two short steps keeps the turn of the one before. After a long one, others may take it.
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
	for took, want := range map[time.Duration]int64{0: 1, turnEvery: 3} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New(mem.Config{Proven: true})
			row := housetest.Begin(t.Context(), t, s,
				store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1, Workspace: t.TempDir()}, housetest.Bundle(t, flow), "go")
			var turns atomic.Int64
			cfg := shared(s, taking(took))
			cfg.Claim = countingClaim{ThreadClaim{s}, &turns}
			row, err := New(cfg).Drive(t.Context(), row.ID)
			if err != nil || row.Status != store.Completed {
				t.Fatalf("%s: %v", row.Status, err)
			}
			if got := turns.Load(); got != want {
				t.Errorf("three steps of %v ask for %d turns, want %d", took, got, want)
			}
			if held, err := s.Held(t.Context(), "slot-"); err != nil || len(held) > 0 {
				t.Errorf("turns are held by %v: %v", held, err)
			}
		})
	}
}
