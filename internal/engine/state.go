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
	account   *account           // nil until something is spent, or may be: see bound
	purse     *purse             // of the attempt under way
	counts    map[string]int64   // of the task, when its usage was last read
	next      *attempt.Prepared  // an attempt whose batch A has been committed
	noSummary bool               // an agent could not summarise the conversation
	spawned   map[string]spawned // by path or role
}

// load returns the state of a thread at from, with what it may use. If the thread is elsewhere by now, load
// returns only the row.
func (e *Engine) load(ctx context.Context, id string, from dag.Hash) (*threadState, store.Thread, error) {
	c, row, err := e.stateAt(ctx, id, from)
	if err == nil && c != nil {
		err = e.bound(ctx, c)
	}
	return c, row, err
}

// bound reads what a thread may use. The first call for a task reads the whole task.
func (e *Engine) bound(ctx context.Context, c *threadState) (err error) {
	if c.Budget != nil {
		return nil
	}
	if c.account == nil {
		if c.account, err = e.account(ctx, c.Row); err != nil {
			return err
		}
	}
	c.Budget = func() attempt.Budget { return c.account.budget(e.now()) }
	c.Purse = func(id string) attempt.Purse {
		if e.cfg.Shared {
			return &sharedPurse{engine: e, account: c.account, row: c.Row, attempt: id}
		}
		c.purse = &purse{account: c.account, now: e.now}
		return c.purse
	}
	return nil
}

// stateAt is load without what the thread may use.
func (e *Engine) stateAt(ctx context.Context, id string, from dag.Hash) (*threadState, store.Thread, error) {
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
	n := threadState{Thread: c.Branch(path), account: c.account, noSummary: c.noSummary}
	n.Budget, n.Purse = nil, nil // the path has its own: see bound
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
