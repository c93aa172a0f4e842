// Package dispatchtest is the suite for engines: what package dispatch promises of them, tested on an
// artificial record.
package dispatchtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// A Cluster is an engine with its state, wherever that is.
type Cluster interface {
	// Engine returns an engine on that state, like one in another process.
	Engine(t testing.TB) dispatch.Engine
	// Wipe makes the engine lose all its state while it serves hosts.
	Wipe(t testing.TB)
}

// An Absent is a cluster whose engine may be unreachable.
type Absent interface {
	// Away makes the engine unreachable, with all its state, until back is called.
	Away(t testing.TB) (back func())
}

// Run runs the suite. open makes a cluster where a thread waits for its preferred host for prefer, and removes
// it when the test ends.
func Run(t *testing.T, open func(t *testing.T, prefer time.Duration) Cluster) {
	for name, test := range map[string]func(*suite){
		"Poke": poke, "Timer": timer, "Chain": chain, "Faults": faults, "Death": death, "Labels": labels,
		"Prefers": prefers, "Elsewhere": elsewhere, "Slots": slots, "Pause": pause, "Turns": turns, "Wipe": wipe,
		"Drain": drain, "Away": away, "Trouble": trouble, "Again": again,
	} {
		t.Run(name, func(t *testing.T) {
			prefer := time.Hour
			if name == "Elsewhere" {
				prefer = time.Second
			}
			s := &suite{t: t, cluster: open(t, prefer), record: newRecord(t)}
			s.engine = s.cluster.Engine(t)
			test(s)
		})
	}
}

type suite struct {
	t       *testing.T
	cluster Cluster
	record  *record
	engine  dispatch.Engine // for poking
}

// id returns a name for a task or a host that no other test has.
func (s *suite) id(name string) string { return fmt.Sprintf("%s-%x", name, time.Now().UnixNano()) }

func (s *suite) poke(tasks ...string) {
	s.t.Helper()
	for _, id := range tasks {
		if err := s.engine.Poke(s.t.Context(), id); err != nil {
			s.t.Fatal(err)
		}
	}
}

// serve serves a host in its own engine, and returns a function that tells it to stop, and a channel that is
// closed when it has.
func (s *suite) serve(host dispatch.Host) (drain func(), drained chan struct{}) {
	ctx, cancel := context.WithCancel(s.t.Context())
	engine, drained := s.cluster.Engine(s.t), make(chan struct{})
	go func() {
		defer close(drained)
		if err := engine.Serve(ctx, host, s.record.on(host.ID)); err != nil {
			s.t.Errorf("serve %s: %v", host.ID, err)
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		select {
		case <-drained:
		case <-time.After(2 * time.Minute):
			s.t.Errorf("%s is not drained", host.ID)
		}
	})
	return cancel, drained
}

// ends waits until tasks have ended.
func (s *suite) ends(tasks ...*task) {
	s.t.Helper()
	s.record.until("the tasks end", func() bool {
		return !slices.ContainsFunc(tasks, func(x *task) bool { return !x.ended() })
	})
}

// poke: whatever is poked is looked at, whichever host serves.
func poke(s *suite) {
	s.serve(dispatch.Host{ID: s.id("a")})
	var tasks []*task
	for i := range 20 {
		id := s.id(fmt.Sprint("task", i))
		x := s.record.chain(id, 1)
		s.poke(id)
		tasks = append(tasks, x)
	}
	s.ends(tasks...)
	s.serve(dispatch.Host{ID: s.id("b")})
	id := s.id("late")
	x := s.record.chain(id, 2)
	s.poke(id, id, id)
	s.ends(x)
}

// timer: a task is looked at again when it says so.
func timer(s *suite) {
	s.serve(dispatch.Host{ID: s.id("a")})
	id := s.id("task")
	x := &task{at: time.Now().Add(time.Second)}
	s.record.add(id, x)
	s.poke(id)
	s.record.until("it is looked at after its time", func() bool { return x.at.IsZero() })
}

