package web

import (
	"context"
	"sync"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
)

// work runs this server's jobs, one goroutine per task.
type work struct {
	open func(context.Context, store.Thread) (*control.Controller, error) // see Config.Open

	ctx context.Context // ends with the server, which interrupts the jobs

	mu    sync.Mutex
	ended bool            // no more jobs may start
	jobs  map[string]*job // by task; failed ones are kept
	under sync.WaitGroup
}

// A job is work on a task that is running or has ended.
type job struct {
	stop     context.CancelFunc
	newInput bool // there may be new input that its driver has not seen
	over     bool
	err      error
}

// drive drives the task of a thread in the background. r applies to the thread.
func (w *work) drive(row store.Thread, r control.Resume) error {
	r.Wait = true // answers are given here
	return w.begin(row, func(ctx context.Context, there *control.Controller) error {
		_, err := there.Drive(ctx, row.ID, r)
		return err
	})
}

// noteInput records that there is new input for a task that this server drives: its driver may be
// about to end and miss it.
func (w *work) noteInput(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil {
		j.newInput = true
	}
}

// driveAgain drives a task once more if it still has unprocessed input.
func driveAgain(ctx context.Context, there *control.Controller, id string) error {
	if !there.HasOpenInput(ctx, id) {
		return nil
	}
	_, err := there.Drive(ctx, id, control.Resume{Wait: true})
	return err
}

// begin starts a job in the background for the task of a thread, with the controller of the task's workspace. A task
// has one job at a time. Its error is kept for lastError.
func (w *work) begin(row store.Thread, do func(context.Context, *control.Controller) error) error {
	id := row.Root
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, j, err := w.take(id)
	if err != nil {
		return err
	}
	w.under.Go(func() {
		there, err := w.open(ctx, row)
		if err == nil {
			err = do(ctx, there)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for err == nil && j.newInput && ctx.Err() == nil {
			j.newInput = false
			w.mu.Unlock()
			err = driveAgain(ctx, there, id)
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

// end waits for running jobs after ctx has ended. No job starts after it.
func (w *work) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.under.Wait()
}

// take creates the job of a task that has none. w.mu must be held.
func (w *work) take(id string) (context.Context, *job, error) {
	if w.ended || w.ctx.Err() != nil {
		return nil, nil, &problem{503, "ending", "this server is shutting down"}
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

// hold reserves a task for the caller until release is called, and keeps the server from ending.
func (w *work) hold(id string) (release func(), err error) {
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

// stop interrupts the job of a task, and reports whether there is one. The task can be resumed.
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

// drives reports whether this server has a running job for a task.
func (w *work) drives(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	return j != nil && !j.over
}

// lastError returns the error of the last job of a task, nil if it has none.
func (w *work) lastError(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil {
		return j.err
	}
	return nil
}
