package dispatchtest

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// trouble: what a host declines is driven by another, as if it had never been offered to the first, and the first is
// offered work again once it takes some.
func trouble(s *suite) {
	first, second := s.id("a"), s.id("b")
	busy := func(host, other string) {
		s.record.mu.Lock()
		defer s.record.mu.Unlock()
		delete(s.record.busy, other)
		s.record.busy[host] = 0
	}
	busy(first, second)
	s.serve(dispatch.Host{ID: first})
	id := s.id("task")
	all := []*thread{{}, {}, {}}
	x := s.record.beside(id, all...)
	s.poke(id)
	s.record.until("the only host declines", func() bool { return s.record.busy[first] > 2 })
	s.serve(dispatch.Host{ID: second})
	s.ends(x)
	for _, th := range all {
		if !slices.Equal(th.drives, []string{second}) {
			s.t.Errorf("%s was driven on %v", th.id, th.drives)
		}
	}
	busy(second, first)
	back := s.id("back")
	y := s.record.chain(back, 3)
	s.poke(back)
	s.ends(y)
	for _, stage := range y.threads {
		if th := stage[0]; !slices.Equal(th.drives, []string{first}) {
			s.t.Errorf("%s was driven on %v", th.id, th.drives)
		}
	}
}

// again: a host that stopped to be served takes work again, while a drive from before goes on.
func again(s *suite) {
	host := dispatch.Host{ID: s.id("a")}
	engine, stop := s.engine, func() {}
	serve := func() (drained chan error) {
		var ctx context.Context
		ctx, stop = context.WithCancel(s.t.Context())
		drained = make(chan error, 1)
		go func() { drained <- engine.Serve(ctx, host, s.record.on(host.ID)) }()
		return drained
	}
	first := serve()
	id := s.id("task")
	x := s.record.chain(id, 2)
	th := x.threads[0][0]
	th.begun, th.hold = make(chan struct{}, 1), make(chan struct{})
	s.poke(id)
	<-th.begun
	stop()
	second := serve()
	other := s.id("other")
	y := s.record.chain(other, 2)
	s.poke(other)
	s.ends(y)
	select {
	case err := <-first:
		s.t.Errorf("the first Serve has returned, and its drive has not: %v", err)
	default:
	}
	close(th.hold)
	s.ends(x)
	stop()
	for _, drained := range []chan error{first, second} {
		if err := <-drained; err != nil {
			s.t.Error(err)
		}
	}
	if th.stopped || len(th.drives) != 1 {
		s.t.Errorf("driven on %v, interrupted: %v", th.drives, th.stopped)
	}
}
