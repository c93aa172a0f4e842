package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// step commits batch B: the attempt becomes the step. If the next decision is clear, it includes the next
// attempt's batch A.
func (e *Engine) step(ctx context.Context, c *threadState, out *attempt.Outcome) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	from := c.Row.Head
	moved, err := e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		at, batch, err := e.addInputs(ctx, c.with(row), out.Heard, out.Draft.At)
		if err != nil {
			return nil, batch, err
		}
		if !out.Summary {
			if out.Draft.Detail.Approvals, err = e.approvals(ctx, row); err != nil {
				return nil, batch, err
			}
		}
		next, ch, err := e.appended(ctx, at, out.Draft)
		if err != nil {
			return nil, store.Batch{}, err
		}
		if !out.Summary { // compacting changes nothing else of a thread
			next.Row.Status, next.Row.InFlight = store.Running, ""
		}
		next.Count(out.Row, ch.Row.Head)
		batch.Objects = slices.Concat(batch.Objects, ch.Objects, out.Objects)
		batch.Attempts = []store.AttemptChange{{Row: out.Row, From: store.AttemptRunning}}
		batch.Events = append(batch.Events, out.Events(row, ch)...)
		batch.Unpin = out.Unpin
		if out.Summary {
			return next, batch, nil
		}
		e.attempts.NoteSession(&next.Thread, out, ch.Row.Head)
		if !e.completeAtJoin(next, &batch) {
			e.addNext(ctx, next, &batch)
		}
		return next, batch, nil
	})
	if err == nil && !moved && (c.Row.Head != from || out.Summary) {
		return e.superseded(ctx, c, out)
	}
	return c.Row, err
}

// addInputs returns the state of a thread after the inputs that an agent heard while it worked, which come
// before its step, and the part of the batch that records them.
func (e *Engine) addInputs(ctx context.Context, c *threadState, inputs []store.Request, now int64) (*threadState,
	store.Batch, error) {
	var batch store.Batch
	for _, w := range inputs {
		next, ch, err := e.appended(ctx, c, inputDraft(w, now))
		if err != nil {
			return nil, batch, err
		}
		c = next
		batch.Objects = append(batch.Objects, ch.Objects...)
		e.take(&batch, c.Row, w)
	}
	return c, batch, nil
}

// addNext adds batch A of the next attempt to the batch that commits this one, if that attempt may be repeated:
// after a crash between the batch and its start, no one can tell whether it began. It ignores errors, since the
// next step will meet them again.
func (e *Engine) addNext(ctx context.Context, next *threadState, batch *store.Batch) {
	if e.draining.Load() || e.cfg.Player != nil { // a replay may do something else first
		return
	}
	if next.Row.Intent != "" || next.account.limited(limitsAny) {
		return // what is left is read first
	}
	d, ok := next.Next().(flow.Run)
	if !ok || outOfRounds(next, d.Role) != nil {
		return
	}
	if role, _ := next.Def.Role(d.Role); !attempt.Repeatable(role) {
		return
	}
	if needs, err := e.needsSummary(ctx, next, d.Role); err != nil || needs {
		return
	}
	p, err := e.attempts.Prepare(ctx, &next.Thread, d, "")
	if err != nil {
		return
	}
	next.Row.InFlight = p.Row.ID
	next.Attempts, next.Asked = p.Row.N, p.Prompt
	next.next = p
	attempts, events := p.Begun(next.Row)
	batch.Objects = append(batch.Objects, p.Objects...)
	batch.Attempts = append(batch.Attempts, attempts...)
	batch.Events = append(batch.Events, events...)
}

// superseded records that someone else made the step first.
func (e *Engine) superseded(ctx context.Context, c *threadState, out *attempt.Outcome) (store.Thread, error) {
	lost := out.Row
	lost.Status = store.AttemptSuperseded
	err := e.cfg.Store.Commit(ctx, store.Batch{
		Objects: out.Objects, Attempts: []store.AttemptChange{{Row: lost, From: store.AttemptRunning}},
		Events: []store.Event{event.OfAttempt(c.Row, lost, lost.EndedAt,
			event.AttemptSuperseded{Role: lost.Role, Usage: lost.Usage})},
		Unpin: out.Unpin,
	})
	e.forget(c.Row.ID)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return store.Thread{}, fmt.Errorf("record attempt %s as superseded: %w", lost.ID, err)
	}
	if out.Summary {
		return c.Row, fmt.Errorf("thread %s has moved on: %w", c.Row.ID, store.ErrConflict)
	}
	return c.Row, nil
}

// append commits a step that no agent made, with its event, and ends a path that the step takes to its join.
func (e *Engine) append(ctx context.Context, c *threadState, draft thread.Draft,
	eventOf func(thread.Change) store.Event) (store.Thread, error) {
	_, err := e.advance(ctx, c, func(row store.Thread) (_ *threadState, batch store.Batch, err error) {
		if draft.Detail.Approvals, err = e.approvals(ctx, row); err != nil {
			return nil, batch, err
		}
		next, ch, err := e.appended(ctx, c, draft)
		if err != nil {
			return nil, store.Batch{}, err
		}
		next.Row.Status, next.Row.Reason, next.Row.InFlight = store.Running, nil, ""
		batch = store.Batch{Objects: ch.Objects, Events: []store.Event{eventOf(ch)}}
		e.completeAtJoin(next, &batch)
		return next, batch, nil
	})
	return c.Row, err
}
