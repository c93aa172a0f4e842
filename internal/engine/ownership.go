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

// tryLock makes the caller the owner of a thread. It reports false if the thread has another owner.
func (o *ownership) tryLock(id string) bool {
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

// lockIdle locks the threads that have not ended, and returns those that are not being driven.
func (o *ownership) lockIdle(ctx context.Context, rows []store.Thread) (map[string]bool, error) {
	idle := make(map[string]bool, len(rows))
	var ids []string
	for _, row := range rows {
		if !row.Ended() && o.tryLock(row.ID) {
			idle[row.ID] = true
			ids = append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return idle, nil
	}
	driven, err := o.engine.cfg.Claim.driven(ctx, ids)
	if err != nil {
		return nil, err
	}
	for id := range driven {
		delete(idle, id)
	}
	return idle, nil
}

// lockSubtree locks a thread and all below it. It returns their rows, and which of them are not being driven. A
// thread driven a moment ago may have begun others, so lockSubtree looks again until it finds nothing new.
func (o *ownership) lockSubtree(ctx context.Context, id string) (rows []store.Thread, idle map[string]bool, err error) {
	for seen := -1; ; {
		if rows, err = thread.Subtree(ctx, o.engine.cfg.Store, id); err != nil {
			return nil, nil, err
		}
		if idle, err = o.lockIdle(ctx, rows); err != nil {
			return nil, nil, err
		}
		n := len(rows) + len(o.held) // neither shrinks
		if n == seen {
			return rows, idle, nil
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
