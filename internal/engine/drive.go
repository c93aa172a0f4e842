package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// ErrInterrupted as the cause of a cancelled context asks Drive and Step to stop the agent
// and leave the thread as it is, to be resumed.
var ErrInterrupted = attempt.ErrInterrupted

// errUnwanted is the outcome for a thread whose context was cancelled for any other cause. Its agent was
// stopped, and Reconcile ends it.
var errUnwanted = errors.New("no longer wanted")

// interrupted reports whether ctx ended because this process has to stop, rather than
// because the work is not wanted.
func interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrInterrupted)
}

// Drive steps a thread until it has ended, is blocked, or waits for others, and returns its row. It returns a
// thread that someone else drives unchanged. It first ends any unfinished attempt whose owner died. When ctx
// ends, Drive stops the agent and leaves the thread to be driven again; the error is ErrInterrupted if that is
// the cause. Under a lease of its own, a thread whose task has as many agents at work as it may have is let go.
func (e *Engine) Drive(ctx context.Context, id string) (store.Thread, error) {
	bg := context.WithoutCancel(ctx)
	owner := &ownership{engine: e}
	defer owner.release()
	row, err := e.cfg.Store.Thread(bg, id)
	if err != nil {
		return row, fmt.Errorf("drive thread %s: %w", id, err)
	}
	if row.Ended() {
		return row, nil
	}
	e.surveyMu.Lock() // a look releases the thread soon, but until then it seems to have a driver
	mine := owner.tryLock(id)
	e.surveyMu.Unlock()
	if !mine {
		return row, nil
	}
	lease, ok, err := e.cfg.Claim.take(bg, id)
	if !ok || err != nil {
		return row, err
	}
	under, ctx, done := e.withLease(ctx, lease)
	defer done()
	if lease == nil {
		return e.drive(ctx, id)
	}
	under.driveSlot = &driveSlot{engine: under, place: e.place}
	defer under.driveSlot.release()
	e.forget(id)
	if row, err = under.drive(ctx, id); under.ownTrouble(ctx, err) {
		return under.giveBack(bg, id, lease, err)
	}
	return row, err
}

// drive is Drive for a thread that the caller has the right to drive.
func (e *Engine) drive(ctx context.Context, id string) (row store.Thread, err error) {
	bg := context.WithoutCancel(ctx)
	if row, err = e.cfg.Store.Thread(bg, id); err != nil || row.Ended() {
		return row, err
	}
	clean := e.isClean(row)
	if !clean {
		rows := []store.Thread{row}
		if err := e.recover(bg, rows); err != nil {
			return row, err
		}
		row = rows[0]
	}
	if row.Intent == store.IntentCancel || ctx.Err() != nil {
		return row, interruption(ctx)
	}
	if err := e.cfg.Trees.Prepare(ctx, row); err != nil {
		if ctx.Err() != nil {
			return row, interruption(ctx)
		}
		if !e.cfg.Claim.alone() && !worktree.OfTask(err) {
			return row, filesError{err}
		}
		return e.blockAt(bg, id, row.Head, store.Reason{Kind: store.ReasonAttempts, Message: err.Error()})
	}
	if !clean {
		if row, err = e.restart(bg, row); err != nil {
			return row, err
		}
	}
	e.setClean(id, true)
	at := StepResult{Thread: row}
	for {
		row = at.Thread
		switch {
		case row.Ended():
			return row, e.withdrawAtEnd(bg, row)
		case at.Waits || row.Intent == store.IntentCancel:
			return row, nil
		case row.Status == store.Blocked:
			return row, e.askLimit(bg, row)
		case ctx.Err() != nil && row.InFlight == "":
			return row, interruption(ctx)
		case e.draining.Load() && row.InFlight == "":
			return row, ErrInterrupted
		}
		row, moved, err := e.applyPending(ctx, row)
		at = StepResult{Thread: row}
		if err == nil && !moved {
			at, err = e.Step(ctx, id, row.Head)
		}
		if errors.Is(err, errUnwanted) || errors.Is(err, errTaskFull) {
			return row, nil
		}
		if err != nil {
			return row, err
		}
	}
}

