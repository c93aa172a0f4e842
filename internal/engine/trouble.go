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
	Now     time.Time
}

// GiveBack records that a worker cannot drive a thread whose lease it holds. The thread stays as it is, and is offered
// again after a while, preferably to others. If none was able to for too long, it is blocked. Its attempts do not
// count. It returns the thread's row.
func (t Trouble) GiveBack(ctx context.Context, s Store, under store.Fence, id string) (store.Thread, error) {
	for {
		row, err := s.Thread(ctx, id)
		if err != nil {
			return store.Thread{}, fmt.Errorf("give back thread %s: %w", id, err)
		}
		if row.Status != store.Pending && row.Status != store.Running {
			return row, nil
		}
		running, err := s.Attempts(ctx, store.AttemptFilter{Thread: id, Status: store.AttemptRunning})
		if err != nil {
			return store.Thread{}, fmt.Errorf("give back thread %s: %w", id, err)
		}
		now := t.Now.UnixMilli()
		why, over := t.reason(row.Reason, now)
		next := row
		var events []store.Event
		if over {
			events = append(started(row, now), blockedEvents(row, why, now)...)
			next = blockedRow(row, why)
		} else {
			events = []store.Event{event.New(row, now, event.ThreadDelayed{Worker: t.Worker,
				Message: event.Text(why.Workers[t.Worker]), Until: why.ResetAt})}
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
			return store.Thread{}, fmt.Errorf("give back thread %s: %w", id, err)
		}
	}
}

// reason returns what the thread's row says now, and whether a person has to look at it.
func (t Trouble) reason(was *store.Reason, now int64) (why store.Reason, over bool) {
	b := t.Backoff.withDefaults()
	why = store.Reason{Kind: store.ReasonWorker, Since: now, Workers: map[string]string{}}
	// After a long time without a failure it is another trouble.
	if was != nil && was.Kind == store.ReasonWorker && now-was.ResetAt < max(b.Limit, time.Minute).Milliseconds() {
		why.Failures, why.Since = was.Failures, was.Since
		maps.Copy(why.Workers, was.Workers)
	}
	why.Failures++
	said := store.Text(text.OneLine(t.Text, maxWorkerReason))
	why.Workers[t.Worker] = said
	why.Message = t.Worker + ": " + said
	end := why.Since + b.Limit.Milliseconds()
	if now < end {
		why.ResetAt = min(now+b.after(why.Failures).Milliseconds(), end)
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
	row, readErr := e.cfg.Store.Thread(ctx, id)
	if readErr != nil {
		return row, errors.Join(err, readErr)
	}
	if row.Status == store.Blocked { // its question may have been answered: then it runs again, but not here
		gate, _, gateErr := e.gateOf(ctx, row)
		if gateErr != nil || gate != gateAnswered {
			return row, errors.Join(err, gateErr)
		}
		if resumeErr := e.resume(ctx, row); resumeErr != nil {
			return row, errors.Join(err, resumeErr)
		}
	}
	e.forget(id)
	t := Trouble{Worker: e.cfg.Worker, Text: e.cfg.Host.Secrets.Text(err.Error()), Backoff: e.cfg.WorkerBackoff,
		Now: e.cfg.Now()}
	now, backErr := t.GiveBack(ctx, e.unfenced, lease.Fence(), id)
	if backErr != nil || now.Reason == nil || now.Reason.Kind != store.ReasonWorker {
		return row, errors.Join(err, backErr)
	}
	e.cfg.Log.Warn("thread given back", "thread", id, "failures", now.Reason.Failures, "status", now.Status)
	at := AtAgent
	if _, files := errors.AsType[filesError](err); files {
		at = AtFiles
	}
	return now, &WorkerError{at, err}
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
