package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Backoff says how often workers try a thread again that they were not able to drive.
type Backoff struct {
	First time.Duration // after the first try, then doubled each time; zero: 5 s
	Most  time.Duration // zero: 5 min
	Limit time.Duration // of all tries without a success: then a person has to look at it; zero: 15 min
}

func (b Backoff) withDefaults() Backoff {
	return Backoff{cmp.Or(b.First, 5*time.Second), cmp.Or(b.Most, 5*time.Minute), cmp.Or(b.Limit, 15*time.Minute)}
}

// after returns how long to wait after so many failures.
func (b Backoff) after(failures int) time.Duration {
	wait := b.First
	for n := 1; n < failures && wait < b.Most; n++ {
		wait *= 2
	}
	return min(wait, b.Most)
}

// A WorkerError reports that a worker was not able to drive a thread for a reason of its own, such as a full disk,
// and that the thread's row says so.
type WorkerError struct {
	At  string // what it was about to do: one of the constants
	Err error
}

// What a worker was about to do.
const (
	AtWorkspace = "workspace" // open the task's workspace
	AtFiles     = "files"     // make the thread's working tree
	AtAgent     = "agent"     // make or run its agent
)

func (e *WorkerError) Error() string { return e.Err.Error() }
func (e *WorkerError) Unwrap() error { return e.Err }

// maxWorkerReason limits what is recorded of one worker, in bytes.
const maxWorkerReason = 300

// A Trouble is why a worker cannot drive a thread.
type Trouble struct {
	Worker  string
	Text    string
	Backoff Backoff
	Now     time.Time // by the record's clock, which all workers share
}

// maxFailures is how often a thread is given back before a person has to look at it, although workers serve that have
// not tried it: they may lack its labels, or be busy for hours.
const maxFailures = 30

// LiveWorkers returns the names of the workers that serve, in order.
func LiveWorkers(ctx context.Context, s store.Leases) ([]string, error) {
	held, err := s.Held(ctx, store.WorkerLease(""))
	if err != nil {
		return nil, fmt.Errorf("list serving workers: %w", err)
	}
	var names []string
	for _, lease := range slices.Sorted(maps.Keys(held)) {
		names = append(names, store.WorkerOf(lease))
	}
	return names, nil
}

// Untried returns those of the workers that have not given a thread back, given why it is in trouble.
func Untried(why store.Reason, workers []string) (names []string) {
	for _, name := range workers {
		if _, tried := why.Workers[name]; !tried {
			names = append(names, name)
		}
	}
	return names
}

// GiveBack records that a worker cannot drive a thread whose lease it holds. The thread stays as it is, and is offered
// again after a while, preferably to others; one whose question was answered runs again. If none was able to for too
// long, it is blocked. Its attempts do not count. It returns the thread's row.
func (t Trouble) GiveBack(ctx context.Context, s Store, under store.Fence, id string) (store.Thread, error) {
	fail := func(err error) (store.Thread, error) {
		return store.Thread{}, fmt.Errorf("give back thread %s: %w", id, err)
	}
	live, err := LiveWorkers(ctx, s)
	if err != nil {
		return fail(err)
	}
	for {
		row, err := s.Thread(ctx, id)
		if err != nil {
			return fail(err)
		}
		if goes, err := Continues(ctx, s, row); err != nil || !goes {
			return row, err
		}
		running, err := s.Attempts(ctx, store.AttemptFilter{Thread: id, Status: store.AttemptRunning})
		if err != nil {
			return fail(err)
		}
		now := t.Now.UnixMilli()
		why, over := t.reason(row.Reason, now, live)
		next := row
		var events []store.Event
		if row.Status == store.Blocked {
			events = resumed(row, now)
			next.Status = store.Running
		}
		if over {
			events = append(append(events, started(row, now)...), blockedEvents(row, why, now)...)
			next = blockedRow(row, why)
		} else {
			events = append(events, event.New(row, now, event.ThreadDelayed{Worker: t.Worker,
				Message: event.Text(why.Workers[t.Worker]), Until: why.ResetAt}))
			next.Reason = &why
		}
		if len(running) == 0 {
			next.InFlight = ""
		}
		next.UpdatedAt = now
		err = s.Commit(ctx, store.Batch{Under: []store.Fence{under}, Events: events,
			Threads: []store.ThreadChange{{Row: next, From: row.State()}}})
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, store.ErrConflict) { // otherwise a person has asked something of the thread
			return fail(err)
		}
	}
}

