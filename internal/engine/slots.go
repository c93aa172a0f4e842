package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/lock"
)

// slotEvery is how often a process looks for a free slot of the machine: a process that frees one has no way to
// notify others.
const slotEvery = 50 * time.Millisecond

// slots bound how many agents work at once: in one task, and on the whole machine. Only one agent of a task may
// write in a working tree at a time. Where git does not keep the earlier state of the tree, only one of the
// whole machine may.
type slots struct {
	engine *Engine

	mu      sync.Mutex
	tasks   map[string]*taskSlots // by root
	writers map[string]*treeLock  // by working tree
}

// taskSlots are the slots of one task.
type taskSlots struct {
	root store.Thread

	mu    sync.Mutex
	most  int           // agents at once; 0: any number
	busy  int           // those of this process
	freed chan struct{} // closed when another one may start
	kept  *turn         // of the last agent, for the next one of this process; nil: none
}

// A turn is one of those that all processes which drive a task share.
type turn struct {
	store.Lease
	since time.Time
}

// keep keeps a turn for the next agent of this process, until others would ask for it again: between two short steps
// nobody else could take it.
func (t *taskSlots) keep(own *turn) {
	left := turnEvery - time.Since(own.since)
	t.mu.Lock()
	kept := t.kept == nil && left > 0
	if kept {
		t.kept = own
	}
	t.mu.Unlock()
	if !kept {
		own.Release()
		return
	}
	time.AfterFunc(left, func() {
		t.mu.Lock()
		still := t.kept == own
		if still {
			t.kept = nil
		}
		t.mu.Unlock()
		if still {
			own.Release()
		}
	})
}

// again returns the kept turn, nil if there is none.
func (t *taskSlots) again() *turn {
	t.mu.Lock()
	own := t.kept
	t.kept = nil
	t.mu.Unlock()
	return own
}

// limit sets how many agents may work at once. Those that already work go on.
func (t *taskSlots) limit(most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if most != t.most {
		t.most = most
		t.wake()
	}
}

// enter waits until fewer agents of this process work than may.
func (t *taskSlots) enter(ctx context.Context) error {
	for {
		t.mu.Lock()
		free, freed := t.most == 0 || t.busy < t.most, t.freed
		if free {
			t.busy++
		}
		t.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave undoes enter.
func (t *taskSlots) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	t.wake()
}

func (t *taskSlots) wake() {
	close(t.freed)
	t.freed = make(chan struct{})
}

// limited returns how many agents may work at once; 0: any number.
func (t *taskSlots) limited() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.most
}

// of returns the slots of a thread's task.
func (s *slots) of(ctx context.Context, row store.Thread) (*taskSlots, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[row.Root]
	root, err := s.engine.cfg.Store.Thread(ctx, row.Root)
	if err != nil {
		return nil, err
	}
	limits, err := s.engine.limitsOf(ctx, root)
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = &taskSlots{root: root, freed: make(chan struct{})}
		s.tasks[row.Root] = t
	}
	t.limit(limits.MaxConcurrent)
	return t, nil
}

// releaseKept releases the kept turn of a task.
func (s *slots) releaseKept(root string) {
	s.mu.Lock()
	t := s.tasks[root]
	s.mu.Unlock()
	if t != nil {
		if own := t.again(); own != nil {
			own.Release()
		}
	}
}

// limit sets how many agents of a task may work at once, if it is known here.
func (s *slots) limit(root string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[root]; t != nil {
		t.limit(most)
	}
}

// take waits until an agent for role may work. If ctx ends first, there is nothing to release.
func (s *slots) take(ctx context.Context, row store.Thread, role flow.Role) (*slot, error) {
	if ctx.Err() != nil {
		return &slot{slots: s}, nil
	}
	t, err := s.of(context.WithoutCancel(ctx), row)
	if err != nil {
		return nil, fmt.Errorf("read the limits of task %s: %w", row.Root, err)
	}
	place := &slot{slots: s, task: t}
	if err := s.fill(ctx, place, row, role); err != nil {
		place.Release()
		if ctx.Err() != nil {
			return &slot{slots: s}, nil
		}
		return nil, err
	}
	return place, nil
}

