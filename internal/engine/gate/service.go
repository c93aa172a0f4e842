package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Effective returns the gate that already counts for an action, given by its digest: a usable approval (if
// granted for the session, from any head of the thread), otherwise the newest no from this head, otherwise the
// open gate at this head. ok is false if there is none and a gate must be opened. An answer to a question
// counts as an approval granted once.
func (s *Service) Effective(ctx context.Context, thread string,
	from, digest dag.Hash) (g store.Gate, ok bool, err error) {
	rows, err := s.list(ctx, store.GateFilter{Thread: thread})
	if err != nil {
		return store.Gate{}, false, fmt.Errorf("look for a gate of thread %s: %w", thread, err)
	}
	g, ok = effective(s.Counting(ctx, rows), from, digest)
	return g, ok, nil
}

// Ask returns the gate that already counts for g, see Effective, or opens g if there is none.
func (s *Service) Ask(ctx context.Context, g store.Gate) (store.Gate, error) {
	effective, ok, err := s.Effective(ctx, g.Thread, g.From, g.Digest)
	if err != nil || ok {
		return effective, err
	}
	return s.Open(ctx, g)
}

// Open opens a gate. The caller sets kind, source, task, thread, from, and the action of an approval or the
// question of an input; Open sets id, state, digest, times and grant. If the same is already asked, Open
// returns the open gate instead. The error matches ErrInvalid if g makes no sense.
func (s *Service) Open(ctx context.Context, g store.Gate) (store.Gate, error) {
	for {
		now := s.now()
		next, err := opening(g, now)
		if err != nil {
			return store.Gate{}, fmt.Errorf("open gate: %w", err)
		}
		row, err := s.open(ctx, next, now)
		if errors.Is(err, store.ErrConflict) {
			continue // someone else was first: look again
		}
		if err != nil {
			return store.Gate{}, fmt.Errorf("open gate of thread %s: %w", g.Thread, err)
		}
		return row, nil
	}
}

func (s *Service) open(ctx context.Context, g store.Gate, now int64) (store.Gate, error) {
	rows, err := s.list(ctx, store.GateFilter{Thread: g.Thread})
	if err != nil {
		return store.Gate{}, err
	}
	before := 0
	for _, r := range rows {
		if !sameRequest(r, g) {
			continue
		}
		if r.State == store.GateOpen {
			return r, nil
		}
		before++
	}
	if g.ID, err = s.freeID(ctx, g, idHash(g, before), rows); err != nil {
		return store.Gate{}, err
	}
	return g, s.cfg.Store.Commit(ctx, store.Batch{Gates: []store.GateChange{{Row: g}}, Events: []store.Event{
		changeEvent(g, event.GateBlocked, now), gateEvent(g, now, event.TaskUpdated{State: event.InputRequired}),
	}})
}

// freeID returns the shortest id derived from name that no gate has. If one belongs to a gate that asks the same
// as g and is not among known, that gate was opened just now: freeID returns a conflict.
func (s *Service) freeID(ctx context.Context, g store.Gate, name dag.Hash, known []store.Gate) (string, error) {
	digits := name.String()
	for n := minID; n < len(digits); n++ {
		id := "g-" + digits[:n]
		row, err := s.cfg.Store.Gate(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return id, nil
		case err != nil:
			return "", err
		case sameRequest(row, g) &&
			!slices.ContainsFunc(known, func(k store.Gate) bool { return k.ID == id }):
			return "", store.ErrConflict
		}
	}
	return "g-" + digits, nil
}

// Answer answers an open gate. Where it has to be signed, the person is asked for that once, before anything changes.
// The error is a *StateError if someone else was first or the gate timed out, and matches ErrInvalid if the answer does
// not fit the gate, or is not signed.
func (s *Service) Answer(ctx context.Context, id string, a Answer) (g store.Gate, err error) {
	if err = s.sign(ctx, id, &a); err == nil {
		g, err = s.change(ctx, id, func(g store.Gate, now int64) (store.Gate, event.Change, error) {
			next, err := withAnswer(g, a, now)
			if err == nil {
				err = s.checkSigned(ctx, next)
			}
			return next, event.Change(next.State), err
		}, a.Beside)
	}
	if state := (*StateError)(nil); errors.As(err, &state) || errors.Is(err, ErrInvalid) {
		return g, err // it already names the gate
	}
	if err != nil {
		return g, fmt.Errorf("answer gate %s: %w", id, err)
	}
	return g, nil
}

// Use records that an approval, or an answer, is about to take effect. g is the gate as returned to the caller.
// The error is a *StateError if g was used already or cannot be used, and matches store.ErrConflict if its answer does
// not count because it is not signed.
func (s *Service) Use(ctx context.Context, g store.Gate) (store.Gate, error) {
	row, err := s.change(ctx, g.ID, func(row store.Gate, now int64) (store.Gate, event.Change, error) {
		if !sameRequest(row, g) {
			return row, "", invalid("gate %s is for something else", row.ID)
		}
		row, err := used(row, now)
		return row, event.GateUsed, cmp.Or(err, unsigned(s.checkSigned(ctx, row)))
	}, store.Batch{})
	if err != nil {
		return row, fmt.Errorf("use gate: %w", err)
	}
	return row, nil
}

// Hear records that the asker hears a no, once. Any other gate stays as it is.
func (s *Service) Hear(ctx context.Context, id string) error {
	_, err := s.change(ctx, id, func(row store.Gate, now int64) (store.Gate, event.Change, error) {
		if !row.State.Refused() || row.UsedAt != 0 {
			return row, "", nil
		}
		row.UsedAt = now
		return row, event.GateUsed, nil
	}, store.Batch{})
	if err != nil {
		return fmt.Errorf("hear gate: %w", err)
	}
	return nil
}

// Using returns what Use would commit, for a caller that commits it together with what g allows. The commit
// fails with a conflict if g was used meanwhile, as Using does if the answer of g does not count.
func (s *Service) Using(ctx context.Context, g store.Gate) (store.GateChange, store.Event, error) {
	now := s.now()
	row, err := used(g, now)
	if err = cmp.Or(err, unsigned(s.checkSigned(ctx, g))); err != nil {
		return store.GateChange{}, store.Event{}, fmt.Errorf("use gate: %w", err)
	}
	return store.GateChange{Row: row, From: g.State, UsedAt: g.UsedAt}, changeEvent(row, event.GateUsed, now), nil
}

// used returns a gate's row once it has been used. The error is a *StateError if it cannot be used.
func used(g store.Gate, now int64) (store.Gate, error) {
	if !usable(g) {
		return g, &StateError{g}
	}
	if g.Kind == store.GateApproval {
		if _, _, err := Carries(g); err != nil {
			return g, err
		}
	}
	g.UsedAt = now
	return g, nil
}

// Withdraw ends an open gate because its asker is gone; why becomes its text. It returns a gate that is already
// withdrawn unchanged. The error is a *StateError if g has another state.
func (s *Service) Withdraw(ctx context.Context, g store.Gate, why string) (store.Gate, error) {
	row, err := s.change(ctx, g.ID, func(row store.Gate, now int64) (store.Gate, event.Change, error) {
		switch row.State {
		case store.GateWithdrawn:
			return row, "", nil
		case store.GateOpen:
			row.State, row.AnsweredAt, row.Text = store.GateWithdrawn, now, store.Text(why)
			return row, event.Change(store.GateWithdrawn), nil
		}
		return row, "", &StateError{row}
	}, store.Batch{})
	if err != nil {
		return row, fmt.Errorf("withdraw gate: %w", err)
	}
	return row, nil
}

// Gate returns the gate with an id, expired if it has timed out. The error matches store.ErrNotFound if there
// is none.
func (s *Service) Gate(ctx context.Context, id string) (g store.Gate, err error) {
	if s.cfg.ReadOnly {
		if g, err = s.cfg.Store.Gate(ctx, id); err == nil && overdue(g, s.now()) {
			g = withExpiry(g, s.now())
		}
	} else {
		nothing := func(g store.Gate, _ int64) (store.Gate, event.Change, error) { return g, "", nil }
		g, err = s.change(ctx, id, nothing, store.Batch{}) // this expires it
	}
	if err != nil {
		return g, fmt.Errorf("read gate: %w", err)
	}
	return g, nil
}

// Gates returns the gates that f selects, oldest first. It first expires overdue ones. If f.State is GateOpen, it
// returns the gates that wait for someone.
func (s *Service) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	rows, err := s.list(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list gates: %w", err)
	}
	return rows, nil
}