// reason returns what the thread's row says now, and whether a person has to look at it: not while a worker serves
// that has not tried it, and may only be busy.
func (t Trouble) reason(was *store.Reason, now int64, live []string) (why store.Reason, over bool) {
	b := t.Backoff.withDefaults()
	why = store.Reason{Kind: store.ReasonWorker, Since: now, Workers: map[string]string{}}
	if was != nil && was.Kind == store.ReasonWorker { // no step was made since, however long an agent has worked
		why.Failures, why.Since = was.Failures, was.Since
		maps.Copy(why.Workers, was.Workers)
	}
	why.Failures++
	said := store.Text(text.OneLine(t.Text, maxWorkerReason))
	why.Workers[t.Worker] = said
	why.Message = t.Worker + ": " + said
	again, end := now+b.after(why.Failures).Milliseconds(), why.Since+b.Limit.Milliseconds()
	others := len(Untried(why, live)) > 0
	if now < end {
		again = min(again, end)
	}
	if now < end || others && why.Failures < maxFailures {
		why.ResetAt = again
		return why, false
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(why.Workers)) {
		all = append(all, name+": "+why.Workers[name])
	}
	why.Message = event.Brief(fmt.Sprintf("no worker was able to do it for %s: %s",
		time.Duration(now-why.Since)*time.Millisecond, strings.Join(all, "; ")))
	return why, true
}

// waits returns how long a thread waits before workers try it again, or before its vendor's limit ends.
func waits(row store.Thread, now time.Time) time.Duration {
	if !troubled(row) && !awaitsReset(row) {
		return 0
	}
	return max(time.UnixMilli(row.Reason.ResetAt).Sub(now), 0)
}

// giveBack is Trouble.GiveBack for a thread that this engine drives under a lease, after err.
func (e *Engine) giveBack(ctx context.Context, id string, lease store.Lease, err error) (store.Thread, error) {
	e.forget(id)
	t := Trouble{Worker: e.cfg.Worker, Text: e.cfg.Host.Secrets.Text(err.Error()), Backoff: e.cfg.WorkerBackoff,
		Now: e.cfg.Now()}
	row, backErr := t.GiveBack(ctx, e.unfenced, lease.Fence(), id)
	if backErr != nil || row.Reason == nil || row.Reason.Kind != store.ReasonWorker {
		return row, errors.Join(err, backErr)
	}
	e.cfg.Log.Warn("thread given back", "thread", id, "failures", row.Reason.Failures, "status", row.Status)
	if e.cfg.Ready != nil && attempt.NoRoom(e.cfg.Ready(ctx)) { // what fills the disk may be this thread's
		if shedErr := e.cfg.Trees.Shed(row); shedErr != nil {
			err = errors.Join(err, shedErr)
		}
	}
	at := AtAgent
	if _, files := errors.AsType[filesError](err); files {
		at = AtFiles
	}
	return row, &WorkerError{at, err}
}

// ownTrouble reports whether an error of a drive under a lease is a reason to give the thread back: not if it was
// interrupted, or the record could not be kept.
func (e *Engine) ownTrouble(ctx context.Context, err error) bool {
	var held *store.HeldError
	s, ok := e.cfg.Store.(*fenced)
	if err == nil || !ok || s.failed.Load() || ctx.Err() != nil {
		return false
	}
	return !errors.Is(err, ErrInterrupted) && !errors.Is(err, store.ErrFenced) && !errors.As(err, &held)
}

// machineFault reports whether an attempt failed because of this machine, rather than of its agent or its task, and
// another may do better.
func (e *Engine) machineFault(fail *agent.Failure) bool { return !e.cfg.Claim.alone() && fail.Machine }
