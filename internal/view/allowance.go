package view

import (
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

// Allowances returns how much the task has used of its limits.
func (r TaskRecord) Allowances(now time.Time) Allowances {
	var set struct {
		Limits flow.Limits `json:"limits"`
	}
	json.Unmarshal(r.Root.Options, &set) // unreadable options already block the task; here they set no limit
	limits := set.Limits
	if def, err := definition(*r.bundle, r.Root.Flow); err == nil {
		limits = def.Limits.With(set.Limits)
	}
	a := Allowances{Tokens: Allowance{Max: limits.MaxTokens}, Cost: Allowance{Max: limits.MaxCostMicroUSD},
		Time: Allowance{Max: time.Duration(limits.Timeout).Milliseconds()}}
	var busy []Stretch
	for _, t := range r.Attempts {
		a.Tokens.Used += t.Usage.Tokens()
		a.Cost.Used += t.Usage.CostMicroUSD
		end := t.EndedAt
		if t.Status == store.AttemptRunning {
			end = now.UnixMilli()
		}
		busy = append(busy, Stretch{t.StartedAt, end - t.Waited})
	}
	a.Time.Used = length(union(busy, 0, max(now.UnixMilli(), 1)))
	return a
}
