package view

import (
	"context"
	"encoding/json"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// An Allowance is how much of one of its limits a task has used. Max 0 means no limit.
type Allowance struct {
	Used int64 `json:"used"`
	Max  int64 `json:"max"`
}

// Allowances are the limits of a task and how much of each is used: tokens, millionths of a
// dollar, and agent time in ms.
type Allowances struct {
	Tokens Allowance `json:"tokens"`
	Cost   Allowance `json:"cost"`
	Time   Allowance `json:"time"`
}

// Allowances reads how much the task whose root thread is root has used of its limits.
func (b *Reader) Allowances(ctx context.Context, root store.Thread, now time.Time) (Allowances, error) {
	bundle, err := b.Nodes.Bundle(ctx, root.Bundle)
	if err != nil {
		return Allowances{}, err
	}
	var set struct {
		Limits flow.Limits `json:"limits"`
	}
	json.Unmarshal(root.Options, &set) // unreadable options already block the task; here they set no limit
	limits := set.Limits
	if def, err := definition(*bundle, root.Flow); err == nil {
		limits = def.Limits.With(set.Limits)
	}
	attempts, err := b.Store.Attempts(ctx, store.AttemptFilter{Task: root.ID})
	if err != nil {
		return Allowances{}, err
	}
	return newAllowances(limits, attempts, now.UnixMilli()), nil
}

func newAllowances(limits flow.Limits, attempts []store.Attempt, now int64) Allowances {
	a := Allowances{Tokens: Allowance{Max: limits.MaxTokens}, Cost: Allowance{Max: limits.MaxCostMicroUSD},
		Time: Allowance{Max: time.Duration(limits.Timeout).Milliseconds()}}
	var busy []Stretch
	for _, t := range attempts {
		a.Tokens.Used += t.Usage.Tokens()
		a.Cost.Used += t.Usage.CostMicroUSD
		end := t.EndedAt
		if t.Status == store.AttemptRunning {
			end = now
		}
		busy = append(busy, Stretch{t.StartedAt, end - t.Waited})
	}
	a.Time.Used = length(union(busy, 0, max(now, 1)))
	return a
}
