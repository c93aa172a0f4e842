package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// maxCorrections is how often invalid output is sent back to the agent.
const maxCorrections = 2

// runRole makes attempts at one step until one becomes the step, or the thread cannot continue without a
// person.
func (e *Engine) runRole(ctx context.Context, c *threadState, d flow.Run) (store.Thread, error) {
	d.Location = c.Where(d.Location)
	var faults, corrections, timeouts int
	role, _ := c.Def.Role(d.Role)
	from, asked, correction := c.Row.Head, false, ""
	for {
		note, err := correction, error(nil)
		if note == "" {
			note, err = e.attempts.AnswersWhileDown(context.WithoutCancel(ctx), &c.Thread, d.Role)
		}
		if err != nil {
			return store.Thread{}, err
		}
		slot, err := e.slots.take(ctx, e.driveSlot, c.Row, role)
		if err != nil {
			return store.Thread{}, err
		}
		p, row, err := e.nextAttempt(ctx, c, d, note)
		if err != nil || p == nil {
			slot.Release()
			return row, err
		}
		out, err := e.attempt(ctx, c, p, slot)
		done := err == nil && out.Failure == nil
		if done {
			asked = asked || out.Asked
			row, err = e.step(ctx, c, out)
		}
		// What the attempt used is in the record now, where the next one reads it.
		slot.Release()
		if done && asked && err == nil && row.Head != from { // the step was made without these answers
			err = e.attempts.Withdraw(context.WithoutCancel(ctx), row, from)
		}
		if done {
			return row, err
		}
		if err != nil {
			return c.Row, err
		}
		asked = asked || out.Asked
		fail, retry := out.Failure, p.Role.Retry.Max
		wait := time.Duration(0)
		switch {
		case e.machineFault(fail):
			return c.Row, errors.New(fail.Message)
		case fail.Kind == agent.Cancelled && ctx.Err() == nil && out.Unattended != nil:
			return e.block(ctx, c, attempt.Unanswered(*out.Unattended))
		case fail.Kind == agent.Cancelled:
			return e.stopped(ctx, c)
		case fail.Kind == agent.Limit:
			return e.overLimit(ctx, c, p.Role, out)
		case fail.Kind == agent.InvalidOutput && !fail.Final && corrections < maxCorrections:
			corrections++
			correction = "Your last answer could not be used: " + fail.Message +
				"\nAnswer again, in full, in the form that is asked for."
			continue
		case fail.Kind == agent.TimedOut && timeouts < min(1, retry):
			timeouts++
		case fail.Kind == agent.Infra && !fail.Final && faults < retry:
			wait = e.cfg.Backoff << faults
			faults++
		default:
			return e.block(ctx, c,
				store.Reason{Kind: store.ReasonAttempts, Message: fmt.Sprintf("%s: %s", d.Role, fail.Error()),
					Failure: store.FailureKind(fail.Kind)})
		}
		e.cfg.Log.Info("attempt again", "thread", c.Row.ID, "after", fail.Kind, "ms", wait.Milliseconds())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return e.stopped(ctx, c)
		}
		if inputs, err := e.openInputs(context.WithoutCancel(ctx), c.Row); err != nil || len(inputs) > 0 {
			return c.Row, err // before it starts, the agent is told what people said meanwhile
		}
	}
}

// overLimit blocks a thread whose agent stopped at a limit: ours, or its vendor's. It waits instead for the end of its
// vendor's, if that is wanted and known.
func (e *Engine) overLimit(ctx context.Context, c *threadState, role flow.Role, out *attempt.Outcome) (store.Thread,
	error) {
	err := e.readOptions(context.WithoutCancel(ctx), c)
	if err == nil {
		err = e.readAccount(context.WithoutCancel(ctx), c)
	}
	if err != nil {
		return c.Row, err
	}
	if why := c.account.exhausted(e.now()); why != nil && (why.Limit == "time" || out.Refused) {
		return e.block(ctx, c, *why)
	}
	why := store.Reason{Kind: store.ReasonLimit, Limit: "agent", Message: out.Failure.Message,
		ResetAt: attempt.Millis(out.Failure.ResetAt)}
	if attempt.WaitsForReset(role, c.Options, out.Failure) {
		return e.waitForReset(ctx, c, why)
	}
	return e.block(ctx, c, why)
}

// waitForReset lets a thread wait until its vendor's limit ends. Its row says until when, so it waits on after a
// restart.
func (e *Engine) waitForReset(ctx context.Context, c *threadState, why store.Reason) (store.Thread, error) {
	now := e.cfg.Now()
	why.ResetAt = max(why.ResetAt, now.Add(time.Second).UnixMilli()) // it may be over already, and come again
	end, form := time.UnixMilli(why.ResetAt).In(now.Location()), "15:04"
	if end.YearDay() != now.YearDay() || end.Year() != now.Year() {
		form = "2006-01-02 15:04"
	}
	why.Message = store.Text(fmt.Sprintf("waiting for the usage limit until %s: %s", end.Format(form), why.Message))
	return e.change(context.WithoutCancel(ctx), c, func(row store.Thread, at int64) (store.Thread, []store.Event) {
		row.Reason, row.InFlight = &why, ""
		return row, []store.Event{event.New(row, at, event.ThreadDelayed{Message: event.Text(why.Message),
			Until: why.ResetAt})}
	})
}

