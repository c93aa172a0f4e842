package engine

import (
	"context"
	"sync"
)

// A workload counts the goroutines of a drive that can make progress without a person. A goroutine that waits for a
// person does not count, nor does one that waits for such a goroutine: for its paths, or for the working tree
// it holds. When the count falls to zero, only people can make anything continue. A goroutine that lets
// another continue counts it before it stops counting itself, so the count never falls to zero in between.
type workload struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to zero, and then replaced
}

func newWorkload() *workload { return &workload{idle: make(chan struct{})} }

// add counts one more goroutine.
func (w *workload) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

// done stops counting the caller until it calls add. The channel it returns is closed when the count falls to
// zero: nothing of the drive can continue without a person.
func (w *workload) done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := w.idle
	if w.n--; w.n == 0 {
		close(idle)
		w.idle = make(chan struct{})
	}
	return idle
}

// A treeLock is held by the one agent that may write in a working tree. The others wait in order of arrival.
type treeLock struct {
	work *workload

	mu    sync.Mutex
	held  bool
	queue []chan struct{} // of the waiters; closed when the lock is theirs
}

// lock takes the lock. If another agent holds it, lock calls waits, and waits until the lock is free.
func (l *treeLock) lock(ctx context.Context, waits func()) error {
	l.mu.Lock()
	if !l.held {
		l.held = true
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.queue = append(l.queue, turn)
	l.work.done() // its holder counts, or waits for a person
	l.mu.Unlock()
	waits()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.queue {
		if other == turn {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			l.work.add()
			return ctx.Err()
		}
	}
	l.pass() // it was handed over meanwhile, and the caller is counted
	return ctx.Err()
}

func (l *treeLock) unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass()
}

// pass hands the lock to the next waiter, and counts that waiter. l.mu is held.
func (l *treeLock) pass() {
	if len(l.queue) == 0 {
		l.held = false
		return
	}
	l.work.add()
	close(l.queue[0])
	l.queue = l.queue[1:]
}
