package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// End ends an unfinished attempt whose owner died, and keeps its logs.
func (e *Runner) End(ctx context.Context, row *store.Thread, a *store.Attempt) error {
	fail := func(err error) error { return fmt.Errorf("end attempt %s: %w", a.ID, err) }
	// Processes started on another machine are not touched: here their pids belong to other processes.
	here := a.Host == "" || a.Host == e.cfg.Host.Name
	if a.PID != 0 && here && (a.Boot == "" || a.Boot == e.cfg.Host.Boot) {
		if err := proc.Kill(a.PID, a.PIDStart); err != nil {
			return fail(err)
		}
	}
	if a.Tag != "" && here {
		if _, err := proc.Sweep(ctx, a.Tag); err != nil {
			return fail(err)
		}
	}
	err := e.cfg.Desks.Left(*row, a.Instance, a.ID, func(events, stderr io.Reader) error {
		return errors.Join(e.stageLog(ctx, a.ID, events, &a.Transcript), e.stageLog(ctx, a.ID, stderr, &a.Stderr))
	})
	if err != nil {
		return fail(err)
	}
	if a.Usage, err = e.recorded(ctx, *a); err != nil {
		return fail(err)
	}
	a.Status = store.AttemptInterrupted
	if a.EndedAt, err = e.lastSign(ctx, *row, *a); err != nil {
		return fail(err)
	}
	a.Failure = &store.Failure{Kind: store.FailureInterrupted, Message: "Plait ended while the agent was at work"}
	for {
		was := row.State()
		err := e.commitEnd(ctx, row, *a)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return fail(err)
		}
		// Someone recorded a request meanwhile, or ended the attempt.
		now, readErr := e.cfg.Store.Attempt(ctx, a.ID)
		if readErr == nil {
			*row, readErr = e.cfg.Store.Thread(ctx, row.ID)
		}
		switch {
		case readErr != nil:
			return fail(readErr)
		case now.Status != store.AttemptRunning:
			*a = now
			return nil
		case *row.State() == *was:
			return fail(err) // it would conflict again
		}
	}
}

// commitEnd commits an attempt that was interrupted, and that its thread has none in flight.
func (e *Runner) commitEnd(ctx context.Context, row *store.Thread, a store.Attempt) error {
	batch := store.Batch{
		Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}},
		Events: []store.Event{event.OfAttempt(*row, a, e.now(), event.AttemptFailed{
			Interrupted: true, Role: a.Role, Kind: a.Failure.Kind, Message: event.Text(a.Failure.Message),
		})},
		Unpin: []string{a.ID},
	}
	next := *row
	if row.InFlight == a.ID {
		next.InFlight, next.UpdatedAt = "", e.now()
		batch.Threads = []store.ThreadChange{{Row: next, From: row.State()}}
	}
	err := e.cfg.Store.Commit(ctx, batch)
	if err == nil {
		*row = next
	}
	return err
}

// recorded returns the usage of an attempt whose owner died, from its recorded calls. If they cannot be read,
// the attempt still ends, and verify reports them.
func (e *Runner) recorded(ctx context.Context, a store.Attempt) (store.Usage, error) {
	if a.Calls.IsZero() {
		return a.Usage, nil
	}
	calls, err := e.cfg.Record.Nodes().ModelCalls(ctx, a.Calls)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, dag.ErrMalformed) {
		return a.Usage, nil
	}
	var used store.Usage
	for _, c := range calls {
		used = used.Add(c.Usage)
	}
	return used, err
}

// signsAtOnce is how many of the newest events of a thread are read at once. Those of an attempt whose owner died are
// among them, after what people did since.
const signsAtOnce = 64

// lastSign returns when an attempt whose owner died was last heard of: time after that was not the attempt's
// work.
func (e *Runner) lastSign(ctx context.Context, row store.Thread, a store.Attempt) (int64, error) {
	of := store.EventFilter{Task: row.Task, Thread: row.ID, Newest: true, Limit: signsAtOnce}
	for {
		events, err := e.cfg.Store.Events(ctx, 0, of)
		if err != nil || len(events) == 0 {
			return a.StartedAt, err
		}
		for _, ev := range events {
			if ev.Attempt == a.ID {
				return max(a.StartedAt, ev.TS), nil
			}
		}
		of.Before = events[len(events)-1].Pos
	}
}

// stageLog keeps a log as a blob, unless it is empty.
func (e *Runner) stageLog(ctx context.Context, pin string, log io.Reader, into *dag.Hash) error {
	h, n, err := e.cfg.Store.Stage(ctx, pin, log)
	if err == nil && n > 0 {
		*into = h
	}
	return err
}
