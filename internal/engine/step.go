package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A StepResult is where a thread is after a step.
type StepResult struct {
	store.Thread
	Waits bool // for its paths, its child or a time; Reconcile says when it can continue
}

// Step advances the thread by one step from the head from, and returns its position. It returns a thread that
// is elsewhere, has ended or is blocked unchanged. If the row's status is running and its head has moved, call
// Step again. A context cancelled with cause [ErrInterrupted] stops the agent and leaves the thread running;
// that is the error then.
func (e *Engine) Step(ctx context.Context, id string, from dag.Hash) (StepResult, error) {
	// A cancelled context stops agents, but never the recording of what they did.
	c, row, err := e.load(context.WithoutCancel(ctx), id, from)
	if err != nil {
		return StepResult{}, err
	}
	if c == nil || row.Ended() || row.Status == store.Blocked {
		return StepResult{Thread: row}, nil
	}
	if row.Intent == store.IntentCancel {
		return StepResult{Thread: row}, e.dropNext(ctx, c)
	}
	decision := c.Next()
	switch d := decision.(type) {
	case flow.End:
		if c.Row.Kind == store.KindPath { // only an action of a plan ends by itself
			return at(e.fail(ctx, c, store.Reason{Failure: store.FailureSaid, Message: d.Summary}))
		}
		return at(e.end(ctx, c, d, nil))
	case flow.Blocked:
		why := store.Reason{Kind: blockedKind(d.Kind), Message: d.Reason}
		if why.Kind == store.ReasonAttempts {
			why.Failure = store.FailureRoute
		}
		return at(e.block(ctx, c, why))
	case flow.Run:
		row, err := e.runRole(ctx, c, d)
		return StepResult{Thread: row, Waits: awaitsReset(row)}, err
	case flow.AtJoin:
		return at(e.atJoin(ctx, c, d))
	case flow.Gate:
		return at(e.gate(ctx, c, d))
	case flow.Fork:
		return e.fork(ctx, c, d)
	case flow.Call:
		return e.call(ctx, c, d)
	}
	return StepResult{}, fmt.Errorf("thread %s: no way to carry out %T", id, decision)
}

// at returns the result of a step after which the thread does not wait for another.
func at(row store.Thread, err error) (StepResult, error) { return StepResult{Thread: row}, err }

// Cancel ends a thread as cancelled, whatever its position, and returns its row, whose reason stays if it is one for
// that. The caller first cancels what is below it.
func (e *Engine) Cancel(ctx context.Context, id string) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	for {
		row, err := e.cfg.Store.Thread(ctx, id)
		if err != nil {
			return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
		}
		if row.Ended() {
			return row, nil
		}
		c, _, err := e.load(ctx, id, row.Head)
		if err != nil {
			return store.Thread{}, err
		}
		if c == nil {
			continue
		}
		if err := e.dropNext(ctx, c); err != nil {
			return store.Thread{}, err
		}
		cancelled := flow.End{Code: thread.CodeCancelled, Summary: "cancelled"}
		why := row.Reason
		if why == nil || why.Kind != store.ReasonCancelled {
			why = &store.Reason{Kind: store.ReasonCancelled, Message: cancelled.Summary}
		}
		if row, err = e.end(ctx, c, cancelled, why); err != nil || row.Ended() {
			return row, err
		}
	}
}

// dropNext records that an attempt whose batch A is committed will not be run.
func (e *Engine) dropNext(ctx context.Context, c *threadState) error {
	p := c.next
	c.next = nil
	if p == nil {
		return nil
	}
	return e.attempts.Drop(ctx, &c.Thread, p)
}

// blockAt blocks a thread at a head, unless it has moved on.
func (e *Engine) blockAt(ctx context.Context, id string, from dag.Hash, why store.Reason) (store.Thread, error) {
	c, row, err := e.load(context.WithoutCancel(ctx), id, from)
	if err != nil || c == nil {
		return row, err
	}
	return e.block(ctx, c, why)
}

// blockedKind maps flow's kind of a block to a reason of the thread. A route that cannot be taken is a fault of
// the flow, which a person has to fix.
func blockedKind(kind string) store.ReasonKind {
	if kind == flow.BlockedInput {
		return store.ReasonInput
	}
	return store.ReasonAttempts
}

// end commits the thread's last step; why is nil if the flow ends there. A path has no last step: only its row
// records how it ended.
func (e *Engine) end(ctx context.Context, c *threadState, d flow.End, why *store.Reason) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	if c.Row.Kind == store.KindPath {
		return e.endPath(ctx, c, thread.EndStatus(d.Code), why)
	}
	_, err := e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		ch, err := thread.End(row, c.Tip, d.Code, d.Summary, now)
		if err != nil {
			return nil, store.Batch{}, err
		}
		b, summary := store.Batch{Objects: ch.Objects}, d.Summary
		if why != nil {
			b.Events, summary = c.outcome(row, ch.Row.Status, *why, now), why.Message
			ch.Row.Reason = &store.Reason{Kind: why.Kind, Failure: why.Failure, Message: store.Text(summary)}
		}
		ended := event.Done
		switch d.Code {
		case thread.CodeDone:
		case thread.CodeCancelled:
			ended = event.Cancelled
		default:
			ended = event.Failed
		}
		b.Events = append(b.Events, event.Phase(row, len(c.Def.Plans()) > 0, now, ended)...)
		b.Events = append(b.Events, event.New(row, now, event.ThreadEnded{
			Status: ch.Row.Status, Head: ch.Row.Head, Code: &d.Code, Summary: event.Text(summary),
		}))
		if row.Kind == store.KindRoot {
			b.Events = append(b.Events, event.New(row, now, event.TaskEnded{
				State: event.TaskState(ch.Row.Status), Code: d.Code, Summary: event.Text(d.Summary),
			}))
		}
		next, err := e.stateAfter(ctx, c, ch)
		return next, b, err
	})
	return c.Row, err
}

// fail commits that a path or a spawned action has failed: the join decides what that means. The last step of an
// action does not have the message, which may differ between runs; the row and the join's detail do.
func (e *Engine) fail(ctx context.Context, c *threadState, why store.Reason) (store.Thread, error) {
	why.Kind = store.ReasonFailed
	return e.end(ctx, c, flow.End{Code: 1, Summary: thread.EndFailed + string(why.Failure)}, &why)
}

// block commits that the thread cannot continue without a person. If it is out of attempts and a join waits for it,
// it has failed instead.
func (e *Engine) block(ctx context.Context, c *threadState, why store.Reason) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	if why.Kind == store.ReasonAttempts && (c.Row.Kind == store.KindPath || c.Row.Kind == store.KindWorker) {
		why.Failure = cmp.Or(why.Failure, store.FailureInfra)
		return e.fail(ctx, c, why)
	}
	return e.change(ctx, c, func(row store.Thread, now int64) (store.Thread, []store.Event) {
		state := store.Blocked
		if why.Kind == store.ReasonAttempts {
			state = store.Failed
		}
		events := append(started(row, now), c.outcome(row, state, why, now)...)
		events = append(events, event.Phase(row, len(c.Def.Plans()) > 0 && c.Def.ActionID() == "", now,
			event.Blocked)...)
		return blockedRow(row, why), append(events, blockedEvents(row, why, now)...)
	})
}

func blockedRow(row store.Thread, why store.Reason) store.Thread {
	why.Message = store.Text(why.Message) // it may quote what an agent wrote
	row.Status, row.Reason, row.InFlight = store.Blocked, &why, ""
	return row
}
