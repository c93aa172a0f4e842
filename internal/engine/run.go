package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A report is sent when a goroutine has driven a thread as far as it can. The goroutine's count in the workload
// passes to the receiver.
type report struct {
	id  string
	err error
}

// A run is the embedded driver: it asks Reconcile what may be driven, has a goroutine drive each of those
// threads, and looks again when one has returned or something has happened.
type run struct {
	*Engine
	task    string
	ctx     context.Context // of the agents
	going   map[string]context.CancelCauseFunc
	reports chan report
	news    <-chan struct{}
	err     error
}

// Run drives a task until it has ended or cannot continue without a person, and returns the row of its root.
// The caller holds the task's lease. When ctx ends, Run stops the agents and leaves the task to be resumed; the
// error is ErrInterrupted.
func (e *Engine) Run(ctx context.Context, task string) (store.Thread, error) {
	bg := context.WithoutCancel(ctx)
	rows, err := thread.Subtree(bg, e.cfg.Store, task)
	if err == nil {
		err = e.recover(bg, rows)
	}
	if err != nil {
		return store.Thread{}, err
	}
	work, cancel := context.WithCancelCause(bg)
	defer context.AfterFunc(ctx, func() { cancel(ErrInterrupted) })()
	news := make(chan struct{}, 1)
	defer e.watch(work, task, cancel, func() {
		select {
		case news <- struct{}{}:
		default: // a look is already due
		}
	})()
	e.work.add()
	defer e.work.done()
	r := &run{Engine: e, task: task, ctx: work, going: map[string]context.CancelCauseFunc{}, reports: make(chan report),
		news: news}
	err = r.drive()
	if errors.Is(err, ErrInterrupted) && errors.Is(context.Cause(work), errStore) {
		err = context.Cause(work)
	}
	root, readErr := e.cfg.Store.Thread(bg, task)
	return root, errors.Join(err, readErr)
}

// drive is the loop.
func (r *run) drive() error {
	for {
		var agenda Agenda
		if r.err == nil && !interrupted(r.ctx) {
			agenda, r.err = r.Reconcile(r.ctx, r.task)
		}
		for _, id := range agenda.Stop {
			if stop := r.going[id]; stop != nil {
				stop(errUnwanted)
			}
		}
		for _, id := range agenda.Drive {
			if r.going[id] != nil {
				continue
			}
			ctx, cancel := context.WithCancelCause(r.ctx)
			r.going[id] = cancel
			r.work.add()
			go func() {
				defer cancel(nil)
				_, err := r.Drive(ctx, id)
				r.reports <- report{id, err}
			}()
		}
		if r.err != nil || interrupted(r.ctx) {
			for _, stop := range r.going {
				stop(ErrInterrupted)
			}
		}
		switch {
		case len(r.going) > 0:
		case r.err != nil:
			return r.err
		case interrupted(r.ctx):
			return ErrInterrupted
		case agenda.Delayed:
		case !r.cfg.Wait || !agenda.Waits:
			return nil
		}
		r.await(agenda)
	}
}

// await returns when there is reason to look again. Waiting does not count as work, except for threads told to
// stop, which report soon.
func (r *run) await(a Agenda) {
	var clock <-chan time.Time
	if a.RecheckAfter != 0 {
		timer := time.NewTimer(min(a.RecheckAfter, gate.MaxNap))
		defer timer.Stop()
		clock = timer.C
	}
	idle := len(a.Stop) == 0 && r.ctx.Err() == nil && r.err == nil
	if idle {
		r.work.done()
	}
	select {
	case rep := <-r.reports:
		delete(r.going, rep.id)
		if rep.err != nil && !errors.Is(rep.err, ErrInterrupted) && r.err == nil {
			r.err = rep.err
		}
		if !idle {
			r.work.done() // one count is enough
		}
		return
	case <-clock:
	case <-r.news:
	case <-r.done():
	}
	if idle {
		r.work.add()
	}
}

// done is closed when the run has to stop, and nil once the run knows that.
func (r *run) done() <-chan struct{} {
	if r.ctx.Err() != nil {
		return nil
	}
	return r.ctx.Done()
}

// errStore is the cause of a run that ends because the store fails.
var errStore = errors.New("the store cannot be read")

// Moving returns the types of events after which a task may have something to do: what people ask and answer,
// and what the drivers of its parts have done: ended them, or left their turns to others.
func Moving() []string {
	return append(event.Types(event.TaskCreated{}, event.JoinDecided{}, event.ThreadEnded{}, event.ThreadJoined{},
		event.GateChanged{Change: event.GateBlocked}, event.ThreadDelayed{}), moving...)
}

// moving are the events after which a task driven by one process may have something else to do.
var moving = event.Types(
	event.TaskUpdated{}, event.GateChanged{Change: event.Change(store.GateApproved)},
	event.GateChanged{Change: event.Change(store.GateRejected)},
	event.GateChanged{Change: event.Change(store.GateAnswered)},
	event.GateChanged{Change: event.Change(store.GateExpired)},
)

// watch calls look immediately, and again each time something has happened to a task, until stop is called. If
// the store fails, it calls cancel.
func (e *Engine) watch(ctx context.Context, task string, cancel context.CancelCauseFunc, look func()) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pos := int64(0); ; {
			next, err := e.cfg.Store.Wait(ctx, pos)
			var events []store.Event
			if err == nil && pos > 0 {
				events, err = e.cfg.Store.Events(ctx, pos, store.EventFilter{Task: task, Types: moving, Limit: 1})
			}
			if err != nil {
				if ctx.Err() == nil {
					cancel(fmt.Errorf("%w: %w: %w", ErrInterrupted, errStore, err))
				}
				return
			}
			if len(events) > 0 || pos == 0 || next < pos {
				look()
			}
			pos = next
		}
	}()
	return func() { end(); <-done }
}
