package control

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// leaseRetry is how long a worker waits before it tries again to get a lease.
const leaseRetry = 5 * time.Second

// checkEvery is how often a worker that serves checks whether it can still work; one that cannot checks sooner.
const checkEvery = 30 * time.Second

// Serve has an engine call the worker whenever it is able to work, until ctx ends, and returns once all calls have. In
// between, its drives continue, and others know what keeps it from taking more.
func (w *Worker) Serve(ctx context.Context, e dispatch.Engine, host dispatch.Host) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	failed := make(chan error, 1)
	for ctx.Err() == nil {
		why := w.check(ctx)
		state, end := context.WithCancel(ctx)
		lease, every := store.WorkerLease(host.ID), checkEvery
		if why != nil {
			lease, every = store.UnableLease(host.ID, why.Error()), w.cfg.RetryUnable
		} else {
			calls.Go(func() {
				if err := e.Serve(state, host, w); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
		calls.Go(func() { w.hold(state, lease) })
		err := w.changes(ctx, why, every, failed)
		end()
		if err != nil {
			return err
		}
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// changes returns when the worker is no longer as able as why says, ctx ends, or the engine can never serve.
func (w *Worker) changes(ctx context.Context, why error, every time.Duration, failed <-chan error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
			w.check(ctx)
		case <-w.checked:
		}
		if !sameError(w.Unable(), why) {
			return nil
		}
	}
}

// hold holds a lease that says how the worker is, until ctx ends. If others do not know, they wait for it for a while,
// which costs only time.
func (w *Worker) hold(ctx context.Context, name string) {
	for ctx.Err() == nil {
		if lease, err := w.cfg.Store.Acquire(ctx, name); err == nil {
			select {
			case <-ctx.Done():
			case <-lease.Lost():
			}
			lease.Release()
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(leaseRetry):
		}
	}
}

// A masked error has no secret in its text.
type masked struct {
	error
	text string
}

func (m masked) Error() string { return m.text }
func (m masked) Unwrap() error { return m.error }

// check finds out whether the worker can work now, and returns why not.
func (w *Worker) check(ctx context.Context) error {
	if w.cfg.Ready == nil {
		return nil
	}
	why := w.cfg.Ready(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if why != nil { // everyone reads it
		why = masked{why, w.cfg.Secrets.Text(why.Error())}
	}
	w.mu.Lock()
	changed := !sameError(w.unable, why)
	w.unable = why
	w.mu.Unlock()
	if !changed {
		return why
	}
	select {
	case w.checked <- struct{}{}:
	default: // Serve is about to look
	}
	if w.cfg.Changed != nil {
		w.cfg.Changed(why)
	}
	return why
}

// Unable returns why the worker takes no work now, nil if it does.
func (w *Worker) Unable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unable
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// patience is how long a worker that was not able to drive a thread leaves it to those that have not tried it, which
// may be busy, once it is offered again.
const patience = 15 * time.Minute

// leaves reports whether this worker leaves a thread to others, since it was not able to drive it. If the task needs
// labels, it may be the only one that has them.
func (w *Worker) leaves(ctx context.Context, root, row store.Thread) (bool, error) {
	why := row.Reason
	if why == nil || why.Kind != store.ReasonWorker || len(engine.Untried(*why, []string{w.cfg.Name})) > 0 ||
		w.until(row) < -patience {
		return false, nil
	}
	opts, err := record.OptionsOf(root)
	if err != nil || len(opts.Needs) > 0 {
		return false, err
	}
	live, err := engine.LiveWorkers(ctx, w.cfg.Store)
	return len(engine.Untried(*why, live)) > 0, err
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
	live, err := engine.LiveWorkers(ctx, w.cfg.Store)
	if err != nil {
		return nil, err
	}
	ready := make([]dispatch.Ready, len(ids))
	for i, id := range ids {
		ready[i] = dispatch.Ready{Thread: id, Token: tokens[store.ThreadLease(id)], Rank: a.Driven + i, Needs: opts.Needs,
			Host: preferred(id, a.Hosts[i], a.Avoid[i], live, opts.Needs)}
	}
	return ready, nil
}

// preferred returns the worker that a thread is best driven on: the one that has its files, unless that was not able to
// drive it; then one that has not tried. "" means any. Which workers have labels is not known.
func preferred(id, last string, avoid, live, needs []string) string {
	if slices.Contains(live, last) && !slices.Contains(avoid, last) {
		return last
	}
	others := without(live, avoid)
	if len(avoid) == 0 || len(needs) > 0 || len(others) == 0 {
		return ""
	}
	sum := fnv.New32()
	sum.Write([]byte(id))
	return others[sum.Sum32()%uint32(len(others))]
}

func without(names, avoid []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(avoid, name) })
}

// giveBack records that this worker is not able to drive a thread, unless someone drives it.
func (w *Worker) giveBack(ctx context.Context, id string, why error) (store.Thread, error) {
	lease, err := w.cfg.Store.Acquire(ctx, store.ThreadLease(id))
	var held *store.HeldError
	switch {
	case errors.As(err, &held):
		return w.cfg.All.Thread(ctx, id)
	case err != nil:
		return store.Thread{}, fmt.Errorf("give back thread %s: %w", id, err)
	}
	defer lease.Release()
	t := engine.Trouble{Worker: w.cfg.Name, Text: w.cfg.Secrets.Text(why.Error()), Backoff: w.cfg.Backoff,
		Now: w.cfg.Store.Now()}
	w.count(func(c *Counts) { c.GivenBack[engine.AtWorkspace]++ })
	return t.GiveBack(ctx, w.cfg.All, lease.Fence(), id)
}

// openAgain is how long a worker waits before it tries again to open a workspace that it could not open: events could
// make it look at the task far more often.
const openAgain = time.Second

// notBefore returns when a task whose workspace cannot be opened here is looked at again.
func (w *Worker) notBefore(task string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.later[task]
}

// lookLater notes when a task is looked at again.
func (w *Worker) lookLater(task string) time.Time {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.later, func(_ string, at time.Time) bool { return !at.After(now) })
	w.later[task] = now.Add(openAgain)
	return w.later[task]
}

