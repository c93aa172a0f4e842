package engine

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// A thread that reached a limit of its task asks whether it may have as much again. The
// answer counts when the task is resumed.

// ofLimit reports whether a thread is blocked by a limit that a person can raise. A vendor's limit is not one.
func ofLimit(row store.Thread) bool {
	return row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind == store.ReasonLimit &&
		row.Reason.Limit != "agent"
}

// askLimit opens the gate of a thread that reached a limit, once.
func (e *Engine) askLimit(ctx context.Context, row store.Thread) error {
	if !ofLimit(row) {
		return nil
	}
	g, err := approval(store.Gate{
		Source: store.SourceLimit, Task: row.Task, Thread: row.ID, Node: row.Flow, From: row.Head,
		Options:  []string{"approve", "deny"},
		Question: row.Reason.Message + ". Allow as much again? It counts once the task is resumed.",
	}, gate.Action{Type: gate.Raise}, map[string]any{"limit": row.Reason.Limit, "why": row.Reason.Message})
	if err == nil {
		_, err = e.gates.Ask(context.WithoutCancel(ctx), g)
	}
	if err != nil {
		return fmt.Errorf("ask about the limit of thread %s: %w", row.ID, err)
	}
	return nil
}

// raise gives the task the options it is resumed with, and doubles the limits that people have let its threads
// exceed, once for each approval. Limits that a person sets withdraw the open gates.
func (e *Engine) raise(ctx context.Context, rows []store.Thread, o record.Options) error {
	own, more := o.Limits, &o.Limits
	var let []store.Gate
	for _, row := range rows {
		if !ofLimit(row) {
			continue
		}
		gates, err := e.gates.Gates(ctx, store.GateFilter{Thread: row.ID})
		if err != nil {
			return fmt.Errorf("resume thread %s: %w", row.ID, err)
		}
		for _, g := range gates {
			if g.Source != store.SourceLimit || g.From != row.Head {
				continue
			}
			switch {
			case g.State == store.GateOpen && own != (flow.Limits{}):
				err = unlessMoved(e.gates.Withdraw(ctx, g, "the task was resumed with another limit"))
			case g.State == store.GateApproved && g.UsedAt == 0:
				var now flow.Limits
				if now, err = e.limitsOf(ctx, row); err == nil {
					double(more, now, row.Reason.Limit)
					let = append(let, g)
				}
			}
			if err != nil {
				return fmt.Errorf("resume thread %s: %w", row.ID, err)
			}
		}
	}
	return e.setOptions(ctx, rows, o, let...)
}

// double sets in more twice the limit with that name, as a thread's reason has it, unless it is set.
func double(more *flow.Limits, now flow.Limits, name string) {
	switch name {
	case "rounds":
		more.MaxRounds = max(more.MaxRounds, 2*now.MaxRounds)
	case "depth":
		more.MaxDepth = max(more.MaxDepth, 2*now.MaxDepth)
	case "tokens":
		more.MaxTokens = max(more.MaxTokens, 2*now.MaxTokens)
	case "micro-dollars":
		more.MaxCostMicroUSD = max(more.MaxCostMicroUSD, 2*now.MaxCostMicroUSD)
	case "attempts":
		more.MaxAttempts = max(more.MaxAttempts, 2*now.MaxAttempts)
	case "time":
		more.Timeout = max(more.Timeout, 2*now.Timeout)
	case "actions":
		more.MaxTaskActions = max(more.MaxTaskActions, 2*now.MaxTaskActions)
	}
}