// nextAttempt returns the next attempt, under the current options and with its batch A committed. If there is none
// now, the row has the reason.
func (e *Engine) nextAttempt(ctx context.Context, c *threadState, d flow.Run, note string) (*attempt.Prepared,
	store.Thread, error) {
	// The thread may have waited for its slot.
	if err := e.readOptions(context.WithoutCancel(ctx), c); err != nil {
		return nil, c.Row, err
	}
	if c.next == nil && ctx.Err() == nil {
		needs, err := e.needsSummary(context.WithoutCancel(ctx), c, d.Role)
		if err != nil {
			return nil, c.Row, err
		}
		if needs {
			if row, done, err := e.compactFirst(ctx, c, d.Role); err != nil || done {
				return nil, row, err
			}
		}
	}
	if err := e.readAccount(context.WithoutCancel(ctx), c); err != nil {
		return nil, c.Row, err
	}
	now := e.now()
	if why := cmp.Or(outOfRounds(c, d.Role), c.account.exhausted(now)); why != nil {
		if err := e.dropNext(context.WithoutCancel(ctx), c); err != nil {
			return nil, store.Thread{}, err
		}
		row, err := e.block(ctx, c, *why)
		return nil, row, err
	}
	p := c.next
	c.next = nil
	if p != nil {
		return p.At(now), c.Row, nil
	}
	if ctx.Err() != nil {
		row, err := e.stopped(ctx, c)
		return nil, row, err
	}
	p, err := e.attempts.Prepare(context.WithoutCancel(ctx), &c.Thread, d, note)
	begun := false
	if err == nil {
		p = p.At(now)
		begun, err = e.begin(ctx, c, p)
	}
	switch {
	case errors.Is(err, dag.ErrTooLarge): // what agents say is in the prompt
		row, err := e.block(ctx, c, store.Reason{Kind: store.ReasonAttempts,
			Message: fmt.Sprintf("%s: its prompt is too long: %v", d.Role, err)})
		return nil, row, err
	case !begun:
		return nil, c.Row, err
	}
	return p, c.Row, nil
}

// stopped returns the outcome for a thread whose context was cancelled.
func (e *Engine) stopped(ctx context.Context, c *threadState) (store.Thread, error) {
	if interrupted(ctx) {
		return c.Row, ErrInterrupted
	}
	return c.Row, errUnwanted
}

// outOfRounds returns why the thread may have no further step of a role, or nil. A command that a role goes on until
// belongs to the round that it ends.
func outOfRounds(c *threadState, role string) *store.Reason {
	rounds := c.Rounds()
	if most := c.Limits.MaxRounds; most > 0 && rounds >= most && !flow.IsReserved(role) {
		return &store.Reason{Kind: store.ReasonLimit, Limit: "rounds", Raise: fmt.Sprintf("maxRounds=%d", 2*rounds),
			Message: fmt.Sprintf("%d of %d rounds used", rounds, most)}
	}
	return nil
}

// begin commits batch A. It reports false when the thread has moved or is no longer wanted; the caller then
// returns the row, and is called again.
func (e *Engine) begin(ctx context.Context, c *threadState, p *attempt.Prepared) (bool, error) {
	options := c.Row.Options
	begun, err := e.advance(context.WithoutCancel(ctx), c, func(row store.Thread) (*threadState, store.Batch, error) {
		if row.Intent == store.IntentCancel || !bytes.Equal(row.Options, options) {
			return nil, store.Batch{}, errUnwanted
		}
		batch := store.Batch{Objects: p.Objects, Events: started(row, p.Row.StartedAt)}
		if awaitsReset(row) { // no longer
			row.Reason = nil
		}
		row.Status, row.InFlight, row.UpdatedAt = store.Running, p.Row.ID, p.Row.StartedAt
		if e.cfg.Worker != "" {
			row.Host = e.cfg.Worker
		}
		attempts, events := p.Begun(row)
		batch.Attempts, batch.Events = attempts, append(batch.Events, events...)
		c.account.guardCount(row.Task, &batch)
		if err := e.useConsent(context.WithoutCancel(ctx), c, &batch); err != nil {
			return nil, batch, err
		}
		next := c.with(row)
		next.Attempts, next.Asked = p.Row.N, p.Prompt
		return next, batch, nil
	})
	if !begun {
		if e.outdated(context.WithoutCancel(ctx), c.Row.Task, c.account) { // the batch is not at fault
			e.conflicts.forget(c.Row.ID)
		}
		e.forget(c.Row.ID)
		if errors.Is(err, errUnwanted) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// attempt runs a prepared attempt. slot is nil for one that needs none.
func (e *Engine) attempt(ctx context.Context, c *threadState, p *attempt.Prepared, slot attempt.Slot) (*attempt.Outcome,
	error) {
	log := e.cfg.Log.With("attempt", p.Row.ID, "role", p.Row.Role, "agent", p.Row.Agent)
	log.Info("attempt begun")
	out, err := e.attempts.Run(ctx, &c.Thread, p, attempt.Means{Slot: slot, Left: c.account.left(e.now())})
	row, kind := p.Row, ""
	if err == nil {
		row = out.Row
		if out.Failure != nil {
			kind = out.Failure.Kind
		}
	}
	log.Info("attempt ended", "status", row.Status, "failure", kind, "ms", row.EndedAt-row.StartedAt,
		"tokens", row.Usage.InputTokens+row.Usage.OutputTokens)
	return out, err
}