// unopened returns what may be done for a task whose workspace cannot be opened here: another worker looks at it, or
// the threads that would continue say why they do not.
func (w *Worker) unopened(ctx context.Context, root store.Thread, why error) (dispatch.Agenda, error) {
	soon := dispatch.Agenda{At: w.lookLater(root.ID)}
	if w.check(ctx) != nil {
		return soon, nil
	}
	rows, err := thread.Subtree(ctx, w.cfg.All, root.ID)
	if err != nil {
		return dispatch.Agenda{}, fmt.Errorf("reconcile task %s: %w", root.ID, err)
	}
	out := dispatch.Agenda{At: time.Now().Add(w.cfg.RecheckEvery)}
	for _, row := range thread.Leaves(rows) {
		if goes, err := engine.Continues(ctx, w.cfg.Store, row); err != nil {
			return dispatch.Agenda{}, err
		} else if !goes {
			continue
		}
		if leaves, err := w.leaves(ctx, root, row); err != nil || leaves {
			return soon, err
		}
		if w.until(row) <= 0 {
			w.cfg.Operator.Warn("look at task", "task", root.ID, "error", w.cfg.Secrets.Text(why.Error()))
			if row, err = w.giveBack(ctx, row.ID, why); err != nil {
				return dispatch.Agenda{}, err
			}
		}
		if left := w.until(row); left > 0 {
			out.At = earlier(out.At, time.Now().Add(left))
		}
	}
	return out, nil
}

// until returns how long it is until a thread is offered again that a worker gave back.
func (w *Worker) until(row store.Thread) time.Duration {
	if row.Reason == nil || row.Reason.Kind != store.ReasonWorker {
		return 0
	}
	return time.UnixMilli(row.Reason.ResetAt).Sub(w.cfg.Store.Now())
}

func earlier(a, b time.Time) time.Time {
	return slices.MinFunc([]time.Time{a, b}, time.Time.Compare)
}
