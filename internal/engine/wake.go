package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// needsPerson returns why a thread must wait for a person, or nil. Either a question of an interrupted agent is
// still open, or an interrupted attempt may have changed something and no one has approved running it again.
func (e *Engine) needsPerson(ctx context.Context, row store.Thread, last *store.Attempt) (*store.Reason, error) {
	gates, err := e.gates.Gates(ctx, store.GateFilter{Thread: row.ID})
	if err != nil {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	why, asked := openQuestion(row, last, gates)
	if why != nil || asked {
		return why, nil
	}
	if acted, err := e.mayHaveActed(ctx, row, last); err != nil || !acted {
		return nil, err
	}
	return e.askToRepeat(ctx, row, *last)
}

// openQuestion returns why a thread waits for an answer, or nil. asked reports whether a person has dealt with
// what its last attempt waited to do when it was cut off.
func openQuestion(row store.Thread, last *store.Attempt, gates []store.Gate) (why *store.Reason, asked bool) {
	for _, g := range gates {
		asks := g.Source == store.SourceFlow || g.Source == store.SourceWorker || g.Kind == store.GateInput
		if g.From == row.Head && asks && g.State == store.GateOpen {
			why := gateReason(g)
			return &why, false
		}
		if g.From == row.Head && g.Source == store.SourceMerge && g.State == store.GateOpen {
			return mergeReason(g), false
		}
		if g.From != row.Head || g.Source != store.SourceAgent {
			continue
		}
		if g.State == store.GateOpen {
			why := attempt.Unanswered(g)
			return &why, false
		}
		// Nobody knows what the agent did after it heard an answer.
		asked = asked || last != nil && g.Attempt == last.ID && g.State != store.GateWithdrawn && g.UsedAt == 0
	}
	return nil, asked
}

// mayHaveActed reports whether the last attempt of a thread was cut off and may have changed something that stays.
// Changes in the thread's own working tree do not stay: it is put back.
func (e *Engine) mayHaveActed(ctx context.Context, row store.Thread, last *store.Attempt) (bool, error) {
	if last == nil || !cutOff(*last) {
		return false, nil
	}
	def, err := e.record.Definition(ctx, row)
	if err != nil {
		return false, err
	}
	role, _ := def.Role(last.Role)
	if attempt.Repeatable(role) {
		return false, nil
	}
	if role.Retry.Interrupted == nil {
		if back, err := e.restoreTree(ctx, row, def, *last); err != nil || back {
			return false, err
		}
	}
	return true, nil
}

// askToRepeat asks a person whether an interrupted attempt that may have changed something may run again.
func (e *Engine) askToRepeat(ctx context.Context, row store.Thread, last store.Attempt) (*store.Reason, error) {
	if last.Thread != row.ID { // of the path that this one continues: consent may have been given there
		if allowed, err := e.allowed(ctx, row, last); err != nil || allowed {
			return nil, err
		}
	}
	g, err := mayRepeat(row, last)
	if err != nil {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	effective, err := e.gates.Ask(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	switch effective.State {
	case store.GateApproved: // used when the attempt begins
		return nil, nil
	case store.GateOpen:
		return &store.Reason{Kind: store.ReasonGate, Gate: effective.ID, Message: fmt.Sprintf(
			"%q was interrupted and may have changed files; check what it did before it runs again", last.Role)}, nil
	}
	return &store.Reason{Kind: store.ReasonAttempts, Failure: store.FailureInterrupted, Message: fmt.Sprintf(
		"%q was interrupted, and running it again was denied (%s); resume with --again to run it all the same",
		last.Role, effective.ID)}, nil
}

// withdrawAtEnd withdraws the open gates of a thread that has ended, and at the end of a task those of all its threads.
func (e *Engine) withdrawAtEnd(ctx context.Context, row store.Thread) error {
	of := store.GateFilter{Thread: row.ID, State: store.GateOpen}
	if row.ID == row.Root {
		of.Thread, of.Task = "", row.Task
	}
	open, err := e.gates.Gates(ctx, of)
	for _, g := range open {
		err = cmp.Or(err, ignoreConflict(e.gates.Withdraw(ctx, g, "the thread has ended")))
	}
	if err != nil {
		return fmt.Errorf("end thread %s: %w", row.ID, err)
	}
	return nil
}

// restoreTree resets the worktree of a thread to its state before an interrupted attempt. An action starts over in
// a new session, so its worktree is reset to its state before the first attempt at the step. It reports
// false if that is impossible.
func (e *Engine) restoreTree(ctx context.Context, row store.Thread, def *flow.Definition, a store.Attempt) (bool,
	error) {
	first := a.N
	if def.ActionID() != "" {
		tries, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID, From: a.From})
		if err != nil {
			return false, fmt.Errorf("put back the tree of attempt %s: %w", a.ID, err)
		}
		for _, try := range tries {
			first = min(first, try.N)
		}
	}
	return e.cfg.Trees.Restore(ctx, row, first, a.N)
}

// recover ends unfinished attempts at threads whose owner died. The caller owns the threads.
func (e *Engine) recover(ctx context.Context, rows []store.Thread) error {
	for i := range rows {
		if err := e.cfg.Trees.EndSetup(ctx, rows[i]); err != nil {
			return err
		}
		f := store.AttemptFilter{Thread: rows[i].ID, Status: store.AttemptRunning}
		attempts, err := e.cfg.Store.Attempts(ctx, f)
		if err != nil {
			return fmt.Errorf("resume thread %s: %w", rows[i].ID, err)
		}
		for _, a := range attempts {
			// Its driver died, and the lease expired: leases are lost in no other way.
			e.cfg.Log.Warn("lease lost", "thread", rows[i].ID, "attempt", a.ID)
			if err := e.attempts.End(ctx, &rows[i], &a); err != nil {
				return err
			}
			e.forget(rows[i].ID)
		}
	}
	return nil
}
