package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// A thread that reached a limit of its task asks whether it may have as much again as it used. The
// answer counts when the task is resumed.

// ofLimit reports whether a thread is blocked by a limit that a person can raise. A vendor's limit is not one.
func ofLimit(row store.Thread) bool {
	return row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind == store.ReasonLimit &&
		row.Reason.Limit != "agent"
}

// askLimit opens the gate of a thread that reached a limit, once. One that asked with older numbers is withdrawn.
func (e *Engine) askLimit(ctx context.Context, row store.Thread) error {
	if !ofLimit(row) {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	why := row.Reason
	g, err := approval(store.Gate{
		Source: store.SourceLimit, Task: row.Task, Thread: row.ID, Node: row.Flow, From: row.Head,
		Options:  []string{"approve", "deny"},
		Question: fmt.Sprintf("%s. Continue with %s? It counts once the task is resumed.", why.Message, why.Raise),
	}, gate.Action{Type: gate.Raise}, map[string]any{"limit": why.Limit, "why": why.Message, "raise": why.Raise})
	if err != nil {
		return fmt.Errorf("ask about the limit of thread %s: %w", row.ID, err)
	}
	gates, err := e.limitGates(ctx, row)
	for _, old := range gates {
		if err == nil && old.State == store.GateOpen && old.Digest != g.Digest {
			err = ignoreConflict(e.gates.Withdraw(ctx, old, "it is asked again, with what is used now"))
		}
	}
	if err == nil {
		_, err = e.gates.Ask(ctx, g)
	}
	if err != nil {
		return fmt.Errorf("ask about the limit of thread %s: %w", row.ID, err)
	}
	return nil
}

// limitGates returns the gates that asked about a limit at a thread's head, without answers that do not count.
func (e *Engine) limitGates(ctx context.Context, row store.Thread) ([]store.Gate, error) {
	gates, err := e.gates.Gates(ctx, store.GateFilter{Thread: row.ID})
	return slices.DeleteFunc(e.gates.Counting(ctx, gates), func(g store.Gate) bool {
		return g.Source != store.SourceLimit || g.From != row.Head
	}), err
}

// raiseLimits gives the task the options it is resumed with, and raises the limits that people have let its threads
// exceed, once for each approval. Limits that a person sets withdraw the open gates. by is who resumes it.
func (e *Engine) raiseLimits(ctx context.Context, rows []store.Thread, o record.Options, by string) error {
	var raised flow.Limits
	var approved []store.Gate
	for _, row := range rows {
		if !ofLimit(row) {
			continue
		}
		gates, err := e.limitGates(ctx, row)
		for _, g := range gates {
			switch {
			case err != nil:
			case g.State == store.GateOpen && o.Limits != (flow.Limits{}):
				err = ignoreConflict(e.gates.Withdraw(ctx, g, "the task was resumed with another limit"))
			case g.State == store.GateApproved && g.UsedAt == 0:
				approved = append(approved, g)
				if text := raiseOf(g, row); text != "" {
					var to flow.Limits
					to, err = parse.ParseLimits([]string{text})
					raised = raised.Max(to)
				}
			}
		}
		if err != nil {
			return fmt.Errorf("resume thread %s: %w", row.ID, err)
		}
	}
	return e.setOptions(ctx, rows, o, raised, by, approved...)
}

// raiseOf returns the limit that a gate offered to a thread, as NAME=VALUE. Gates of older records have none: it is
// in the reason.
func raiseOf(g store.Gate, row store.Thread) string {
	var act gate.Action
	var p struct {
		Raise string `json:"raise"`
	}
	json.Unmarshal(g.Action, &act)
	json.Unmarshal(act.Params, &p)
	return cmp.Or(p.Raise, row.Reason.Raise)
}
