package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/git"
	"github.com/plait-run/plait/internal/store"
)

// slotEvery is how often a process looks for a free slot of the machine: slots
// are given back by other processes, which can tell nobody.
const slotEvery = 50 * time.Millisecond

// slots bound how many agents are at work at once: in one task, and on the whole
// machine. In a working tree only one of a task may write at a time; where no git keeps
// what was there before, only one of the whole machine.
type slots struct {
	root    store.Thread
	work    *workload
	wait    bool          // people's answers are waited for, however long
	task    chan struct{} // nil: any number
	leases  store.Leases
	machine int // zero: any number

	mu      sync.Mutex
	writers map[string]*treeLock // by working tree
}

func (c *Controller) newSlots(ctx context.Context, root store.Thread, work *workload, wait bool) (*slots, error) {
	s := &slots{root: root, work: work, wait: wait, leases: c.cfg.Store, machine: c.cfg.Settings.Machine.V, writers: map[string]*treeLock{}}
	limits, err := c.limitsOf(ctx, root)
	if err != nil {
		return nil, err
	}
	if most := limits.MaxConcurrent; most > 0 {
		s.task = make(chan struct{}, most)
	}
	return s, nil
}

// take waits until an agent for role may be at work.
func (s *slots) take(ctx context.Context, row store.Thread, role flow.Role) (engine.Slot, error) {
	place := &slot{slots: s}
	if role.Access.Writes() {
		tree := s.writer(treeRoot(row, s.root))
		if err := tree.lock(ctx); err != nil {
			return nil, err
		}
		place.tree = tree
		if top := treeRoot(row, s.root); !underGit(ctx, top) {
			lease, err := s.anyOf(ctx, "tree-"+dag.Sum([]byte(top)).Short())
			if err != nil {
				place.Release()
				return nil, err
			}
			place.alone = lease
		}
	}
	if err := place.Resume(ctx); err != nil {
		place.Release()
		return nil, err
	}
	return place, nil
}

// A slot is held by one agent.
type slot struct {
	*slots
	tree    *treeLock   // held for writing, nil: it only reads
	alone   store.Lease // of the tree among tasks, nil: none
	counted bool        // of the task
	lease   store.Lease // of the machine, nil: none
}

// Rest and Wake keep the agent out of the workload meanwhile.
func (s *slot) Rest() <-chan struct{} {
	quiet := s.work.rest()
	if s.wait {
		return nil
	}
	return quiet
}

func (s *slot) Wake() { s.work.add(1) }

// Pause lets others be at work meanwhile. The working tree stays its own.
func (s *slot) Pause() {
	if s.lease != nil {
		s.lease.Release()
		s.lease = nil
	}
	if s.counted {
		<-s.task
		s.counted = false
	}
}

// Resume waits until the agent may go on.
func (s *slot) Resume(ctx context.Context) error {
	if s.task != nil && !s.counted {
		select {
		case s.task <- struct{}{}:
			s.counted = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.machine > 0 && s.lease == nil {
		lease, err := s.onMachine(ctx)
		if err != nil {
			return err
		}
		s.lease = lease
	}
	return nil
}

// Release gives everything back.
func (s *slot) Release() {
	s.Pause()
	if s.alone != nil {
		s.alone.Release()
		s.alone = nil
	}
	if s.tree != nil {
		s.tree.unlock()
		s.tree = nil
	}
}

func (s *slots) writer(tree string) *treeLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers[tree] == nil {
		s.writers[tree] = &treeLock{work: s.work}
	}
	return s.writers[tree]
}

// onMachine waits for one of the machine's slots.
func (s *slots) onMachine(ctx context.Context) (store.Lease, error) {
	names := make([]string, s.machine)
	for i, first := 0, rand.IntN(s.machine); i < s.machine; i++ {
		names[i] = fmt.Sprintf("slot-%d", (first+i)%s.machine+1)
	}
	return s.anyOf(ctx, names...)
}

// anyOf waits for one of the leases. Those of a process that died are free.
func (s *slots) anyOf(ctx context.Context, names ...string) (store.Lease, error) {
	for {
		for _, name := range names {
			lease, err := s.leases.Acquire(ctx, name)
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

// underGit tells whether git knows a tree.
func underGit(ctx context.Context, tree string) bool {
	_, err := git.Open(ctx, tree)
	return err == nil
}

// treeOf returns the working tree of a thread.
func treeOf(row store.Thread) string { return cmp.Or(row.Tree, row.Workspace) }

// treeRoot returns the top of the tree that a thread works in: a worktree that
// was made for a thread, else the tree of the task.
func treeRoot(row, root store.Thread) string {
	if top, _, ok := madeTree(row); ok {
		return top
	}
	return treeOf(root)
}
