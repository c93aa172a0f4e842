package mem

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/record/store"
)

// Task returns what a driver needs to know about a task.
func (s *Store) Task(ctx context.Context, id string) (rows store.TaskRows, err error) {
	err = s.reading(ctx, OpTask, func(c *contents) error {
		rows.Position, rows.Counts = c.log.Tree.Size(), maps.Clone(c.counts[id])
		if id == "" {
			return nil
		}
		for _, thread := range slices.Sorted(maps.Keys(c.threads)) {
			if t := c.threads[thread]; t.Task == id {
				rows.Threads = append(rows.Threads, cloneThread(t))
			}
		}
		for _, a := range c.attempts {
			if a.Status == store.AttemptRunning && c.threads[a.Thread].Task == id {
				rows.Running = append(rows.Running, cloneAttempt(a))
			}
		}
		slices.SortFunc(rows.Running, byNumber)
		for _, gate := range slices.Sorted(maps.Keys(c.gates)) {
			if g := c.gates[gate]; g.Task == id && g.State == store.GateOpen {
				rows.Gates = append(rows.Gates, cloneGate(g))
			}
		}
		for _, request := range slices.Sorted(maps.Keys(c.requests)) {
			if w := c.requests[request]; w.Task == id && w.TakenAt == 0 {
				rows.Requests = append(rows.Requests, cloneRequest(w))
			}
		}
		return nil
	})
	if err != nil {
		return store.TaskRows{}, err
	}
	return rows, nil
}

func byNumber(a, b store.Attempt) int {
	return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.N, b.N), cmp.Compare(a.ID, b.ID))
}

// Used returns what each attempt of a task used up, by start time.
func (s *Store) Used(ctx context.Context, task string) (used []store.Use, err error) {
	err = s.reading(ctx, OpUsed, func(c *contents) error {
		var rows []store.Attempt
		for _, a := range c.attempts {
			if task != "" && c.threads[a.Thread].Task == task {
				rows = append(rows, a)
			}
		}
		slices.SortFunc(rows, func(a, b store.Attempt) int {
			return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), byNumber(a, b))
		})
		for _, a := range rows {
			used = append(used, a.Use())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return used, nil
}

// Roots yields every hash that a row names.
func (s *Store) Roots(ctx context.Context) iter.Seq2[store.Root, error] {
	return func(yield func(store.Root, error) bool) {
		var all []store.Root
		err := s.reading(ctx, OpRoots, func(c *contents) error {
			for _, t := range c.threads {
				all = append(all, t.Roots()...)
			}
			for _, a := range c.attempts {
				all = append(all, a.Roots()...)
			}
			for _, g := range c.gates {
				all = append(all, g.Roots()...)
			}
			for _, f := range c.flows {
				all = append(all, f.Roots()...)
			}
			return nil
		})
		if err != nil {
			yield(store.Root{}, err)
			return
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}
