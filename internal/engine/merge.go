package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// Merge keeps, beside the decision about a join, what is to become of the files that its
// paths changed. It is kept before a file is touched: after a crash the same is done
// again.
func (e *Engine) Merge(ctx context.Context, id string, from dag.Hash, m *thread.Merge) (*Fork, error) {
	ctx = context.WithoutCancel(ctx)
	c, d, err := e.waiting(ctx, id, from)
	if err != nil {
		return nil, err
	}
	for {
		was, err := decision(c.row)
		if err == nil && was == nil {
			err = fmt.Errorf("join %s in thread %s: it is not decided: %w", d.Join, id, store.ErrConflict)
		}
		if err != nil {
			return nil, err
		}
		was.Merge = m
		row := c.row
		if row.Decision, err = json.Marshal(was); err != nil {
			return nil, err
		}
		row.UpdatedAt = e.now()
		moved, err := e.commit(ctx, c, store.Batch{Threads: []store.ThreadChange{{Row: row, From: c.row.State()}}}, row)
		if err != nil {
			return nil, err
		}
		if moved {
			c.row = row
			f, _, err := e.paths(ctx, c, d)
			return f, err
		}
		if c.row.Head != from {
			e.Forget(id)
			return nil, fmt.Errorf("thread %s has moved on: %w", id, store.ErrConflict)
		}
	}
}

// merged is what a planner is told of the files that its actions changed.
func (e *Engine) merged(ctx context.Context, c *cursor) (string, error) {
	if len(c.last) < 2 || c.last[1].Role != thread.RoleJoin || c.gathered.IsZero() {
		return "", nil
	}
	d, err := e.cfg.Reader.Detail(ctx, c.gathered)
	if err != nil || d.Merge == nil {
		return "", err
	}
	return "What became of files:\n" + d.Merge.String() + "\n\n", nil
}
