package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// planLimit returns why the actions of a plan may not begin, or nil.
func (e *Engine) planLimit(ctx context.Context, c *threadState, d flow.Fork) (*store.Reason, error) {
	if d.Plan == nil {
		return nil, nil
	}
	if _, err := e.recount(ctx, c.Row); err != nil {
		return nil, err
	}
	if why := cmp.Or(c.account.exhausted(e.now()), c.account.tooDeep()); why != nil {
		return why, nil
	}
	over, err := e.attempts.TaskActions(ctx, c.Row.Task, d.Plan, c.Limits.MaxTaskActions)
	if err != nil || over == "" {
		return nil, err
	}
	return &store.Reason{Kind: store.ReasonLimit, Limit: "actions", Message: over,
		Raise: fmt.Sprintf("maxTaskActions=%d", 2*(c.Limits.MaxTaskActions+len(d.Plan.Actions)))}, nil
}