// chain: whatever follows a drive is driven, each once.
func chain(s *suite) {
	for _, name := range []string{"a", "b"} {
		s.serve(dispatch.Host{ID: s.id(name)})
	}
	id := s.id("task")
	x := s.record.chain(id, 8)
	s.poke(id)
	s.ends(x)
	for _, stage := range x.threads {
		if n := len(stage[0].drives); n != 1 {
			s.t.Errorf("%s was driven %d times", stage[0].id, n)
		}
	}
}

// faults: after an error, work continues after a while.
func faults(s *suite) {
	s.serve(dispatch.Host{ID: s.id("a")})
	id := s.id("task")
	x := s.record.chain(id, 2)
	x.faults, x.threads[0][0].faults = 2, 2
	s.poke(id)
	s.ends(x)
}

// death: a thread whose host has died is driven by another, even though its drive never returns.
func death(s *suite) {
	first := s.id("a")
	s.serve(dispatch.Host{ID: first})
	id := s.id("task")
	x := s.record.chain(id, 2)
	th := x.threads[0][0]
	th.begun, th.hold = make(chan struct{}, 1), make(chan struct{})
	dead := th.hold
	defer close(dead)
	s.poke(id)
	<-th.begun
	s.serve(dispatch.Host{ID: s.id("b")})
	s.record.mu.Lock()
	th.hold = nil
	s.record.mu.Unlock()
	s.record.abandon(th)
	s.ends(x)
	if n := len(th.drives); n != 2 {
		s.t.Errorf("it was driven %d times: %v", n, th.drives)
	}
}

// labels: what needs labels is driven on a host with them, and waits until there is one.
func labels(s *suite) {
	s.serve(dispatch.Host{ID: s.id("plain"), Labels: []string{"linux"}})
	id := s.id("task")
	all := []*thread{{needs: []string{"gpu"}}, {needs: []string{"linux", "gpu"}}, {needs: []string{"linux"}}, {}}
	x := s.record.beside(id, all...)
	s.poke(id)
	s.record.until("what the host has the labels for is driven", func() bool { return all[2].ended && all[3].ended })
	gpu := s.id("gpu")
	s.serve(dispatch.Host{ID: gpu, Labels: []string{"gpu", "linux"}})
	s.poke(id)
	s.ends(x)
	for _, th := range all[:2] {
		if !slices.Equal(th.drives, []string{gpu}) {
			s.t.Errorf("what needs %v was driven on %v", th.needs, th.drives)
		}
	}
}

// prefers: a thread is driven where it prefers to be.
func prefers(s *suite) {
	names := []string{s.id("a"), s.id("b"), s.id("c")}
	for _, name := range names {
		s.serve(dispatch.Host{ID: name})
	}
	id := s.id("task")
	var all []*thread
	for i := range 12 {
		all = append(all, &thread{host: names[i%3]})
	}
	x := s.record.beside(id, all...)
	s.poke(id)
	s.ends(x)
	for _, th := range all {
		if !slices.Equal(th.drives, []string{th.host}) {
			s.t.Errorf("what prefers %s was driven on %v", th.host, th.drives)
		}
	}
}

// elsewhere: a thread whose host does not come is driven by another.
func elsewhere(s *suite) {
	s.serve(dispatch.Host{ID: s.id("a")})
	id := s.id("task")
	x := s.record.beside(id, &thread{host: s.id("gone")}, &thread{host: s.id("gone-too")})
	s.poke(id)
	s.ends(x)
}

// slots: a host takes no more concurrent drives than it has slots, and all get their turn.
func slots(s *suite) {
	first, second := s.id("a"), s.id("b")
	s.serve(dispatch.Host{ID: first, Slots: dispatch.NewSlots(2, nil)})
	id := s.id("task")
	begun, hold := make(chan struct{}, 6), make(chan struct{})
	var all []*thread
	for range 6 {
		all = append(all, &thread{begun: begun, hold: hold})
	}
	x := s.record.beside(id, all...)
	s.poke(id)
	<-begun
	<-begun
	other := s.id("other") // by the time that it has been looked at and driven, a third drive would have begun
	y := s.record.chain(other, 1)
	s.serve(dispatch.Host{ID: second, Slots: dispatch.NewSlots(1, nil)})
	s.poke(other)
	s.record.until("both hosts are at work", func() bool {
		held := 0
		for _, th := range all {
			if th.held {
				held++
			}
		}
		return held >= 3 || y.ended()
	})
	close(hold)
	s.ends(x, y)
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	if a, b := s.record.most[first], s.record.most[second]; a > 2 || b > 1 {
		s.t.Errorf("%d drives at once on 2 slots, %d on 1", a, b)
	}
}

