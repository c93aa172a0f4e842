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
	task    chan struct{} // nil: any number
	leases  store.Leases
	machine int // zero: any number

	mu      sync.Mutex
	writers map[string]chan struct{} // by working tree
}

func (c *Controller) newSlots(ctx context.Context, root store.Thread) (*slots, error) {
	s := &slots{root: root, leases: c.cfg.Store, machine: c.cfg.Settings.Machine.V, writers: map[string]chan struct{}{}}
	def, err := c.definition(ctx, root)
	if err != nil {
		return nil, err
	}
	if most := c.limits(root, def).MaxConcurrent; most > 0 {
		s.task = make(chan struct{}, most)
	}
	return s, nil
}

// take waits until an agent for role may be at work.
func (s *slots) take(ctx context.Context, row store.Thread, role flow.Role) (engine.Slot, error) {
	place := &slot{slots: s}
	if role.Access.Writes() {
		tree := s.writer(treeRoot(row, s.root))
		if err := enter(ctx, tree); err != nil {
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

// enter takes one place of a room that has so many.
func enter(ctx context.Context, room chan struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A slot is held by one agent.
type slot struct {
	*slots
	tree    chan struct{} // held for writing, nil: it only reads
	alone   store.Lease   // of the tree among tasks, nil: none
	counted bool          // of the task
	lease   store.Lease   // of the machine, nil: none
}

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
		if err := enter(ctx, s.task); err != nil {
			return err
		}
		s.counted = true
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
		<-s.tree
		s.tree = nil
	}
}

func (s *slots) writer(tree string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers[tree] == nil {
		s.writers[tree] = make(chan struct{}, 1)
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
