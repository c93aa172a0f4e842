package web

import (
	"context"
	"sync"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/store"
)

// work is what this server does with tasks, one goroutine each.
type work struct {
	control *control.Controller
	ctx     context.Context // ends with the server: what is driven then is left to be resumed

	mu    sync.Mutex
	ended bool            // nothing begins any more
	jobs  map[string]*job // by task; those that are over stay when they ended badly
	under sync.WaitGroup
}

// A job is what is being done with a task, or how it ended.
type job struct {
	stop context.CancelFunc
	said bool // somebody has said something to the task since its driver looked last, perhaps
	over bool
	err  error
}

// drive lets the task of a thread go on in the background. What r says is for the thread.
func (w *work) drive(row store.Thread, r control.Resume) error {
	r.Wait = true // answers are given here
	return w.begin(row.Root, func(ctx context.Context) error {
		_, err := w.control.Drive(ctx, row.ID, r)
		return err
	})
}

// unheard notes that somebody has said something to a task that this server drives: its driver may be
// about to end, and may not look again.
func (w *work) unheard(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil {
		j.said = true
	}
}

// hear drives a task once more when something that was said to it meanwhile still waits.
func (w *work) hear(ctx context.Context, id string) error {
	if !w.control.HasOpenInput(ctx, id) {
		return nil
	}
	_, err := w.control.Drive(ctx, id, control.Resume{Wait: true})
	return err
}

// begin does something with a task in the background: one thing at a time. How it ends
// badly is kept for said.
func (w *work) begin(id string, do func(context.Context) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, j, err := w.take(id)
	if err != nil {
		return err
	}
	w.under.Go(func() {
		err := do(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		for err == nil && j.said && ctx.Err() == nil {
			j.said = false
			w.mu.Unlock()
			err = w.hear(ctx, id)
			w.mu.Lock()
		}
		stopped := ctx.Err() != nil
		j.stop()
		j.over = true
		if err == nil || stopped {
			delete(w.jobs, id)
			return
		}
		j.err = err
	})
	return nil
}

// end waits for what is under way when ctx has ended. Nothing begins after it.
func (w *work) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.under.Wait()
}

// take makes a job of a task that has none. w.mu is held.
func (w *work) take(id string) (context.Context, *job, error) {
	if w.ended || w.ctx.Err() != nil {
		return nil, nil, &problem{503, "ending", "this server ends"}
	}
	if j := w.jobs[id]; j != nil && !j.over {
		return nil, nil, &problem{409, "conflict", "this server drives the task already"}
	}
	if w.jobs == nil {
		w.jobs = map[string]*job{}
	}
	ctx, stop := context.WithCancel(w.ctx)
	j := &job{stop: stop}
	w.jobs[id] = j
	return ctx, j, nil
}

// hold keeps everybody else away from a task until it is let go, and the server from its
// end.
func (w *work) hold(id string) (letGo func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, j, err := w.take(id)
	if err != nil {
		return nil, err
	}
	w.under.Add(1)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		j.stop()
		delete(w.jobs, id)
		w.under.Done()
	}, nil
}

// stop stops what this server does with a task, and reports whether it does anything. The
// task is left to be resumed.
func (w *work) stop(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	if j == nil || j.over {
		return false
	}
	j.stop()
	return true
}

// drives reports whether this server does something with a task now.
func (w *work) drives(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	return j != nil && !j.over
}

// said tells why what this server did with a task came to no end, "" when it did or none is
// known.
func (w *work) said(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil && j.err != nil {
		return j.err.Error()
	}
	return ""
}
