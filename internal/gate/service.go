package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
)

// Standing returns what already holds for an action, named by its digest: an
// approval that can be used (granted for the session, from any head of the
// thread), else the newest no from this head, else the gate that is open at it.
// ok is false when there is none and a gate must be opened. An answer to a
// question counts as an approval granted once.
func (s *Service) Standing(ctx context.Context, thread string,
	from, digest dag.Hash) (g store.Gate, ok bool, err error) {
	rows, err := s.list(ctx, store.GateFilter{Thread: thread})
	if err != nil {
		return store.Gate{}, false, fmt.Errorf("look for a gate of thread %s: %w", thread, err)
	}
	g, ok = standing(rows, from, digest)
	return g, ok, nil
}

// Ask returns what already holds for g, see Standing, and opens it when nothing does.
func (s *Service) Ask(ctx context.Context, g store.Gate) (store.Gate, error) {
	standing, ok, err := s.Standing(ctx, g.Thread, g.From, g.Digest)
	if err != nil || ok {
		return standing, err
	}
	return s.Open(ctx, g)
}

// Open opens a gate. Of g are needed kind, source, task, thread, from, and the
// action of an approval or the question of an input; id, state, digest, times and
// grant are filled in. Where the same is asked already, the open gate is returned
// instead. ErrInvalid.
func (s *Service) Open(ctx context.Context, g store.Gate) (store.Gate, error) {
	for {
		now := s.now()
		next, err := opening(g, now)
		if err != nil {
			return store.Gate{}, fmt.Errorf("open gate: %w", err)
		}
		row, err := s.open(ctx, next, now)
		if errors.Is(err, store.ErrConflict) {
			continue // somebody was quicker: look at what there is now
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

// freeID returns the shortest id from a name that no gate has. Where one has it
// that asks the same as g and is not among the known, it was opened just now: a
// conflict.
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

// Answer answers an open gate. A *StateError says who was quicker, or that the
// time has passed; ErrInvalid, that this is no answer to this gate.
func (s *Service) Answer(ctx context.Context, id string, a Answer) (store.Gate, error) {
	g, err := s.change(ctx, id, func(g store.Gate, now int64) (store.Gate, event.Change, error) {
		next, err := withAnswer(g, a, now)
		return next, event.Change(next.State), err
	}, a.Beside)
	if state := (*StateError)(nil); errors.As(err, &state) || errors.Is(err, ErrInvalid) {
		return g, err // it names the gate
	}
	if err != nil {
		return g, fmt.Errorf("answer gate %s: %w", id, err)
	}
	return g, nil
}

// Use records that an approval, or an answer, is about to take effect. g is the
// gate as it was returned to its user. A *StateError says that it was used already,
// or that it is none.
func (s *Service) Use(ctx context.Context, g store.Gate) (store.Gate, error) {
	row, err := s.change(ctx, g.ID, func(row store.Gate, now int64) (store.Gate, event.Change, error) {
		if !sameRequest(row, g) {
			return row, "", invalid("gate %s is for something else", row.ID)
		}
		if !usable(row) {
			return row, "", &StateError{row}
		}
		if row.Kind == store.GateApproval {
			if _, _, err := Carries(row); err != nil {
				return row, "", err
			}
		}
		row.UsedAt = now
		return row, event.GateUsed, nil
	}, store.Batch{})
	if err != nil {
		return row, fmt.Errorf("use gate: %w", err)
	}
	return row, nil
}

// Withdraw ends an open gate because what asked is gone; why becomes its text. A
// gate that is withdrawn already is returned as it is. *StateError.
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

// Gate returns the gate called id, expired if its time has passed.
// store.ErrNotFound.
func (s *Service) Gate(ctx context.Context, id string) (g store.Gate, err error) {
	if s.cfg.ReadOnly {
		if g, err = s.cfg.Store.Gate(ctx, id); err == nil && overdue(g, s.now()) {
			g = withExpiry(g, s.now())
		}
	} else {
		nothing := func(g store.Gate, _ int64) (store.Gate, event.Change, error) { return g, "", nil }
		g, err = s.change(ctx, id, nothing, store.Batch{}) // which expires it
	}
	if err != nil {
		return g, fmt.Errorf("read gate: %w", err)
	}
	return g, nil
}

// Gates returns the gates that f selects, those opened first in front. What is
// overdue is expired first. With f.State GateOpen these are the gates that wait for
// somebody.
func (s *Service) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	rows, err := s.list(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list gates: %w", err)
	}
	return rows, nil
}

// list returns the gates that f selects, after those that are overdue have expired.
func (s *Service) list(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	// What is overdue is open in its row: asked for as expired it must be found.
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

// A decision gets a gate's row as it is, never overdue, and returns the row as it shall
// be and what happened to it, "" for nothing.
type decision func(g store.Gate, now int64) (store.Gate, event.Change, error)

// change moves the gate called id as decide says, which is asked again when somebody
// else moved the row meanwhile. What is beside is kept with the change.
func (s *Service) change(
	ctx context.Context, id string, decide decision, beside store.Batch,
) (store.Gate, error) {
	for {
		now := s.now()
		g, err := s.cfg.Store.Gate(ctx, id)
		if err != nil {
			return store.Gate{}, err
		}
		if overdue(g, now) {
			g, err = s.move(ctx, g, withExpiry(g, now), event.Change(store.GateExpired), now, store.Batch{})
		}
		if err == nil {
			var next store.Gate
			var change event.Change
			if next, change, err = decide(g, now); err != nil || change == "" {
				return g, err
			}
			g, err = s.move(ctx, g, next, change, now, beside)
		}
		if !errors.Is(err, store.ErrConflict) {
			return g, err
		}
	}
}

// move replaces a gate's row, with its event.
func (s *Service) move(
	ctx context.Context, was, g store.Gate, change event.Change, now int64, beside store.Batch,
) (store.Gate, error) {
	beside.Gates = []store.GateChange{{Row: g, From: was.State, UsedAt: was.UsedAt}}
	beside.Events = append([]store.Event{changeEvent(g, change, now)}, beside.Events...)
	if err := s.cfg.Store.Commit(ctx, beside); err != nil {
		return was, err
	}
	return g, nil
}
