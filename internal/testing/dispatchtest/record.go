package dispatchtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
)

// A record stands in for the real one: it has leases, and tasks of steps that are driven in turn.
type record struct {
	t testing.TB

	mu    sync.Mutex
	tasks map[string]*task
	going map[string]int // running drives, by host
	most  map[string]int // most of those at a time
	busy  map[string]int // by host: how many drives it has declined; it declines all if it is here
	order []string       // ids of threads, each time that a drive of one begins
	news  chan struct{}  // closed and replaced when something has happened
}

// A task of a record.
type task struct {
	looks   int         // number of reconciliations
	threads [][]*thread // by stage: driven once those of the stage before have ended
	at      time.Time   // when the task must be looked at again, once
	faults  int         // how many more looks fail
}

// A thread of a task: one drive ends it, if nothing happens to the drive.
type thread struct {
	id     string
	host   string
	needs  []string
	faults int           // how many more drives fail
	begun  chan struct{} // if set, a drive signals here that it has begun
	hold   chan struct{} // and waits for this to be closed, or for a value
	pauses bool          // meanwhile it leaves its slot to others

	token   int64
	held    bool
	drives  []string // hosts it was driven on, one for every lease taken
	stopped bool     // the context of a drive has ended
	ended   bool
}

func newRecord(t testing.TB) *record {
	return &record{
		t: t, tasks: map[string]*task{}, going: map[string]int{}, most: map[string]int{},
		busy: map[string]int{}, news: make(chan struct{}),
	}
}

// chain adds a task of consecutive steps.
func (r *record) chain(id string, steps int) *task {
	x := &task{}
	for i := range steps {
		x.threads = append(x.threads, []*thread{{id: fmt.Sprintf("%s-%d", id, i)}})
	}
	return r.add(id, x)
}

// beside adds a task of threads that are driven concurrently.
func (r *record) beside(id string, threads ...*thread) *task {
	for i, th := range threads {
		th.id = fmt.Sprintf("%s-%d", id, i)
	}
	return r.add(id, &task{threads: [][]*thread{threads}})
}

func (r *record) add(id string, x *task) *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[id] = x
	return x
}

// happened wakes all waiters. r.mu is held.
func (r *record) happened() {
	close(r.news)
	r.news = make(chan struct{})
}

// until waits for something to be true of the record, but not forever.
func (r *record) until(what string, is func() bool) {
	r.t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		ok, news := is(), r.news
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-limit:
			r.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// open returns the threads that may be driven now.
func (x *task) open() (ready []*thread) {
	for _, stage := range x.threads {
		for _, th := range stage {
			if !th.ended {
				ready = append(ready, th)
			}
		}
		if len(ready) > 0 {
			return ready
		}
	}
	return nil
}

func (x *task) ended() bool { return len(x.open()) == 0 }

// abandon releases the lease of a thread, as if its host had died.
func (r *record) abandon(th *thread) {
	r.mu.Lock()
	defer r.mu.Unlock()
	th.held = false
	r.happened()
}

// on returns the record as a host works on it.
func (r *record) on(host string) dispatch.Work { return work{r, host} }

type work struct {
	*record
	host string
}

// Reconcile returns the threads of the task that no host drives.
func (w work) Reconcile(_ context.Context, id string) (dispatch.Agenda, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.tasks[id]
	if x == nil {
		return dispatch.Agenda{Ended: true}, nil // of an earlier test
	}
	x.looks++
	w.happened()
	if x.faults > 0 {
		x.faults--
		return dispatch.Agenda{}, fmt.Errorf("the record of task %s cannot be read", id)
	}
	a := dispatch.Agenda{Ended: x.ended() && x.at.IsZero(), At: x.at}
	if !x.at.IsZero() && !time.Now().Before(x.at) {
		a.At, x.at = time.Time{}, time.Time{}
		a.Ended = x.ended()
	}
	driven := 0
	for _, th := range x.open() {
		if th.held {
			driven++
		}
	}
	for _, th := range x.open() {
		if !th.held {
			a.Drive = append(a.Drive, dispatch.Ready{Thread: th.id, Token: th.token, Rank: driven + len(a.Drive),
				Host: th.host, Needs: th.needs})
		}
		if soon := time.Now().Add(500 * time.Millisecond); a.At.IsZero() || soon.Before(a.At) {
			a.At = soon // the host that has it, or gets it, may die
		}
	}
	return a, nil
}

func (r *record) find(id string) *thread {
	for _, x := range r.tasks {
		for _, stage := range x.threads {
			if i := slices.IndexFunc(stage, func(th *thread) bool { return th.id == id }); i >= 0 {
				return stage[i]
			}
		}
	}
	return nil
}

// Drive drives a thread under its lease.
func (w work) Drive(ctx context.Context, id string, slot *dispatch.Slot) error {
	w.mu.Lock()
	th := w.find(id)
	if th == nil || th.ended {
		w.mu.Unlock()
		return nil
	}
	if th.held {
		w.mu.Unlock()
		return &store.HeldError{Name: store.ThreadLease(id), Owner: "another host"}
	}
	if n, busy := w.busy[w.host]; busy {
		w.busy[w.host] = n + 1
		w.happened()
		w.mu.Unlock()
		return dispatch.ErrBusy
	}
	th.token++
	th.held = true
	th.drives = append(th.drives, w.host)
	w.going[w.host]++
	w.most[w.host] = max(w.most[w.host], w.going[w.host])
	w.order = append(w.order, id)
	mine, begun, hold := th.token, th.begun, th.hold
	w.happened()
	w.mu.Unlock()
	if begun != nil {
		begun <- struct{}{}
	}
	stopped := false
	if th.pauses {
		slot.Pause()
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			stopped = true
		}
	}
	if err := slot.Resume(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.happened()
	w.going[w.host]--
	th.stopped = th.stopped || stopped
	if th.token != mine || !th.held {
		return store.ErrFenced
	}
	th.held = false
	if th.faults > 0 {
		th.faults--
		return fmt.Errorf("the record of thread %s cannot be kept", id)
	}
	th.ended = true
	return nil
}
