package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
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
