package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/housetest"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/mem"
	"github.com/plait-run/plait/internal/thread"
)

// crowd counts how many of its agents are at work at once.
type crowd struct{ now, most *atomic.Int64 }

func (c crowd) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(2 * time.Millisecond) // so that others would be seen beside it
	c.now.Add(-1)
	return agent.Result{Output: []byte("---\n$status: done\n---\nso"), Sandbox: "none"}, nil
}

// However many processes drive a task, no more of its agents are at work at once than it allows.
func TestSlotsOfSharedTask(t *testing.T) {
	for limit, most := range map[string]int64{"limits: {maxConcurrent: 1}\n": 1, "limits: {maxConcurrent: 2}\n": 2} {
		s := mem.New(mem.Config{})
		text := strings.Replace(tree, "name: tree\n", "name: tree\n"+limit, 1) // up to four at once without it
		row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1, Workspace: t.TempDir()},
			housetest.Bundle(t, text, sub), "go")
		var now, seen atomic.Int64
		w := &town{t: t, store: s, row: row}
		ended := make(chan error, 3)
		for range 3 {
			own := s.Share()
			e := New(Config{Store: own, Reader: thread.NewReader(own), Desks: housetest.BareDesks{}, Shared: true,
				Agents: doing(crowd{&now, &seen})})
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