// applyPending applies what people said before the next step, or what else a replay has there: then moved is set.
func (e *Engine) applyPending(ctx context.Context, row store.Thread) (now store.Thread, moved bool, err error) {
	if row, err = e.applyInputs(context.WithoutCancel(ctx), row); err != nil {
		return row, false, err
	}
	return e.replayed(ctx, row)
}

// A filesError reports that a thread's working tree cannot be made on this machine.
type filesError struct{ error }

func (e filesError) Unwrap() error { return e.error }

// isClean reports whether no attempt at a thread can be unfinished: the thread has not begun, or this engine
// has looked and the thread has not been blocked since.
func (e *Engine) isClean(row store.Thread) bool {
	if row.Status == store.Pending && (row.Path == nil || row.Path.N < 2) {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.Claim.alone() && e.clean[row.ID] && row.Status == store.Running && row.InFlight == ""
}

// setClean records whether no attempt at a thread is unfinished. A thread that resumes after it was blocked
// must be looked at again.
func (e *Engine) setClean(id string, clean bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clean[id] = clean
}

// interruption returns the error for a thread that was interrupted, nil if it is no longer wanted.
func interruption(ctx context.Context) error {
	if interrupted(ctx) {
		return ErrInterrupted
	}
	return nil
}

// restart lets a thread run again after its owner died or its question was answered. If a person has to answer
// first, it blocks the thread.
func (e *Engine) restart(ctx context.Context, row store.Thread) (store.Thread, error) {
	asks, _, err := gateOf(ctx, e.gates, row)
	if err != nil {
		return row, err
	}
	if row.Status == store.Blocked && asks != gateAnswered {
		return row, nil
	}
	last, err := e.lastAttempt(ctx, row)
	if err != nil {
		return row, err
	}
	stays, err := e.needsPerson(ctx, row, last)
	switch {
	case err != nil:
		return row, err
	case stays != nil && row.Status == store.Blocked && sameReason(row.Reason, stays):
		return row, nil
	case stays != nil:
		return e.blockAt(ctx, row.ID, row.Head, *stays)
	case row.Status == store.Pending, row.Status == store.Running && row.InFlight == "":
		return row, nil
	}
	if err := e.resume(ctx, row); err != nil {
		return row, err
	}
	return e.cfg.Store.Thread(ctx, row.ID)
}

// sameReason reports whether a blocked thread already says why it waits for a person.
func sameReason(has, why *store.Reason) bool {
	return has != nil && has.Kind == why.Kind && has.Gate == why.Gate && has.Message == why.Message &&
		has.Failure == why.Failure
}

// lastAttempt returns the last attempt at a thread's head, or nil. For a path that continues others, it is
// the last attempt of those, unless the path has a worktree of its own: nothing of that attempt is in it.
func (e *Engine) lastAttempt(ctx context.Context, row store.Thread) (*store.Attempt, error) {
	fail := func(err error) (*store.Attempt, error) {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	last, err := e.attemptAt(ctx, row.ID, row.Head)
	if err != nil {
		return fail(err)
	}
	if last != nil || row.Path == nil || row.Path.N < 2 || row.Parent == nil || worktree.Own(row) {
		return last, nil
	}
	rows, err := thread.Subtree(ctx, e.cfg.Store, row.Parent.Thread)
	if err != nil {
		return fail(err)
	}
	for n := row.Path.N - 1; n > 0 && last == nil; n-- { // one that was denied another try made no attempt
		i := slices.IndexFunc(rows, func(old store.Thread) bool { return samePath(old, row) && old.Path.N == n })
		if i < 0 {
			continue
		}
		if last, err = e.attemptAt(ctx, rows[i].ID, row.Head); err != nil {
			return fail(err)
		}
	}
	return last, nil
}

// samePath reports whether two threads are tries of one path.
func samePath(a, b store.Thread) bool {
	return a.Path != nil && b.Path != nil && a.Parent != nil && b.Parent != nil && *a.Parent == *b.Parent &&
		a.Path.ID == b.Path.ID
}

// attemptAt returns the last attempt of a thread at a head, or nil.
func (e *Engine) attemptAt(ctx context.Context, id string, head dag.Hash) (*store.Attempt, error) {
	attempts, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: id, From: head})
	if err != nil || len(attempts) == 0 {
		return nil, err
	}
	return &attempts[len(attempts)-1], nil
}
