package engine

import (
	"context"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An ownership is the set of threads that one call may touch. A thread has one owner at a time.
type ownership struct {
	engine *Engine
	held   map[string]bool
}

// take makes the caller the owner of a thread. It reports false if the thread has another owner.
func (o *ownership) take(id string) bool {
	if o.held[id] {
		return true
	}
	o.engine.mu.Lock()
	defer o.engine.mu.Unlock()
	if o.engine.owned[id] {
		return false
	}
	if o.held == nil {
		o.held = make(map[string]bool)
	}
	o.engine.owned[id], o.held[id] = true, true
	return true
}

// free takes the threads that have not ended, and returns those that are not being driven.
func (o *ownership) free(ctx context.Context, rows []store.Thread) (map[string]bool, error) {
	free := make(map[string]bool, len(rows))
	var ids []string
	for _, row := range rows {
		if !row.Ended() && o.take(row.ID) {
			free[row.ID] = true
			ids = append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return free, nil
	}
	driven, err := o.engine.cfg.Claim.driven(ctx, ids)
	if err != nil {
		return nil, err
	}
	for id := range driven {
		delete(free, id)
	}
	return free, nil
}

// seize takes a thread and all below it. It returns their rows, and which of them are not being driven. A
// thread driven a moment ago may have begun others, so seize looks again until it finds nothing new.
func (o *ownership) seize(ctx context.Context, id string) (rows []store.Thread, free map[string]bool, err error) {
	for seen := -1; ; {
		if rows, err = thread.Subtree(ctx, o.engine.cfg.Store, id); err != nil {
			return nil, nil, err
		}
		if free, err = o.free(ctx, rows); err != nil {
			return nil, nil, err
		}
		n := len(rows) + len(o.held) // neither shrinks
		if n == seen {
			return rows, free, nil
		}
		seen = n
	}
}

// release gives up all of them.
func (o *ownership) release() {
	o.engine.mu.Lock()
	defer o.engine.mu.Unlock()
	for id := range o.held {
		delete(o.engine.owned, id)
	}
	o.held = nil
}
