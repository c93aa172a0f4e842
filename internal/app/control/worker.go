package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// WorkerConfig configures a worker.
type WorkerConfig struct {
	Store store.Store
	// Open returns a controller with the settings of the workspace that a task belongs to.
	Open func(ctx context.Context, root store.Thread) (*Controller, error)
	// Tokens returns how often each named lease was taken; may be nil.
	Tokens func(ctx context.Context, names []string) (map[string]int64, error)
	Most   int           // how many agents may work on this machine at once; zero: the person's setting
	Look   time.Duration // longest time between two looks at a task; zero: store.LeaseTTL
	Log    *slog.Logger  // ids, kinds and durations, never texts; nil: none
}

// A Worker drives threads of tasks that others drive too. It is the engine's driver on a team.
//
// Laws: a thread is driven under its own lease; if the lease is lost, its agent is stopped before another
// worker can take the thread. Workers learn from the journal what others have done. One of the workers that
// drive parts of a task holds the task's lease, draws its directory and notifies people; without one, nothing
// is lost.
type Worker struct {
	cfg WorkerConfig

	mu     sync.Mutex
	tasks  map[string]*attended // tasks with threads driven here, by root
	drains bool
	counts Counts
}

// Counts counts what a worker has done since it began.
type Counts struct {
	Driving    int64 // threads, now
	Drives     int64
	Reconciles int64
	Failed     int64 // calls that could not write the record
	Draining   bool  // it begins nothing further
}

// attended is a task with threads driven here.
type attended struct {
	engine *engine.Engine
	going  map[string]context.CancelCauseFunc // by thread
	uses   int                                // by those threads and by calls of Reconcile
	stop   chan struct{}                      // closed when no thread is driven any more
}

// NewWorker returns a worker; it touches nothing.
func NewWorker(cfg WorkerConfig) *Worker {
	if cfg.Look == 0 {
		cfg.Look = store.LeaseTTL
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Worker{cfg: cfg, tasks: map[string]*attended{}}
}

// Reconcile makes the moves of a task that need no agent, stops threads driven here that are no longer wanted,
// and returns what may be driven.
func (w *Worker) Reconcile(ctx context.Context, id string) (dispatch.Agenda, error) {
	root, err := w.cfg.Store.Thread(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (root.Ended() || !Team(root)) {
		return dispatch.Agenda{Ended: true}, nil
	}
	if err != nil {
		return dispatch.Agenda{}, fmt.Errorf("reconcile task %s: %w", id, err)
	}
	t, err := w.use(ctx, root)
	if err != nil {
		return dispatch.Agenda{}, err
	}
	defer w.leave(root, t)
	w.count(func(c *Counts) { c.Reconciles++ })
	a, err := t.engine.Reconcile(ctx, id)
	if err != nil {
		w.count(func(c *Counts) { c.Failed++ })
		return dispatch.Agenda{}, err
	}
	w.unwanted(t, a.Stop)
	if root, err = w.cfg.Store.Thread(ctx, id); err != nil {
		return dispatch.Agenda{}, err
	}
	look := w.cfg.Look // its driver may die
	if a.Look > 0 {
		look = min(look, a.Look)
	}
	out := dispatch.Agenda{Ended: root.Ended(), At: time.Now().Add(look)}
	out.Drive, err = w.ready(ctx, root, a)
	return out, err
}

// ready returns where threads may be driven.
func (w *Worker) ready(ctx context.Context, root store.Thread, a engine.Agenda) ([]dispatch.Ready, error) {
	ids := a.Drive
	opts, err := record.OptionsOf(root)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var tokens map[string]int64
	if w.cfg.Tokens != nil {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = store.ThreadLease(id)
		}
		if tokens, err = w.cfg.Tokens(ctx, names); err != nil {
			return nil, err
		}
	}
	there, err := w.there(ctx, a.Hosts)
	if err != nil {
		return nil, err
	}
	ready := make([]dispatch.Ready, len(ids))
	for i, id := range ids {
		ready[i] = dispatch.Ready{Thread: id, Token: tokens[store.ThreadLease(id)], Needs: opts.Needs}
		if there[a.Hosts[i]] {
			ready[i].Host = a.Hosts[i]
		}
	}
	return ready, nil
}

// presence is the name of the lease that a running worker holds.
func presence(name string) string { return "worker-" + name }

// there returns which of some workers are running, so that no thread waits for one that is not.
func (w *Worker) there(ctx context.Context, names []string) (map[string]bool, error) {
	var leases []string
	for _, name := range names {
		if lease := presence(name); name != "" && !slices.Contains(leases, lease) {
			leases = append(leases, lease)
		}
	}
	if len(leases) == 0 {
		return nil, nil
	}
	owners, err := w.cfg.Store.Holders(ctx, leases)
	if err != nil {
		return nil, fmt.Errorf("look which workers serve: %w", err)
	}
	there := map[string]bool{}
	for _, name := range names {
		_, there[name] = owners[presence(name)]
	}
	return there, nil
}

// presentAgain is how long a worker waits before it asks again for a lease that it could not get.
const presentAgain = 5 * time.Second

// Present lets others know that the named worker is running, until ctx ends. If others do not know, its threads
// do not wait for it, which costs only time.
func (w *Worker) Present(ctx context.Context, name string) {
	for ctx.Err() == nil {
		if lease, err := w.cfg.Store.Acquire(ctx, presence(name)); err == nil {
			select {
			case <-ctx.Done():
			case <-lease.Lost():
			}
			lease.Release()
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(presentAgain):
		}
	}
}

// unwanted stops those threads, of ids, that are driven here.
func (w *Worker) unwanted(t *attended, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if stop := t.going[id]; stop != nil {
			stop(nil) // not an interruption: the engine ends the thread
		}
	}
}

