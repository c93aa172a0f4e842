package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/secret"
)

// WorkerConfig configures a worker.
type WorkerConfig struct {
	Store store.Store
	// All is Store with the rows that it refuses to read, as place.ErrElsewhere: they say why. nil: it reads all.
	All store.Store
	// Open returns a controller with the settings of the workspace that a task belongs to.
	Open func(ctx context.Context, root store.Thread) (*Controller, error)
	Name string // under which others know it
	// Ready returns why the worker cannot work now; nil: it always can. It is called often, and concurrently. Changed, if
	// set, is called with what it returned each time that changes.
	Ready   func(ctx context.Context) error
	Changed func(why error)
	// Backoff says how often workers try what one was not able to do, RetryUnable how often a worker that cannot work
	// checks whether it can again; zero: 5 s.
	Backoff     engine.Backoff
	RetryUnable time.Duration
	// Tokens returns how often each named lease was taken; may be nil.
	Tokens       func(ctx context.Context, names []string) (map[string]int64, error)
	RecheckEvery time.Duration // longest time between two looks at a task; zero: store.LeaseTTL
	Secrets      *secret.Set   // masked in what is said of the worker's troubles; nil: none
	Log          *slog.Logger  // ids, kinds and durations, never texts; nil: none
	// Operator is the log for whoever runs the worker, with texts; nil: none.
	Operator *slog.Logger
}

// A Worker drives threads of tasks that others drive too. It is the engine's driver on a team.
//
// Laws: a thread is driven under its own lease, in a slot of the worker; if the lease is lost, its agent is stopped
// before another worker can take the thread. Workers learn from the journal what others have done. One of the workers
// that drive parts of a task holds the task's lease, draws its directory and notifies people; without one, nothing is
// lost.
type Worker struct {
	cfg WorkerConfig

	mu       sync.Mutex
	tasks    map[string]*localTask // tasks with threads driven here, by root
	draining bool
	unable   error                // why the worker cannot work
	checked  chan struct{}        // has a value when that has changed
	later    map[string]time.Time // when tasks whose workspace cannot be opened are looked at again, by root
	counts   Counts
}

// Counts counts what a worker has done since it began.
type Counts struct {
	Driving    int64 // threads, now
	Drives     int64
	Reconciles int64
	Failed     int64            // calls that could not write the record
	GivenBack  map[string]int64 // how often this worker was not able to drive a thread, by engine.WorkerError.At
	Draining   bool             // it begins nothing further
}

// A localTask is a task with threads driven here.
type localTask struct {
	engine  *engine.Engine
	driving map[string]context.CancelCauseFunc // by thread
	uses    int                                // by those threads and by calls of Reconcile
	stop    chan struct{}                      // closed when no thread is driven any more
}

