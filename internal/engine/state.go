package engine

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A threadState is what the engine remembers of a thread between steps. The goroutine that drives the thread
// owns it, and rebuilds it from the record when the head has moved meanwhile.
type threadState struct {
	attempt.Thread
	account   *account           // as last read by readAccount
	next      *attempt.Prepared  // an attempt whose batch A has been committed
	noSummary bool               // an agent could not summarize the conversation
	spawned   map[string]spawned // by path or role
}

// readAccount reads what a thread may use from now on.
func (e *Engine) readAccount(ctx context.Context, c *threadState) error {
	a, err := e.account(ctx, c.Row)
	if err != nil {
		return err
	}
	c.account = a
	c.Budget = func() attempt.Budget { return a.budget(e.now()) }
	row := c.Row
	c.Purse = func(id string) attempt.Purse { return &reservation{engine: e, row: row, attempt: id} }
	return nil
}

// load returns the state of a thread at from. If the thread is elsewhere by now, load returns only the row. The row of
// the state may be older than the store's, except for its head.
func (e *Engine) load(ctx context.Context, id string, from dag.Hash) (*threadState, store.Thread, error) {
	e.mu.Lock()
	c := e.states[id]
	e.mu.Unlock()
	if c != nil && c.Row.Head == from {
		return c, c.Row, nil
	}
	row, err := e.cfg.Store.Thread(ctx, id)
	if err != nil {
		return nil, store.Thread{}, fmt.Errorf("read thread %s: %w", id, err)
	}
	if row.Head != from {
		return nil, row, nil
	}
	e.mu.Lock()
	if c = e.seeds[id]; c != nil {
		delete(e.seeds, id)
		if c.Row.Head != from {
			c = nil
		}
	}
	e.mu.Unlock()
	if c != nil {
		c.Row = row
	} else {
		t, err := e.attempts.Thread(ctx, row)
		if err != nil {
			return nil, store.Thread{}, fmt.Errorf("read thread %s: %w", id, err)
		}
		c = &threadState{Thread: *t}
	}
	if c.Limits, err = record.Limits(row, c.Def, e.cfg.Limits); err != nil {
		return nil, store.Thread{}, err
	}
	if c.Options, err = record.OptionsOf(row); err != nil {
		return nil, store.Thread{}, err
	}
	e.mu.Lock()
	e.states[id] = c
	e.mu.Unlock()
	return c, row, nil
}

// seedPath keeps the state of a path that was just made: the path starts with what its parent knows, so that
// nothing is read again.
func (e *Engine) seedPath(c *threadState, path store.Thread) {
	if record.Action(path) != "" {
		return // it runs another definition
	}
	n := threadState{Thread: c.Branch(path), noSummary: c.noSummary}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seeds[path.ID] = &n
}

// forget drops what the engine remembers of a thread, so that the next step reads it again.
func (e *Engine) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.states, id)
	delete(e.seeds, id)
}

// awaitsReset reports whether a thread waits for the end of its vendor's limit.
func awaitsReset(row store.Thread) bool {
	return row.Status == store.Running && row.Reason != nil && row.Reason.Kind == store.ReasonLimit
}
