package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// slotEvery is how often a process looks for a free slot of the machine: slots
// are given back by other processes, which can tell nobody.
const slotEvery = 50 * time.Millisecond

// slots bound how many agents are at work at once: in one task, and on the whole
// machine. In a working tree only one at a time may write.
type slots struct {
	task    chan struct{} // nil: any number
	leases  store.Leases
	machine int // zero: any number

	mu      sync.Mutex
	writers map[string]chan struct{} // by working tree
}

func (c *Controller) newSlots(root store.Thread) *slots {
	s := &slots{leases: c.cfg.Store, machine: c.cfg.Settings.Machine.V, writers: map[string]chan struct{}{}}
	def, err := c.newEngine(false, nil).Definition(context.Background(), root)
	if err == nil {
		if most := c.limits(root, def).MaxConcurrent; most > 0 {
			s.task = make(chan struct{}, most)
		}
	}
	return s
}

// take waits until an agent for role may be at work.
func (s *slots) take(ctx context.Context, row store.Thread, role flow.Role) (release func(), err error) {
	var held []func()
	release = func() {
		for i := len(held) - 1; i >= 0; i-- {
			held[i]()
		}
	}
	enter := func(room chan struct{}) error {
		select {
		case room <- struct{}{}:
			held = append(held, func() { <-room })
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if role.Access == flow.Write || role.Access == flow.Full {
		err = enter(s.writer(treeOf(row)))
	}
	if err == nil && s.task != nil {
		err = enter(s.task)
	}
	if err == nil && s.machine > 0 {
		var lease store.Lease
		if lease, err = s.slot(ctx); err == nil {
			held = append(held, func() { lease.Release() })
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (s *slots) writer(tree string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers[tree] == nil {
		s.writers[tree] = make(chan struct{}, 1)
	}
	return s.writers[tree]
}

// slot waits for one of the machine's slots. They are leases: those of a process
// that died are free.
func (s *slots) slot(ctx context.Context) (store.Lease, error) {
	for {
		for i, first := 0, rand.IntN(s.machine); i < s.machine; i++ {
			lease, err := s.leases.Acquire(ctx, fmt.Sprintf("slot-%d", (first+i)%s.machine+1))
			var held *store.HeldError
			if !errors.As(err, &held) {
				return lease, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(slotEvery):
		}
	}
}

// treeOf returns the working tree of a thread.
func treeOf(row store.Thread) string {
	if row.Tree != "" {
		return row.Tree
	}
	return row.Workspace
}
