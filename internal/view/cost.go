package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// By what costs can be added up.
const (
	CostByDay    = "day" // on which an attempt began, in the time zone of the program
	CostByFlow   = "flow"
	CostByAgent  = "agent"
	CostByModel  = "model"
	CostByPerson = "person" // who asked for the task
)

// CostKeys returns everything by which costs can be added up.
func CostKeys() []string {
	return []string{CostByDay, CostByFlow, CostByAgent, CostByModel, CostByPerson}
}

// Costs is what tasks have used.
type Costs struct {
	By    string `json:"by"`   // one of CostKeys
	Rows  []Cost `json:"rows"` // by day: the newest first; else the most expensive
	Total Cost   `json:"total"`
}

// A Cost is what attempts have used together.
type Cost struct {
	Name     string `json:"name"`  // "" if it is not known, and of the total
	Tasks    int    `json:"tasks"` // that have such attempts
	Attempts int    `json:"attempts"`
	Usage    Usage  `json:"usage"`
	// UnpricedTokens is how many of the tokens have no price: what they cost is not part of the usage.
	UnpricedTokens int64 `json:"unpricedTokens"`
}

func (c *Cost) add(a store.Attempt) {
	c.Attempts++
	c.Usage = Usage(store.Usage(c.Usage).Add(a.Usage))
	if a.Usage.CostMicroUSD == 0 {
		c.UnpricedTokens += a.Usage.Tokens()
	}
}

// Costs adds up what the attempts of tasks have used, of those that f selects by workspace, flow and title; only attempts
// that began at f.Since or later count. What a task used in another record, from which it was imported, is not counted
// as long as nobody has taken it over here.
func (b *Reader) Costs(ctx context.Context, f TaskFilter, by string) (Costs, error) {
	rows, err := b.Store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot, Ended: f.Since})
	if err != nil {
		return Costs{}, err
	}
	sums := map[string]*Cost{}
	out := Costs{By: by, Rows: []Cost{}}
	for _, row := range rows {
		if !f.All && !b.here(row) || f.Flow != "" && row.Flow != f.Flow {
			continue
		}
		if opts, err := record.OptionsOf(row); err != nil || opts.Imported != "" {
			if err != nil {
				return Costs{}, err
			}
			continue
		}
		if err := b.addCosts(ctx, row, f.Since, &out, sums); err != nil && !errors.Is(err, store.ErrNotFound) {
			return Costs{}, fmt.Errorf("add up what task %s used: %w", row.ID, err)
		}
	}
	for _, sum := range sums {
		out.Rows = append(out.Rows, *sum)
	}
	slices.SortFunc(out.Rows, func(x, y Cost) int {
		if by == CostByDay {
			return strings.Compare(y.Name, x.Name)
		}
		return cmp.Or(cmp.Compare(y.Usage.CostMicroUSD, x.Usage.CostMicroUSD),
			cmp.Compare(y.UnpricedTokens, x.UnpricedTokens), strings.Compare(x.Name, y.Name))
	})
	return out, nil
}

// addCosts adds what a task used since a time to out's total, and to sums, by name.
func (b *Reader) addCosts(ctx context.Context, root store.Thread, since int64, out *Costs, sums map[string]*Cost) error {
	attempts, err := b.Store.Attempts(ctx, store.AttemptFilter{Task: root.ID})
	if err != nil {
		return err
	}
	attempts = slices.DeleteFunc(attempts, func(a store.Attempt) bool {
		return a.StartedAt < since || a.Usage.Tokens() == 0 && a.Usage.CostMicroUSD == 0
	})
	if len(attempts) == 0 {
		return nil
	}
	name := func(store.Attempt) string { return root.Flow }
	switch out.By {
	case CostByDay:
		name = func(a store.Attempt) string { return time.UnixMilli(a.StartedAt).Format(time.DateOnly) }
	case CostByAgent:
		name = func(a store.Attempt) string { return a.Agent }
	case CostByModel:
		models, err := b.models(ctx, root)
		if err != nil {
			return err
		}
		name = func(a store.Attempt) string { return models[a.ID] }
	case CostByPerson:
		person, err := b.askedBy(ctx, root)
		if err != nil {
			return err
		}
		name = func(store.Attempt) string { return person }
	}
	out.Total.Tasks++
	seen := map[string]bool{}
	for _, a := range attempts {
		n := name(a)
		if sums[n] == nil {
			sums[n] = &Cost{Name: n}
		}
		if !seen[n] {
			seen[n] = true
			sums[n].Tasks++
		}
		sums[n].add(a)
		out.Total.add(a)
	}
	return nil
}

// models returns the models of a task's attempts whose step is in the record.
func (b *Reader) models(ctx context.Context, root store.Thread) (map[string]string, error) {
	rows, err := thread.Subtree(ctx, b.Store, root.ID)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, row := range rows {
		for s, err := range b.ownSteps(ctx, row, shared(row)) {
			if err != nil {
				return nil, err
			}
			d, err := b.Nodes.Detail(ctx, s.State.Detail)
			if err != nil {
				return nil, err
			}
			if d == nil {
				continue // nobody made this step
			}
			out[d.Attempt] = d.Model
			for _, earlier := range d.Attempts {
				out[earlier.ID] = d.Model
			}
		}
	}
	return out, nil
}

// askedBy returns who asked for a task, "" if the record does not say.
func (b *Reader) askedBy(ctx context.Context, root store.Thread) (string, error) {
	events, err := b.Store.Events(ctx, 0, store.EventFilter{Task: root.ID, Types: event.Types(event.TaskCreated{}),
		Limit: 1})
	if err != nil || len(events) == 0 {
		return "", err
	}
	made, _ := event.Read(events[0]).(event.TaskCreated)
	return made.By, nil
}