// Drive drives a thread.
func (w *Worker) Drive(ctx context.Context, id string) error {
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
	t, err := w.use(ctx, root)
	if err != nil {
		return err
	}
	defer w.leave(root, t)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !w.goes(root, t, id, cancel) {
		return nil
	}
	defer w.went(t, id)
	began := time.Now()
	row, err = t.engine.Drive(ctx, id)
	w.cfg.Log.Info("drive ended", "task", root.ID, "thread", id, "status", row.Status,
		"ms", time.Since(began).Milliseconds(), "failed", err != nil)
	if errors.Is(err, engine.ErrInterrupted) {
		return nil // another worker continues
	}
	if err != nil {
		w.count(func(c *Counts) { c.Failed++ })
	}
	return err
}

// use returns the engine of a task, shared by all concurrent work on it here. A new engine reads the task's
// usage again.
func (w *Worker) use(ctx context.Context, root store.Thread) (*attended, error) {
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
		t = &attended{engine: c.teamEngine(w.cfg.Most), going: map[string]context.CancelCauseFunc{}}
		if w.tasks[root.ID] = t; w.drains {
			t.engine.Drain()
		}
	}
	t.uses++
	return t, nil
}

func (w *Worker) leave(root store.Thread, t *attended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.uses--; t.uses == 0 {
		delete(w.tasks, root.ID)
	}
}

// goes notes that a thread is driven here. It reports false if the thread must not begin.
func (w *Worker) goes(root store.Thread, t *attended, id string, cancel context.CancelCauseFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drains || t.going[id] != nil {
		return false
	}
	t.going[id] = cancel
	w.counts.Driving++
	w.counts.Drives++
	if len(t.going) == 1 {
		t.stop = make(chan struct{})
		go w.attend(root, t.stop)
		go w.mind(root.ID, t.stop)
	}
	return true
}

func (w *Worker) went(t *attended, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(t.going, id)
	w.counts.Driving--
	if len(t.going) == 0 {
		close(t.stop)
	}
}

// attendEvery is how often a worker checks whether a task is attended.
const attendEvery = 2 * time.Second

// attend draws the directory of a task and notifies people, until stop is closed, unless another worker does.
func (w *Worker) attend(root store.Thread, stop <-chan struct{}) {
	ctx := context.Background()
	c, err := w.cfg.Open(ctx, root)
	if err != nil {
		return // driving the task reports the error
	}
	for {
		lease, err := w.cfg.Store.Acquire(ctx, root.ID)
		if err == nil {
			done := c.attend(ctx, root)
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
		case <-time.After(attendEvery):
		}
	}
}

// Heard looks again at a task after an event, if a thread of it is driven here, which may no longer be wanted.
func (w *Worker) Heard(ctx context.Context, task string) error {
	w.mu.Lock()
	t := w.tasks[task]
	here := t != nil && len(t.going) > 0
	w.mu.Unlock()
	if !here {
		return nil
	}
	_, err := w.Reconcile(ctx, task)
	return err
}

// mind looks repeatedly, until stop is closed, at a task with a thread that is driven here. Another worker may
// have found that a thread is no longer wanted before the thread was driven here; no event follows then.
func (w *Worker) mind(task string, stop <-chan struct{}) {
	tick := time.NewTicker(w.cfg.Look)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if err := w.Heard(context.Background(), task); err != nil {
			w.cfg.Log.Warn("check the threads driven here", "task", task, "failed", true)
		}
	}
}

// Drain lets each thread finish its step, and begins nothing further.
func (w *Worker) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drains, w.counts.Draining = true, true
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
		for _, stop := range t.going {
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
	return w.counts
}
