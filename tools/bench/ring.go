package main

import "sync"

// A ring lets players take turns: once all of them have reached their first turn, one
// runs at a time. A player that is done is skipped.
type ring struct {
	mu   sync.Mutex
	cond *sync.Cond
	here []bool // has arrived
	gone []bool // is done
	next int
}

func newRing(n int) *ring {
	r := &ring{here: make([]bool, n), gone: make([]bool, n)}
	r.cond = sync.NewCond(&r.mu)
	return r
}

func (r *ring) wait(i int) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.here[i] = true
		r.cond.Broadcast()
		for r.next != i || !r.full() {
			r.cond.Wait()
		}
	}
}

func (r *ring) full() bool {
	for i := range r.here {
		if !r.here[i] && !r.gone[i] {
			return false
		}
	}
	return true
}

func (r *ring) pass(i int) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.advance(i)
	}
}

func (r *ring) leave(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[i] = true
	if r.next == i {
		r.advance(i)
	}
	r.cond.Broadcast()
}

// advance gives the turn to the next player after i that is not done.
func (r *ring) advance(i int) {
	for k := range r.gone {
		if next := (i + 1 + k) % len(r.gone); !r.gone[next] {
			r.next = next
			break
		}
	}
	r.cond.Broadcast()
}
