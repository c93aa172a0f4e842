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

// limit sets how many agents of a task may work at once, if it is known here.
func (s *slots) limit(root string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[root]; t != nil {
		t.limit(most)
	}
}

// take waits until an agent for role may work. If ctx ends first, there is nothing to release. With d, it does not wait
// for the task's turn: the error is errTaskFull.
func (s *slots) take(ctx context.Context, d *driveSlot, row store.Thread, role flow.Role) (*slot, error) {
	if ctx.Err() != nil {
		return &slot{slots: s, drive: d}, nil
	}
	t, err := s.of(context.WithoutCancel(ctx), row)
	if err != nil {
		return nil, fmt.Errorf("read the limits of task %s: %w", row.Root, err)
	}
	own := &slot{slots: s, drive: d, task: t}
	if err := s.fill(ctx, own, row, role); err != nil {
		own.Release()
		if ctx.Err() != nil {
			return &slot{slots: s, drive: d}, nil
		}
		return nil, err
	}
	return own, nil
}

// fill waits for everything that a slot holds.
func (s *slots) fill(ctx context.Context, own *slot, row store.Thread, role flow.Role) error {
	if role.Access.Writes() {
		top := treeRoot(row, own.task.root)
		tree := s.writer(top)
		if err := tree.lock(ctx, own.Pause); err != nil { // who has the tree may wait for a slot
			return err
		}
		own.tree = tree
		if under, _ := worktree.UnderGit(ctx, top); !under {
			held, err := s.anyOf(ctx, own.Pause, "tree-"+dag.Sum([]byte(top)).Short())
			if err != nil {
				return err
			}
			own.alone = held
		}
	}
	return own.Resume(ctx)
}

// A Place is a slot of the machine that a drive has. Between Pause and Resume it is left to others.
type Place interface {
	Pause()
	Resume(ctx context.Context) error
}

// At returns the engine for one drive that has a place on its machine.
func (e *Engine) At(place Place) *Engine {
	at := *e
	at.place = place
	return &at
}

// errTaskFull is the outcome for a thread whose task has as many agents at work as it may have: it is let go, and
// offered again when there is a turn.
var errTaskFull = errors.New("the task has no free slot")

// turnEvery is how often an agent that has waited for a person asks for a turn of its task.
const turnEvery = 250 * time.Millisecond

// A driveSlot is what a drive under its own lease needs for its agents: the place that it came with, and from its first
// agent to its end one of the turns that all drives of the task share. It never waits for them while it holds the
// thread, unless an agent has left them to others meanwhile.
type driveSlot struct {
	engine *Engine
	place  Place // nil: agents of the machine are not limited

	begun  bool        // it has had a turn
	paused bool        // and has left it, with the place, to others
	turn   store.Lease // nil: agents of the task were not limited
}

// pause leaves place and turn to others, until resume is called.
func (d *driveSlot) pause() {
	if d.paused = true; d.place != nil {
		d.place.Pause()
	}
	d.release()
}

// release releases the turn.
func (d *driveSlot) release() {
	if d.turn != nil {
		d.turn.Release()
		d.turn = nil
	}
}

// resume takes the place and a turn, unless the drive has them. It waits for what it left to others, and has neither
// while it waits for the other; if there is no turn to begin with, it returns errTaskFull.
func (d *driveSlot) resume(ctx context.Context, t *taskSlots) error {
	if d.begun && !d.paused {
		return nil
	}
	for {
		if d.paused && d.place != nil {
			if err := d.place.Resume(ctx); err != nil {
				return err
			}
		}
		if t.limited() == 0 {
			break
		}
		turn, err := d.engine.cfg.Claim.turn(context.WithoutCancel(ctx), t.root.ID, t.limited())
		var held *store.HeldError
		if err == nil {
			d.turn = turn
			break
		}
		switch {
		case !errors.As(err, &held):
			return err
		case !d.begun:
			return errTaskFull
		}
		d.pause()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(turnEvery):
		}
		if t, err = d.engine.slots.of(context.WithoutCancel(ctx), t.root); err != nil {
			return err
		}
	}
	d.begun, d.paused = true, false
	return nil
}

// A slot is the right of one agent to work.
type slot struct {
	*slots
	drive   *driveSlot // what the drive keeps until it ends; nil: the slot has it all itself
	task    *taskSlots
	tree    *treeLock  // locked for writing; nil: the agent only reads
	alone   *lock.Lock // of the tree among tasks, nil: none
	counted bool       // of the task
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
	if s.drive != nil {
		s.drive.pause()
	}
	if s.lease != nil {
		s.lease.Release()
		s.lease = nil
	}
	if s.counted {
		s.task.leave()
		s.counted = false
	}
}

// Resume waits until the agent may continue.
func (s *slot) Resume(ctx context.Context) error {
	if s.drive != nil && s.task != nil {
		return s.drive.resume(ctx, s.task)
	}
	if s.task != nil && !s.counted {
		if err := s.task.enter(ctx); err != nil {
			return err
		}
		s.counted = true
	}
	if most := s.engine.cfg.Machine; most > 0 && s.drive == nil && s.lease == nil {
		lease, err := s.anyOf(ctx, func() {}, machineSlots(most)...)
		if err != nil {
			return err
		}
		s.lease = lease
	}
	return nil
}

// Release frees the slot.
func (s *slot) Release() {
	if s.drive == nil {
		s.Pause()
	}
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

// slotNames returns the names of n slots, beginning with any of them, so that not all processes try the same one first.
func slotNames(prefix string, n int) []string {
	names := make([]string, n)
	for i, first := 0, rand.IntN(n); i < n; i++ {
		names[i] = fmt.Sprintf("%s-%d", prefix, (first+i)%n+1)
	}
	return names
}

// machineSlots returns the names of the locks that are n slots of a machine.
func machineSlots(n int) []string { return slotNames("slot", n) }

// MachineSlot takes one of the n slots of a machine, given its locks, or returns a *lock.HeldError.
func MachineSlot(locks lock.Locks, n int) (*lock.Lock, error) { return anyLock(locks, machineSlots(n)) }

// anyLock takes one of the locks, or returns the *lock.HeldError of one. The locks of a process that died are free.
func anyLock(locks lock.Locks, names []string) (l *lock.Lock, err error) {
	for _, name := range names {
		l, err = locks.Acquire(name)
		var held *lock.HeldError
		if !errors.As(err, &held) {
			return l, err
		}
	}
	return nil, err
}

// anyOf waits for one of the locks. It calls waits whenever it finds all of them held.
func (s *slots) anyOf(ctx context.Context, waits func(), names ...string) (*lock.Lock, error) {
	for {
		l, err := anyLock(s.engine.cfg.Locks, names)
		var held *lock.HeldError
		if !errors.As(err, &held) {
			return l, err
		}
		waits()
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
