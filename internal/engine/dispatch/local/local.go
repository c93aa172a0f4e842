// Package local is the engine within one process: a queue in memory.
//
// It is given tasks to look at, and this process's hosts, whose Work it calls. It knows nothing of other
// processes: each that has one looks at all tasks itself, and leases keep them apart. So it suits one worker, a
// few that are patient with each other, and tests.
package local

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
)

// Config says how patient an engine is.
type Config struct {
	Prefer time.Duration // how long a thread waits for its preferred host; zero: 30 s
	Again  time.Duration // how long after an error a task is looked at again; zero: 1 s
}

// An Engine is a queue. Make one with New.
type Engine struct {
	cfg Config

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when there may be more to do
	tasks   map[string]*task
	drives  map[key]*drive
}

// A task is a task that will be looked at again.
type task struct {
	due   time.Time // zero: when it is poked
	busy  bool      // being looked at
	poked bool      // meanwhile
}

type key struct {
	task, thread string
	token        int64
}

// A drive is a thread that is queued or being driven.
type drive struct {
	dispatch.Ready
	since time.Time
	later time.Time // when it may be offered again, after a host declined it
	busy  bool
}

// New returns an engine that knows no task.
func New(cfg Config) *Engine {
	if cfg.Prefer == 0 {
		cfg.Prefer = 30 * time.Second
	}
	if cfg.Again == 0 {
		cfg.Again = time.Second
	}
	e := &Engine{cfg: cfg, changed: make(chan struct{})}
	e.Forget()
	return e
}

// Forget makes the engine lose all its state. Running drives continue.
func (e *Engine) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tasks, e.drives = make(map[string]*task), make(map[key]*drive)
	e.wake()
}

// wake wakes all calls of Serve. e.mu is held.
func (e *Engine) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Poke announces that there may be something to do for a task.
func (e *Engine) Poke(_ context.Context, id string) error {
	e.poke(id, time.Now())
	return nil
}

func (e *Engine) poke(id string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[id]
	if t == nil {
		t = &task{}
		e.tasks[id] = t
	}
	if t.busy {
		t.poked = true
		return
	}
	if t.due.IsZero() || at.Before(t.due) {
		t.due = at
		e.wake()
	}
}

// Serve calls w until ctx ends, and returns once its calls have.
func (e *Engine) Serve(ctx context.Context, host dispatch.Host, w dispatch.Work) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	calling := context.WithoutCancel(ctx)
	for {
		e.mu.Lock()
		var do func()
		wait, full := time.Hour, host.Slots.Full()
		if ctx.Err() == nil {
			do, wait = e.next(calling, host, full == nil, w)
		}
		changed := e.changed
		e.mu.Unlock()
		if do != nil {
			calls.Go(do)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
		case <-full:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// next takes something that a host may do, or returns how long until there may be something. e.mu is held.
func (e *Engine) next(ctx context.Context, host dispatch.Host, free bool, w dispatch.Work) (func(), time.Duration) {
	now, wait := time.Now(), time.Hour
	for id, t := range e.tasks {
		if t.busy || t.due.IsZero() {
			continue
		}
		if left := t.due.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		t.busy, t.poked = true, false
		return func() { e.reconcile(ctx, id, t, w) }, 0
	}
	var first *drive
	var its key
	for k, d := range e.drives {
		if d.busy || !free || !host.Has(d.Needs) {
			continue
		}
		at := d.later
		if prefers := d.since.Add(e.cfg.Prefer); d.Host != "" && d.Host != host.ID && prefers.After(at) {
			at = prefers
		}
		if left := at.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(d.Rank, first.Rank), d.since.Compare(first.since)) < 0 {
			first, its = d, k
		}
	}
	if first == nil {
		return nil, wait
	}
	slot := host.Slots.Take()
	if slot == nil {
		return nil, 0
	}
	first.busy = true
	return func() {
		err := w.Drive(ctx, its.thread, slot)
		slot.Release()
		e.driven(its, first, err)
	}, 0
}

// driven records that a drive has returned.
func (e *Engine) driven(k key, d *drive, err error) {
	e.mu.Lock()
	if errors.Is(err, dispatch.ErrBusy) {
		d.busy, d.later = false, time.Now().Add(e.cfg.Again)
		e.wake()
		e.mu.Unlock()
		return
	}
	if e.drives[k] == d {
		delete(e.drives, k)
	}
	e.mu.Unlock()
	at := time.Now()
	var held *store.HeldError
	if err != nil && !errors.As(err, &held) {
		at = at.Add(e.cfg.Again)
	}
	e.poke(k.task, at)
}

// reconcile looks at a task, and queues what may be driven.
func (e *Engine) reconcile(ctx context.Context, id string, t *task, w dispatch.Work) {
	a, err := w.Reconcile(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tasks[id] != t {
		return // it was forgotten meanwhile
	}
	defer e.wake()
	t.busy, t.due = false, a.At
	if t.poked {
		t.due = time.Now()
	}
	if err != nil {
		t.due = time.Now().Add(e.cfg.Again)
		return
	}
	for k, d := range e.drives { // what is no longer wanted need not wait
		if k.task == id && !d.busy && (a.Ended || !slices.ContainsFunc(a.Drive, func(r dispatch.Ready) bool {
			return r.Thread == k.thread && r.Token == k.token
		})) {
			delete(e.drives, k)
		}
	}
	if a.Ended {
		delete(e.tasks, id)
		return
	}
	for _, r := range a.Drive {
		k := key{id, r.Thread, r.Token}
		if d := e.drives[k]; d != nil {
			d.Rank = r.Rank
		} else {
			e.drives[k] = &drive{Ready: r, since: time.Now()}
		}
	}
}
