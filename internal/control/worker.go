package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/dispatch"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
)

// WorkerConfig is what a worker works with.
type WorkerConfig struct {
	Store store.Store
	// Open returns a controller with the settings of the workspace that a task belongs to.
	Open func(ctx context.Context, root store.Thread) (*Controller, error)
	// Tokens returns how often each of some leases was taken, by name; may be nil.
	Tokens func(ctx context.Context, names []string) (map[string]int64, error)
	Most   int           // agents at work at once on this machine; zero: as a person has set
	Look   time.Duration // when a task is looked at again at the latest; zero: store.LeaseTTL
	Log    *slog.Logger  // ids, kinds and durations, never texts; nil: none
}

// A Worker drives threads of tasks that others drive too: it is what an engine of a team calls.
//
// Laws: a thread is driven under a lease of its own, and what is lost with that is stopped before somebody else
// has it. What one worker brings about, others hear of from the journal. Of a task, one worker that drives any
// of it holds the task's lease, draws its directory and tells people; without it nothing is lost.
type Worker struct {
	cfg WorkerConfig

	mu     sync.Mutex
	tasks  map[string]*attended // of which something is driven here, by root
	drains bool
	counts Counts
}

// Counts are what a worker has done since it began.
type Counts struct {
	Driving    int64 // threads, now
	Drives     int64
	Reconciles int64
	Failed     int64 // calls that could not keep the record
	Draining   bool  // nothing further is begun
}

// attended is a task of which something is driven here.
type attended struct {
	engine *engine.Engine
	going  map[string]context.CancelCauseFunc // by thread
	uses   int                                // by those and by calls of Reconcile
	stop   chan struct{}                      // closed when nothing is driven any more
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

// Reconcile does what follows for a task without an agent, stops what is driven here and no longer wanted, and
// says what may be driven.
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
	look := w.cfg.Look // what is driven may die
	if a.Look > 0 {
		look = min(look, a.Look)
	}
	out := dispatch.Agenda{Ended: root.Ended(), At: time.Now().Add(look)}
	out.Drive, err = w.ready(ctx, root, a)
	return out, err
}

// ready says of threads where they may be driven.
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

// presence is the lease of a worker that serves.
func presence(name string) string { return "worker-" + name }

// there returns which of some workers serve: nothing waits for one that does not.
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

// presentAgain is how long after it was not to be had a worker asks for its lease again.
const presentAgain = 5 * time.Second

// Present lets others know that the worker of a name serves, until ctx ends. Without it nothing is lost but time: its
// threads do not wait for it.
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

// unwanted stops what is driven here of some threads.
func (w *Worker) unwanted(t *attended, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if stop := t.going[id]; stop != nil {
			stop(nil) // no interruption: its engine ends it
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
		return nil // another goes on
	}
	if err != nil {
		w.count(func(c *Counts) { c.Failed++ })
	}
	return err
}

// use returns the engine of a task, one for all that is done of it here at the same time. A new one reads anew
// what the task has used up.
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

// goes notes that a thread is driven here, and reports false when that is not to begin any more.
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

// attendEvery is how often a worker asks whether a task is attended.
const attendEvery = 2 * time.Second

// attend draws the directory of a task and tells people of it, until stop is closed, unless another worker does.
func (w *Worker) attend(root store.Thread, stop <-chan struct{}) {
	ctx := context.Background()
	c, err := w.cfg.Open(ctx, root)
	if err != nil {
		return // the drive says so
	}
	for {
		lease, err := w.cfg.Store.Acquire(ctx, root.ID)
		if err == nil {
			done := c.attend(ctx, root)
			select {
			case <-stop:
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

// Heard looks again at a task of which something has happened, if something of it is driven here: that may not
// be wanted any more.
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

// mind looks again and again at a task of which something is driven here, until stop is closed. That a thread is not
// wanted any more may have been found out by another worker before it was driven here: then there is no news of it.
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
			w.cfg.Log.Warn("look at what is driven here", "task", task, "failed", true)
		}
	}
}

// Drain begins nothing further: each thread is left once its step is made.
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

// Counts returns what the worker has done.
func (w *Worker) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}