// NewWorker returns a worker; it touches nothing.
func NewWorker(cfg WorkerConfig) *Worker {
	if cfg.All == nil {
		cfg.All = cfg.Store
	}
	if cfg.RecheckEvery == 0 {
		cfg.RecheckEvery = store.LeaseTTL
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Operator == nil {
		cfg.Operator = slog.New(slog.DiscardHandler)
	}
	if cfg.RetryUnable == 0 {
		cfg.RetryUnable = 5 * time.Second
	}
	return &Worker{cfg: cfg, tasks: map[string]*localTask{}, checked: make(chan struct{}, 1),
		later: map[string]time.Time{}, counts: Counts{GivenBack: map[string]int64{}}}
}

// Reconcile makes the moves of a task that need no agent, stops threads driven here that are no longer wanted,
// and returns what may be driven.
func (w *Worker) Reconcile(ctx context.Context, id string) (dispatch.Agenda, error) {
	if at := w.notBefore(id); at.After(time.Now()) {
		return dispatch.Agenda{At: at}, nil
	}
	root, err := w.cfg.Store.Thread(ctx, id)
	elsewhere := err
	if errors.Is(err, place.ErrElsewhere) {
		root, err = w.cfg.All.Thread(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && (root.Ended() || !Team(root)) {
		return dispatch.Agenda{Ended: true}, nil
	}
	if err != nil {
		return dispatch.Agenda{}, fmt.Errorf("reconcile task %s: %w", id, err)
	}
	if elsewhere != nil {
		return w.unopened(ctx, root, elsewhere)
	}
	t, err := w.acquireTask(ctx, root)
	if err != nil {
		return w.unopened(ctx, root, err)
	}
	defer w.releaseTask(root, t)
	w.count(func(c *Counts) { c.Reconciles++ })
	a, err := t.engine.Reconcile(ctx, id)
	if errors.Is(err, place.ErrElsewhere) {
		return w.unopened(ctx, root, err)
	}
	if err != nil {
		w.count(func(c *Counts) { c.Failed++ })
		return dispatch.Agenda{}, err
	}
	w.stopUnwanted(t, a.Stop)
	if root, err = w.cfg.Store.Thread(ctx, id); err != nil {
		return dispatch.Agenda{}, err
	}
	recheck := w.cfg.RecheckEvery // its driver may die
	if a.RecheckAfter > 0 {
		recheck = min(recheck, a.RecheckAfter)
	}
	out := dispatch.Agenda{Ended: root.Ended(), At: time.Now().Add(recheck)}
	out.Drive, err = w.ready(ctx, root, a)
	return out, err
}

// stopUnwanted stops those threads, of ids, that are driven here.
func (w *Worker) stopUnwanted(t *localTask, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if stop := t.driving[id]; stop != nil {
			stop(nil) // not an interruption: the engine ends the thread
		}
	}
}

// Drive drives a thread, unless the worker cannot work now.
func (w *Worker) Drive(ctx context.Context, id string, slot *dispatch.Slot) error {
	if w.check(ctx) != nil {
		return dispatch.ErrBusy
	}
	row, err := w.cfg.Store.Thread(ctx, id)
	if err != nil {
		return fmt.Errorf("drive thread %s: %w", id, err)
	}
	owner, held, err := w.cfg.Store.Holder(ctx, store.ThreadLease(id))
	if err != nil {
		return fmt.Errorf("drive thread %s: %w", id, err)
	}
	if held {
		return &store.HeldError{Name: store.ThreadLease(id), Owner: owner}
	}
	root, err := w.cfg.Store.Thread(ctx, row.Root)
	if err != nil {
		return fmt.Errorf("drive thread %s: %w", id, err)
	}
	if leaves, err := w.leaves(ctx, root, row); err != nil || leaves {
		return cmp.Or(err, dispatch.ErrBusy)
	}
	t, err := w.acquireTask(ctx, root)
	if err != nil {
		if _, backErr := w.giveBack(ctx, id, err); backErr != nil {
			return errors.Join(err, backErr)
		}
		return &engine.WorkerError{At: engine.AtWorkspace, Err: err}
	}
	defer w.releaseTask(root, t)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !w.start(root, t, id, cancel) {
		return nil
	}
	defer w.finish(t, id)
	began := time.Now()
	row, err = t.engine.At(slot).Drive(ctx, id)
	w.cfg.Log.Info("drive ended", "task", root.ID, "thread", id, "status", row.Status,
		"ms", time.Since(began).Milliseconds(), "failed", err != nil)
	if errors.Is(err, engine.ErrInterrupted) {
		return nil // another worker continues
	}
	var own *engine.WorkerError
	switch {
	case errors.As(err, &own):
		w.count(func(c *Counts) { c.GivenBack[own.At]++ })
		w.check(ctx) // it may not be able to drive any other either
	case err != nil:
		w.count(func(c *Counts) { c.Failed++ })
	}
	return err
}

// acquireTask returns the engine of a task, shared by all concurrent work on it here. A new engine reads the task's
// usage again.
func (w *Worker) acquireTask(ctx context.Context, root store.Thread) (*localTask, error) {
	w.mu.Lock()
	if t := w.tasks[root.ID]; t != nil {
		t.uses++
		w.mu.Unlock()
		return t, nil
	}
	w.mu.Unlock()
	c, err := w.cfg.Open(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("open the workspace of task %s: %w", root.ID, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[root.ID]
	if t == nil {
		t = &localTask{engine: w.engine(c), driving: map[string]context.CancelCauseFunc{}}
		if w.tasks[root.ID] = t; w.draining {
			t.engine.Drain()
		}
	}
	t.uses++
	return t, nil
}

// engine returns an engine for a task with the settings of its workspace.
func (w *Worker) engine(c *Controller) *engine.Engine {
	cfg := c.teamConfig()
	cfg.Worker, cfg.WorkerBackoff, cfg.Ready = w.cfg.Name, w.cfg.Backoff, w.check
	return engine.New(cfg)
}

func (w *Worker) releaseTask(root store.Thread, t *localTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.uses--; t.uses == 0 {
		delete(w.tasks, root.ID)
	}
}

// start notes that a thread is driven here. It reports false if the thread must not begin.
func (w *Worker) start(root store.Thread, t *localTask, id string, cancel context.CancelCauseFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining || t.driving[id] != nil {
		return false
	}
	t.driving[id] = cancel
	w.counts.Driving++
	w.counts.Drives++
	if len(t.driving) == 1 {
		t.stop = make(chan struct{})
		go w.publishViews(root, t.stop)
		go w.watchUnwanted(root.ID, t.stop)
	}
	return true
}

func (w *Worker) finish(t *localTask, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(t.driving, id)
	w.counts.Driving--
	if len(t.driving) == 0 {
		close(t.stop)
	}
}

// publishEvery is how often a worker checks whether another one draws a task.
const publishEvery = 2 * time.Second

// publishViews draws the directory of a task and notifies people, until stop is closed, unless another worker does.
func (w *Worker) publishViews(root store.Thread, stop <-chan struct{}) {
	ctx := context.Background()
	c, err := w.cfg.Open(ctx, root)
	if err != nil {
		return // driving the task reports the error
	}
	for {
		lease, err := w.cfg.Store.Acquire(ctx, root.ID)
		if err == nil {
			done := c.publishViews(ctx, root)
			select {
			case <-stop:
				// What follows from the last drive belongs to the directory too, and people hear of it.
				if _, err := w.Reconcile(ctx, root.ID); err != nil {
					w.cfg.Log.Warn("decide what follows", "task", root.ID, "failed", true)
				}
			case <-lease.Lost():
			}
			done()
			lease.Release()
		}
		select {
		case <-stop:
			return
		case <-time.After(publishEvery):
		}
	}
}

// Recheck looks again at a task after an event, if a thread of it is driven here, which may no longer be wanted.
func (w *Worker) Recheck(ctx context.Context, task string) error {
	w.mu.Lock()
	t := w.tasks[task]
	here := t != nil && len(t.driving) > 0
	w.mu.Unlock()
	if !here {
		return nil
	}
	_, err := w.Reconcile(ctx, task)
	return err
}

// watchUnwanted looks repeatedly, until stop is closed, at a task with a thread that is driven here. Another worker may
// have found that a thread is no longer wanted before the thread was driven here; no event follows then.
func (w *Worker) watchUnwanted(task string, stop <-chan struct{}) {
	tick := time.NewTicker(w.cfg.RecheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if err := w.Recheck(context.Background(), task); err != nil {
			w.cfg.Log.Warn("check the threads driven here", "task", task, "failed", true)
		}
	}
}

// Drain lets each thread finish its step, and begins nothing further.
func (w *Worker) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining, w.counts.Draining = true, true
	for _, t := range w.tasks {
		t.engine.Drain()
	}
}

// Halt drains, and stops the agents at work.
func (w *Worker) Halt() {
	w.Drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tasks {
		for _, stop := range t.driving {
			stop(engine.ErrInterrupted)
		}
	}
}

func (w *Worker) count(f func(*Counts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.counts)
}

// Counts returns the worker's counts.
func (w *Worker) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	c.GivenBack = maps.Clone(c.GivenBack)
	return c
}
