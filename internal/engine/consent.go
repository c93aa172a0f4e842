package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// AllowAgain records that a person allows attempts which were cut off, and may have acted, to be repeated. That holds
// for those of now, once each: for nothing that is cut off later. rows are those of a task; alive reports whether the
// driver of a thread with an attempt at work may still live. It returns for how many attempts consent was recorded.
func (e *Engine) AllowAgain(ctx context.Context, rows []store.Thread, alive func(thread string) (bool, error),
	by string) (allowed int, err error) {
	for _, row := range rows {
		if row.Ended() && !triedAgain(row, rows) {
			continue
		}
		last, err := e.lastAttempt(ctx, row)
		if err != nil {
			return allowed, err
		}
		if last == nil || !cutOff(*last) && last.Status != store.AttemptRunning {
			continue
		}
		if last.Status == store.AttemptRunning { // it was when its row was read: one that begins now is another
			if lives, err := alive(row.ID); err != nil || lives {
				if err != nil {
					return allowed, err
				}
				continue
			}
		}
		def, err := e.record.Definition(ctx, row)
		if err != nil {
			return allowed, err
		}
		if role, _ := def.Role(last.Role); attempt.Repeatable(role) {
			continue
		}
		if err := e.consent(ctx, row, *last, by); err != nil {
			return allowed, err
		}
		allowed++
	}
	return allowed, nil
}

// triedAgain reports whether a thread that has ended is a path that resuming its task continues in another thread.
func triedAgain(row store.Thread, rows []store.Thread) bool {
	if row.Path == nil || row.Status == store.Completed {
		return false
	}
	waits, continued := false, false
	for _, other := range rows {
		waits = waits || other.ID == row.Parent.Thread && !other.Ended() && other.Head == row.Parent.From
		continued = continued || samePath(other, row) && other.Path.N > row.Path.N
	}
	return waits && !continued
}

// consent records that a person allows an attempt to be repeated once.
func (e *Engine) consent(ctx context.Context, row store.Thread, last store.Attempt, by string) error {
	g, err := mayRepeat(row, last)
	if err == nil {
		g, err = e.gates.Ask(ctx, g)
	}
	if err == nil && g.State.Refused() {
		g, err = e.gates.Open(ctx, g) // a person said no before, and says yes now
	}
	if err == nil && g.State == store.GateOpen {
		yes := gate.Answer{Approve: true, By: by, Via: store.ViaCLI, Text: "resume --again"}
		err = ignoreConflict(e.gates.Answer(ctx, g.ID, yes))
	}
	if err != nil {
		return fmt.Errorf("allow attempt %s again: %w", last.ID, err)
	}
	return nil
}

// gatesOf returns the gates of a thread, and of the threads that tried its path before.
func (e *Engine) gatesOf(ctx context.Context, row store.Thread) ([]store.Gate, error) {
	gates, err := e.cfg.Store.Gates(ctx, store.GateFilter{Thread: row.ID})
	if err != nil || row.Path == nil || row.Path.N < 2 || row.Parent == nil {
		return gates, err
	}
	rows, err := thread.Subtree(ctx, e.cfg.Store, row.Parent.Thread)
	for _, old := range rows {
		if err == nil && samePath(old, row) && old.Path.N < row.Path.N {
			var more []store.Gate
			more, err = e.cfg.Store.Gates(ctx, store.GateFilter{Thread: old.ID})
			gates = append(gates, more...)
		}
	}
	return gates, err
}

// isConsent reports whether a gate allows that an attempt at a head is repeated, and that has not happened yet.
func isConsent(g store.Gate, head dag.Hash) bool {
	return g.Source == store.SourceInterrupted && g.State == store.GateApproved && g.UsedAt == 0 && g.From == head
}

// allowed reports whether a person has allowed a repeat of an attempt, of the thread or of the path that it continues.
func (e *Engine) allowed(ctx context.Context, row store.Thread, last store.Attempt) (bool, error) {
	gates, err := e.gatesOf(ctx, row)
	if err != nil {
		return false, fmt.Errorf("look for consent to repeat attempt %s: %w", last.ID, err)
	}
	return slices.ContainsFunc(gates, func(g store.Gate) bool {
		return isConsent(g, row.Head) && g.Attempt == last.ID
	}), nil
}

// useConsent adds to the batch that begins an attempt at a thread's head that consent to repeat one there is used up.
func (e *Engine) useConsent(ctx context.Context, c *threadState, batch *store.Batch) error {
	if len(c.Tries) == 0 && (c.Row.Path == nil || c.Row.Path.N < 2) {
		return nil // there is none to repeat
	}
	gates, err := e.gatesOf(ctx, c.Row)
	if err != nil {
		return fmt.Errorf("look for consent at thread %s: %w", c.Row.ID, err)
	}
	for _, g := range gates {
		if !isConsent(g, c.Row.Head) {
			continue
		}
		change, ev, err := e.gates.Using(ctx, g)
		if err != nil {
			return err
		}
		batch.Gates, batch.Events = append(batch.Gates, change), append(batch.Events, ev)
	}
	return nil
}

// mayRepeat returns the question whether an attempt that was cut off, and may have acted, may be repeated.
func mayRepeat(row store.Thread, last store.Attempt) (store.Gate, error) {
	return approval(store.Gate{
		Source: store.SourceInterrupted, Task: row.Task, Thread: row.ID, Node: last.Role, Instance: last.Instance,
		Attempt: last.ID, From: row.Head, Options: []string{"approve", "deny"},
		Question: fmt.Sprintf("%q was interrupted and may have changed files. Run it again?", last.Role),
	}, gate.Action{Type: gate.Attempt}, map[string]any{"attempt": last.ID, "role": last.Role})
}

// cutOff reports whether an attempt was interrupted while its agent worked.
func cutOff(a store.Attempt) bool {
	return a.Status == store.AttemptInterrupted && a.Failure != nil && !attempt.NotBegun(*a.Failure)
}