// fill waits for everything that a slot holds.
func (s *slots) fill(ctx context.Context, place *slot, row store.Thread, role flow.Role) error {
	if role.Access.Writes() {
		top := treeRoot(row, place.task.root)
		tree := s.writer(top)
		if err := tree.lock(ctx); err != nil {
			return err
		}
		place.tree = tree
		if under, _ := worktree.UnderGit(ctx, top); !under {
			held, err := s.anyOf(ctx, "tree-"+dag.Sum([]byte(top)).Short())
			if err != nil {
				return err
			}
			place.alone = held
		}
	}
	return place.Resume(ctx)
}

// A slot is the right of one agent to work.
type slot struct {
	*slots
	task    *taskSlots
	tree    *treeLock  // locked for writing; nil: the agent only reads
	alone   *lock.Lock // of the tree among tasks, nil: none
	counted bool       // of the task
	turn    *turn      // of the task, where others drive threads of it too; nil: none
	lease   *lock.Lock // of the machine, nil: none
}

// Park marks the agent as waiting for a person, until Unpark is called. The channel is closed once the whole
// task waits for people. If the run waits for answers, the channel is nil, or is closed after Config.Patience.
func (s *slot) Park() (idle <-chan struct{}) {
	idle = s.engine.work.done()
	switch {
	case !s.engine.cfg.Wait:
		return idle
	case s.engine.cfg.Patience == 0:
		return nil
	}
	late := make(chan struct{})
	time.AfterFunc(s.engine.cfg.Patience, func() { close(late) })
	return late
}

// Unpark ends Park: the agent continues.
func (s *slot) Unpark() { s.engine.work.add() }

// Pause lets other agents work meanwhile. The agent keeps its working tree.
func (s *slot) Pause() {
	if s.lease != nil {
		s.lease.Release()
		s.lease = nil
	}
	if s.turn != nil {
		s.task.keep(s.turn)
		s.turn = nil
	}
	if s.counted { // the next one finds the turn free
		s.task.leave()
		s.counted = false
	}
}

// Resume waits until the agent may continue.
func (s *slot) Resume(ctx context.Context) error {
	if s.task != nil && !s.counted {
		if err := s.task.enter(ctx); err != nil {
			return err
		}
		s.counted = true
		turn, err := s.ofTask(ctx, s.task)
		if err != nil {
			return err
		}
		s.turn = turn
	}
	if s.engine.cfg.Machine > 0 && s.lease == nil {
		lease, err := s.onMachine(ctx)
		if err != nil {
			return err
		}
		s.lease = lease
	}
	return nil
}

// Release frees the slot.
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
		s.writers[tree] = &treeLock{work: s.engine.work}
	}
	return s.writers[tree]
}

// turnEvery is how often a process asks the store for a free slot of a task.
const turnEvery = 250 * time.Millisecond

// ofTask waits for a turn among all processes that drive a task. It returns nil if no others do, or their agents are
// not limited, which may change meanwhile.
func (s *slots) ofTask(ctx context.Context, t *taskSlots) (*turn, error) {
	for {
		if own := t.again(); own != nil {
			return own, nil
		}
		most := t.limited()
		if most == 0 {
			return nil, nil
		}
		lease, err := s.engine.cfg.Claim.turn(context.WithoutCancel(ctx), t.root.ID, most)
		var held *store.HeldError
		if err == nil && lease != nil {
			return &turn{lease, time.Now()}, nil
		}
		if !errors.As(err, &held) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(turnEvery):
		}
		if t, err = s.of(context.WithoutCancel(ctx), t.root); err != nil {
			return nil, err
		}
	}
}

// onMachine waits for one of the machine's slots.
func (s *slots) onMachine(ctx context.Context) (*lock.Lock, error) {
	return s.anyOf(ctx, slotNames("slot", s.engine.cfg.Machine)...)
}

// slotNames returns the names of n slots, beginning with any of them, so that not all processes try the same one first.
func slotNames(prefix string, n int) []string {
	names := make([]string, n)
	for i, first := 0, rand.IntN(n); i < n; i++ {
		names[i] = fmt.Sprintf("%s-%d", prefix, (first+i)%n+1)
	}
	return names
}

// anyOf waits for one of the locks. The locks of a process that died are free.
func (s *slots) anyOf(ctx context.Context, names ...string) (*lock.Lock, error) {
	for {
		for _, name := range names {
			lease, err := s.engine.cfg.Locks.Acquire(name)
			var held *lock.HeldError
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

// treeRoot returns the top of the tree that a thread works in: a worktree made for a thread, otherwise the tree
// of the task.
func treeRoot(row, root store.Thread) string {
	if top, _, ok := worktree.Made(row); ok {
		return top
	}
	return worktree.Of(root)
}
