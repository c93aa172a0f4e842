package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/sys/lock"
)

// Slots bound how many threads a host drives at a time: an engine takes one before it calls Drive, and releases it once
// Drive has returned. Meanwhile, a drive whose agent waits for a person leaves its slot to others. A nil *Slots bounds
// nothing.
type Slots struct {
	most    int
	machine func() (*lock.Lock, error)

	mu      sync.Mutex
	taken   int
	waiting int           // drives that want to continue: they come before those that have not begun
	others  bool          // other processes of the machine had the rest a moment ago
	freed   chan struct{} // closed and replaced when one may be free
}

// NewSlots returns that many slots. machine, if set, takes one of the machine's slots, which its processes share, or
// returns an error, such as a *lock.HeldError.
func NewSlots(most int, machine func() (*lock.Lock, error)) *Slots {
	return &Slots{most: most, machine: machine, freed: make(chan struct{})}
}

// Most returns how many there are; zero: any number.
func (s *Slots) Most() int {
	if s == nil {
		return 0
	}
	return s.most
}

// othersEvery is how often to try a slot that another process of the machine has: nothing tells when it is free.
const othersEvery = 250 * time.Millisecond

// Take takes a slot. It does not wait: without a free one, it returns nil.
func (s *Slots) Take() *Slot {
	if s == nil {
		return new(Slot)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &Slot{of: s, paused: make(chan struct{})}
	if s.full() || s.fill(slot) != nil {
		return nil
	}
	return slot
}

// Full returns nil if a slot may be free, and otherwise a channel that is closed when one may be.
func (s *Slots) Full() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() {
		return s.freed
	}
	return nil
}

// full reports whether no drive may begin. s.mu is held, as for fill and wake.
func (s *Slots) full() bool { return s.others || s.taken+s.waiting >= s.most }

// fill takes a slot.
func (s *Slots) fill(slot *Slot) (err error) {
	if s.machine != nil {
		if slot.lock, err = s.machine(); err != nil {
			s.others = true
			time.AfterFunc(othersEvery, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.others = false
				s.wake()
			})
			return err
		}
	}
	s.taken++
	slot.held = true
	return nil
}

func (s *Slots) wake() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// A Slot is the right of a host to drive one thread. The zero Slot is one of a host without bounds.
type Slot struct {
	of     *Slots
	lock   *lock.Lock // of the machine; nil: its processes are not bounded
	held   bool
	paused chan struct{} // closed by the first Pause
	once   sync.Once
}

// Pause leaves the slot to others until Resume.
func (s *Slot) Pause() {
	s.Release()
	if s.of != nil {
		s.once.Do(func() { close(s.paused) })
	}
}

// Paused returns a channel that is closed when the slot is first left to others.
func (s *Slot) Paused() <-chan struct{} { return s.paused }

// Release gives the slot back.
func (s *Slot) Release() {
	if s.of == nil || !s.held {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.lock != nil {
		s.lock.Release()
		s.lock = nil
	}
	s.held = false
	s.of.taken--
	s.of.wake()
}

// Resume waits until there is a slot again.
func (s *Slot) Resume(ctx context.Context) error {
	if s.of == nil || s.held {
		return nil
	}
	of := s.of
	of.mu.Lock()
	defer of.mu.Unlock()
	of.waiting++
	defer func() {
		of.waiting--
		of.wake()
	}()
	for {
		if !of.others && of.taken < of.most {
			err := of.fill(s)
			var held *lock.HeldError
			if err == nil || !errors.As(err, &held) {
				return err
			}
		}
		freed := of.freed
		of.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		of.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