// wipe: an engine that loses all its state interrupts nothing, and everything continues once it is poked.
func wipe(s *suite) {
	for _, name := range []string{"a", "b", "c"} {
		s.serve(dispatch.Host{ID: s.id(name)})
	}
	var tasks []*task
	var ids []string
	begun, hold := make(chan struct{}, 3), make(chan struct{})
	for i := range 3 {
		id := s.id(fmt.Sprint("task", i))
		x := s.record.chain(id, 3)
		x.threads[1][0].begun, x.threads[1][0].hold = begun, hold
		tasks, ids = append(tasks, x), append(ids, id)
		s.poke(id)
	}
	for range tasks {
		<-begun
	}
	s.cluster.Wipe(s.t)
	s.engine = s.cluster.Engine(s.t)
	s.poke(ids...)
	close(hold)
	s.record.until("what was driven ends", func() bool {
		return !slices.ContainsFunc(tasks, func(x *task) bool { return !x.threads[1][0].ended })
	})
	s.poke(ids...) // as the relay does for what has happened
	s.ends(tasks...)
	for _, x := range tasks {
		for _, stage := range x.threads {
			if th := stage[0]; th.stopped || len(th.drives) != 1 {
				s.t.Errorf("%s: driven on %v, interrupted: %v", th.id, th.drives, th.stopped)
			}
		}
	}
}

// away: an unreachable engine interrupts nothing and is waited for, also by hosts that start meanwhile.
func away(s *suite) {
	absent, ok := s.cluster.(Absent)
	if !ok {
		return // it is in this process
	}
	s.serve(dispatch.Host{ID: s.id("a")})
	late, id := s.id("late"), s.id("task")
	x := s.record.chain(id, 3)
	th := x.threads[1][0]
	th.begun, th.hold = make(chan struct{}, 1), make(chan struct{})
	x.threads[2][0].needs = []string{"late"}
	s.poke(id)
	<-th.begun
	back := absent.Away(s.t)
	s.serve(dispatch.Host{ID: late, Labels: []string{"late"}})
	close(th.hold)
	s.record.until("what was driven ends", func() bool { return th.ended })
	back()
	s.poke(id)
	s.ends(x)
	for _, stage := range x.threads {
		if th := stage[0]; th.stopped || len(th.drives) != 1 {
			s.t.Errorf("%s: driven on %v, interrupted: %v", th.id, th.drives, th.stopped)
		}
	}
}

// drain: a host that stops takes nothing more and ends what it has; another continues.
func drain(s *suite) {
	stopping, other := s.id("a"), s.id("b")
	stop, drained := s.serve(dispatch.Host{ID: stopping})
	id := s.id("task")
	x := s.record.chain(id, 3)
	th := x.threads[0][0]
	th.begun, th.hold = make(chan struct{}, 1), make(chan struct{})
	s.poke(id)
	<-th.begun
	stop()
	s.serve(dispatch.Host{ID: other})
	late := s.id("late")
	y := s.record.chain(late, 1)
	s.poke(late)
	s.ends(y)
	if got := y.threads[0][0].drives; !slices.Equal(got, []string{other}) {
		s.t.Errorf("what was poked after the end was driven on %v", got)
	}
	select {
	case <-drained:
		s.t.Error("the host has stopped, and its drive has not returned")
	default:
	}
	close(th.hold)
	<-drained
	s.ends(x)
	if th.stopped || x.threads[2][0].drives[0] != other {
		s.t.Errorf("interrupted: %v; the last step was driven on %v", th.stopped, x.threads[2][0].drives)
	}
}
