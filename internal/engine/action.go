package engine

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
)

// planLimit returns why the actions of a plan may not begin, or nil.
func (e *Engine) planLimit(ctx context.Context, c *threadState, d flow.Fork) (*store.Reason, error) {
	if d.Plan == nil {
		return nil, nil
	}
	if why := c.account.exhausted(e.now()); why != nil {
		return why, nil
	}
	if why := c.account.tooDeep(); why != nil {
		return why, nil
	}
	most := c.Limits.MaxTaskActions
	if most <= 0 {
		return nil, nil
	}
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: c.Row.Task})
	if err != nil {
		return nil, err
	}
	n := len(d.Plan.Actions)
	for _, row := range rows {
		if record.Action(row) != "" && row.Path.N == 1 {
			n++
		}
	}
	if n > most {
		return &store.Reason{Kind: store.ReasonLimit, Limit: "actions",
			Message: fmt.Sprintf("with this plan the task has %d actions, at most %d are allowed", n, most)}, nil
	}
	return nil, nil
}
