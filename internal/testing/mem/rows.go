package mem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Thread returns the thread called id.
func (s *Store) Thread(ctx context.Context, id string) (store.Thread, error) {
	return one(ctx, s, OpThread, id, func(c *contents) map[string]store.Thread { return c.threads }, cloneThread)
}

// Attempt returns the attempt called id.
func (s *Store) Attempt(ctx context.Context, id string) (store.Attempt, error) {
	return one(ctx, s, OpAttempt, id, func(c *contents) map[string]store.Attempt { return c.attempts }, cloneAttempt)
}

// Gate returns the gate called id.
func (s *Store) Gate(ctx context.Context, id string) (store.Gate, error) {
	return one(ctx, s, OpGate, id, func(c *contents) map[string]store.Gate { return c.gates }, cloneGate)
}

// Flow returns the flow called name.
func (s *Store) Flow(ctx context.Context, name string) (store.Flow, error) {
	return one(ctx, s, OpFlow, name, func(c *contents) map[string]store.Flow { return c.flows }, cloneFlow)
}

func one[T any](
	ctx context.Context, s *Store, op Op, id string, table func(*contents) map[string]T, clone func(T) T,
) (row T, err error) {
	err = s.reading(ctx, op, func(c *contents) error {
		kept, ok := table(c)[id]
		if !ok {
			return fmt.Errorf("%s: %w", id, store.ErrNotFound)
		}
		row = clone(kept)
		return nil
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return row, nil
}

// Threads returns the threads that f selects.
func (s *Store) Threads(ctx context.Context, f store.ThreadFilter) (rows []store.Thread, err error) {
	err = s.reading(ctx, OpThreads, func(c *contents) error {
		ids := slices.Sorted(maps.Keys(c.threads))
		if f.Newest {
			slices.Reverse(ids)
		}
		for _, id := range ids {
			t := c.threads[id]
			if f.After != "" && (f.Newest && id >= f.After || !f.Newest && id <= f.After) ||
				len(f.IDs) > 0 && !slices.Contains(f.IDs, id) || !matches(f.Task, t.Task) || !matches(f.Short, t.Short) ||
				!matches(f.Workspace, t.Workspace) || !matches(f.Kind, t.Kind) ||
				!matches(f.Bundle, t.Bundle) || !strings.HasPrefix(id, f.Prefix) ||
				len(f.Statuses) > 0 && !slices.Contains(f.Statuses, t.Status) || t.EndedAt != 0 && t.EndedAt < f.Ended {
				continue
			}
			if f.Limit > 0 && len(rows) == f.Limit {
				break
			}
			rows = append(rows, cloneThread(t))
		}
		return nil
	})
	return rows, err
}

// Attempts returns the attempts that f selects, by thread, then number.
func (s *Store) Attempts(ctx context.Context, f store.AttemptFilter) (rows []store.Attempt, err error) {
	err = s.reading(ctx, OpAttempts, func(c *contents) error {
		for _, a := range c.attempts {
			if matches(f.Task, c.threads[a.Thread].Task) && matches(f.Thread, a.Thread) &&
				(len(f.Threads) == 0 || slices.Contains(f.Threads, a.Thread)) &&
				matches(f.From, a.From) && matches(f.Status, a.Status) {
				rows = append(rows, cloneAttempt(a))
			}
		}
		slices.SortFunc(rows, byNumber)
		return nil
	})
	return rows, err
}

// Gates returns the gates that f selects.
func (s *Store) Gates(ctx context.Context, f store.GateFilter) (rows []store.Gate, err error) {
	err = s.reading(ctx, OpGates, func(c *contents) error {
		for _, id := range slices.Sorted(maps.Keys(c.gates)) {
			g := c.gates[id]
			if matches(f.Task, g.Task) && matches(f.Thread, g.Thread) && matches(f.State, g.State) &&
				strings.HasPrefix(id, f.Prefix) {
				rows = append(rows, cloneGate(g))
			}
		}
		return nil
	})
	return rows, err
}

// Flows returns every flow, by name.
func (s *Store) Flows(ctx context.Context) (rows []store.Flow, err error) {
	err = s.reading(ctx, OpFlows, func(c *contents) error {
		for _, name := range slices.Sorted(maps.Keys(c.flows)) {
			rows = append(rows, cloneFlow(c.flows[name]))
		}
		return nil
	})
	return rows, err
}

// Requests returns the requests that f selects.
func (s *Store) Requests(ctx context.Context, f store.RequestFilter) (rows []store.Request, err error) {
	err = s.reading(ctx, OpRequests, func(c *contents) error {
		for _, id := range slices.Sorted(maps.Keys(c.requests)) {
			w := c.requests[id]
			if matches(f.Task, w.Task) && matches(f.Thread, w.Thread) && (!f.Open || w.TakenAt == 0) {
				rows = append(rows, cloneRequest(w))
			}
		}
		return nil
	})
	return rows, err
}

// Pins returns every pinned hash.
func (s *Store) Pins(ctx context.Context) (hs []dag.Hash, err error) {
	err = s.reading(ctx, OpPins, func(c *contents) error {
		hs = slices.SortedFunc(maps.Keys(c.pinned()), compare)
		return nil
	})
	return hs, err
}

// Events returns the events after a position that f selects.
func (s *Store) Events(ctx context.Context, after int64, f store.EventFilter) (rows []store.Event, err error) {
	err = s.reading(ctx, OpEvents, func(c *contents) error {
		from, _ := slices.BinarySearchFunc(c.events, after+1, byPosition)
		events := c.events[from:]
		for i := range events {
			e := events[i]
			if f.Newest {
				e = events[len(events)-1-i]
			}
			if f.Before > 0 && e.Pos >= f.Before || !matches(f.Task, e.Task) || !matches(f.Thread, e.Thread) ||
				len(f.Types) > 0 && !slices.Contains(f.Types, e.Type) {
				continue
			}
			if f.Limit > 0 && len(rows) == f.Limit {
				break
			}
			rows = append(rows, cloneEvent(e))
		}
		return nil
	})
	return rows, err
}

// Log returns the log over the journal.
func (s *Store) Log(ctx context.Context) (log store.Log, err error) {
	err = s.reading(ctx, OpLog, func(c *contents) error {
		log = c.log
		return nil
	})
	return log, err
}

// SetOrigin gives the log another origin.
func (s *Store) SetOrigin(ctx context.Context, origin string) error {
	return s.changing(ctx, OpOrigin, func(c *contents) error {
		c.log.Origin = origin
		return nil
	})
}

// Entries returns what is kept of the positions beyond after.
func (s *Store) Entries(ctx context.Context, after int64, limit int) (entries []store.LogEntry, err error) {
	err = s.reading(ctx, OpEntries, func(c *contents) error {
		events := c.events
		for pos := after + 1; pos <= c.log.Tree.Size() && (limit == 0 || len(entries) < limit); pos++ {
			i, ok := slices.BinarySearchFunc(events, pos, byPosition)
			events = events[i:]
			entry := store.LogEntry{Pos: pos, Leaf: c.leaves[pos]}
			if ok {
				e := cloneEvent(events[0])
				entry.Event, entry.Secret = &e, c.secrets[e.Task]
			}
			entries = append(entries, entry)
		}
		return nil
	})
	return entries, err
}

func byPosition(e store.Event, pos int64) int { return cmp.Compare(e.Pos, pos) }

// Wait returns when there are events after pos.
func (s *Store) Wait(ctx context.Context, pos int64) (last int64, err error) {
	err = s.do(ctx, OpWait, func() error {
		for {
			s.c.mu.RLock()
			news := s.c.news
			if n := len(s.c.events); n > 0 {
				last = s.c.events[n-1].Pos
			}
			s.c.mu.RUnlock()
			if last != pos {
				return nil
			}
			select {
			case <-news:
			case <-s.stopped:
				return s.why
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return last, err
}

// matches reports whether got is what a filter wants; a zero want matches all.
func matches[T comparable](want, got T) bool {
	var zero T
	return want == zero || want == got
}

func cloneThread(t store.Thread) store.Thread {
	t.Reason, t.Parent = clonePtr(t.Reason), clonePtr(t.Parent)
	t.Path, t.ForkedFrom = clonePtr(t.Path), clonePtr(t.ForkedFrom)
	t.Decision, t.Options = slices.Clone(t.Decision), slices.Clone(t.Options)
	return t
}

func cloneAttempt(a store.Attempt) store.Attempt {
	a.Failure, a.Pins = clonePtr(a.Failure), slices.Clone(a.Pins)
	return a
}

func cloneGate(g store.Gate) store.Gate {
	g.Options, g.Action, g.Edited = slices.Clone(g.Options), slices.Clone(g.Action), slices.Clone(g.Edited)
	return g
}

func cloneFlow(f store.Flow) store.Flow {
	f.History = slices.Clone(f.History)
	return f
}

func cloneEvent(e store.Event) store.Event {
	e.Payload, e.Proof = slices.Clone(e.Payload), slices.Clone(e.Proof)
	return e
}

func cloneRequest(w store.Request) store.Request {
	w.Options = slices.Clone(w.Options)
	return w
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