// list returns the gates that f selects, after it has expired the overdue ones.
func (s *Service) list(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	// An overdue gate is open in its row, and must be found among the expired.
	read := f
	if f.State == store.GateExpired {
		read.State = ""
	}
	rows, err := s.cfg.Store.Gates(ctx, read)
	if err != nil {
		return nil, err
	}
	kept := rows[:0]
	for _, g := range rows {
		if overdue(g, s.now()) {
			g, err = s.Gate(ctx, g.ID)
			if errors.Is(err, store.ErrNotFound) {
				continue // its task was removed
			}
			if err != nil {
				return nil, err
			}
		}
		if f.State == "" || g.State == f.State {
			kept = append(kept, g)
		}
	}
	return byAge(kept), nil
}

// A decision receives a gate's current row, which is never overdue, and returns the row's new value and what happened
// to the gate, or "" for nothing.
type decision func(g store.Gate, now int64) (store.Gate, event.Change, error)

// change changes a gate to what decide returns, and calls decide again if someone else changed the row meanwhile.
// beside is committed with the change. If it is what conflicts, the error matches store.ErrConflict.
func (s *Service) change(
	ctx context.Context, id string, decide decision, beside store.Batch,
) (store.Gate, error) {
	var conflict error
	var last store.Gate // at the conflict
	for {
		now := s.now()
		g, err := s.cfg.Store.Gate(ctx, id)
		if err != nil {
			return store.Gate{}, err
		}
		if conflict != nil && g.State == last.State && g.UsedAt == last.UsedAt {
			return g, conflict
		}
		if overdue(g, now) {
			late := withExpiry(g, now)
			g, err = s.move(ctx, g, late, changeEvent(late, event.Change(store.GateExpired), now), store.Batch{})
		}
		if err == nil {
			var next store.Gate
			var change event.Change
			if next, change, err = decide(g, now); err != nil || change == "" {
				return g, err
			}
			g, err = s.move(ctx, g, next, changeEvent(next, change, now), beside)
		}
		if !errors.Is(err, store.ErrConflict) {
			return g, err
		}
		conflict, last = err, g
	}
}

// move replaces a gate's row, with its event.
func (s *Service) move(ctx context.Context, was, g store.Gate, ev store.Event, beside store.Batch) (store.Gate, error) {
	beside.Gates = []store.GateChange{{Row: g, From: was.State, UsedAt: was.UsedAt}}
	beside.Events = append([]store.Event{ev}, beside.Events...)
	if err := s.cfg.Store.Commit(ctx, beside); err != nil {
		return was, err
	}
	return g, nil
}
