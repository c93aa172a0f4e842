package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/attempt"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
)

// AllowAgain records that a person allows attempts which were cut off, and may have acted, to be repeated. That holds
// for those of now, once each: for nothing that is cut off later. rows are those of a task; alive reports whether a
// thread is being driven. It returns how many attempts may be repeated.
func (e *Engine) AllowAgain(ctx context.Context, rows []store.Thread, alive func(thread string) bool,
	by string) (allowed int, err error) {
	for _, row := range rows {
		if row.Ended() && !triedAgain(row, rows) {
			continue
		}
		last, err := e.lastAttempt(ctx, row)
		if err != nil {
			return allowed, err
		}
		if last == nil || !cutOff(*last) && (last.Status != store.AttemptRunning || alive(row.ID)) {
			continue
		}
		def, err := e.record.Definition(ctx, row)
		if err != nil {
			return allowed, err
		}
		if attempt.Repeatable(def.Roles[last.Role]) {
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
	return row.Path != nil && row.Status != store.Completed && slices.ContainsFunc(rows, func(parent store.Thread) bool {
		return parent.ID == row.Parent.Thread && !parent.Ended() && parent.Head == row.Parent.From
	})
}

// consent records that a person allows an attempt to be repeated once.
func (e *Engine) consent(ctx context.Context, row store.Thread, last store.Attempt, by string) error {
	g, err := mayRepeat(row, last)
	if err == nil {
		g, err = e.gates.Ask(ctx, g)
	}
	if err == nil && (g.State == store.GateRejected || g.State == store.GateExpired) {
		g, err = e.gates.Open(ctx, g) // a person said no before, and says yes now
	}
	if err == nil && g.State == store.GateOpen {
		yes := gate.Answer{Approve: true, By: by, Via: store.ViaCLI, Text: "resume --again"}
		err = unlessMoved(e.gates.Answer(ctx, g.ID, yes))
	}
	if err != nil {
		return fmt.Errorf("allow attempt %s again: %w", last.ID, err)
	}
	return nil
}

// useConsent uses the consent to repeat an attempt, and reports whether there was one.
func (e *Engine) useConsent(ctx context.Context, last store.Attempt) (bool, error) {
	gates, err := e.gates.Gates(ctx, store.GateFilter{Thread: last.Thread, State: store.GateApproved})
	if err != nil {
		return false, fmt.Errorf("look for consent to repeat attempt %s: %w", last.ID, err)
	}
	for _, g := range gates {
		if g.Source == store.SourceInterrupted && g.Attempt == last.ID && g.UsedAt == 0 {
			_, err := e.gates.Use(ctx, g)
			return err == nil, err
		}
	}
	return false, nil
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
	return a.Status == store.AttemptInterrupted && a.Failure != nil && a.Failure.Message != attempt.NotBegun
}
