package dispatchtest

import (
	"slices"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// pause: what leaves its slot to others goes on before what has not begun.
func pause(s *suite) {
	s.serve(dispatch.Host{ID: s.id("a"), Slots: dispatch.NewSlots(1, nil)})
	one := func(th *thread) *task {
		id := s.id("task")
		th.begun, th.hold = make(chan struct{}, 1), make(chan struct{})
		x := s.record.beside(id, th)
		s.poke(id)
		return x
	}
	asks, works, late := &thread{pauses: true}, &thread{}, &thread{}
	x := one(asks)
	<-asks.begun
	y := one(works)
	<-works.begun
	close(asks.hold)
	time.Sleep(100 * time.Millisecond) // nothing tells when it waits for its slot
	z := one(late)
	close(late.hold)
	s.record.until("the late task is looked at", func() bool { return z.looks > 0 })
	close(works.hold)
	<-late.begun
	s.record.mu.Lock()
	if !asks.ended {
		s.t.Error("another has begun, and the one that waited for an answer waits for a slot")
	}
	s.record.mu.Unlock()
	s.ends(x, y, z)
}

// turns: a task with many threads leaves room for the first of another.
func turns(s *suite) {
	const many = 16
	s.serve(dispatch.Host{ID: s.id("a"), Slots: dispatch.NewSlots(1, nil)})
	begun, hold := make(chan struct{}, many+1), make(chan struct{})
	var all []*thread
	for range many {
		all = append(all, &thread{begun: begun, hold: hold})
	}
	id, other := s.id("many"), s.id("other")
	x := s.record.beside(id, all...)
	s.poke(id)
	<-begun
	single := &thread{begun: begun, hold: hold}
	y := s.record.beside(other, single)
	s.poke(other)
	s.record.until("the other task is looked at", func() bool { return y.looks > 0 })
	for range many {
		hold <- struct{}{}
		<-begun
	}
	hold <- struct{}{}
	s.ends(x, y)
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	if n := slices.Index(s.record.order, single.id); n > many/2 {
		s.t.Errorf("the other task began after %d threads of %d", n, many)
	}
}
