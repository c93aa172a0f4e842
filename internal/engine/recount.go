package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// The usage that the workers of a team share. The usage of ended attempts is in their rows; running attempts
// add what they spend and reserve to counts of the task. A worker that begins an attempt or reserves something
// first reads all of it, and commits only if no one else has done the same since: each count includes how
// often it changed.

// Names of counts. A name ending in a slash is for one attempt, whose id follows.
const (
	begunCount    = "begun"    // attempts, where they are limited
	reservedCount = "reserved" // requests to models, where tokens or cost are limited
	tokensOf      = "tokens/"
	costOf        = "cost/"
	heldTokensOf  = "held-tokens/"
	heldCostOf    = "held-cost/"
)

// recount reads the usage of a task's threads, and their limits, again if others drive threads of the task
// too. It returns the counts from before that.
func (e *Engine) recount(ctx context.Context, row store.Thread) (map[string]int64, error) {
	if !e.cfg.Shared {
		return nil, nil
	}
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	fail := func(err error) (map[string]int64, error) {
		return nil, fmt.Errorf("read what task %s has used: %w", row.Task, err)
	}
	task, err := e.cfg.Store.Task(ctx, row.Task) // read before the rest: the counts include what begins later
	if err != nil {
		return fail(err)
	}
	if err := e.tally(ctx, task, row.Task); err != nil {
		return fail(err)
	}
	return task.Counts, nil
}

// count counts an attempt that has begun. counts are those of the task's workers, if there are several.
func (a *account) count(u store.Use, counts map[string]int64) {
	spent := store.Usage{InputTokens: counts[tokensOf+u.Attempt], CostMicroUSD: counts[costOf+u.Attempt]}
	if u.EndedAt == 0 {
		a.hold(store.Usage{InputTokens: counts[heldTokensOf+u.Attempt], CostMicroUSD: counts[heldCostOf+u.Attempt]})
	} else {
		a.spend(u)
		// If a worker died, its counts are all that is known.
		spent.InputTokens = max(0, spent.InputTokens-u.Usage.Tokens())
		spent.CostMicroUSD = max(0, spent.CostMicroUSD-u.Usage.CostMicroUSD)
	}
	for ; a != nil; a = a.above {
		a.open = a.open.Add(spent)
	}
}

// limited reports whether the account, or one above it, has a limit.
func (a *account) limited(has func(flow.Limits) bool) bool {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for ; a != nil; a = a.above {
		if has(a.limits) {
			return true
		}
	}
	return false
}

func limitsAttempts(l flow.Limits) bool { return l.MaxAttempts > 0 }
func limitsUsage(l flow.Limits) bool    { return l.MaxTokens > 0 || l.MaxCostMicroUSD > 0 }

// counted makes a batch that begins an attempt fail if another worker has begun one since the counts were read.
func (e *Engine) counted(c *threadState, b *store.Batch) {
	if e.cfg.Shared && c.account.limited(limitsAttempts) {
		b.Counts = append(b.Counts, store.Count{Task: c.Row.Task, Name: begunCount, Add: 1, Most: c.counts[begunCount] + 1})
	}
}

// others reports whether another worker has begun an attempt since the counts were read.
func (e *Engine) others(ctx context.Context, c *threadState) bool {
	if !e.cfg.Shared {
		return false
	}
	now, err := e.cfg.Store.Task(ctx, c.Row.Task)
	return err == nil && now.Counts[begunCount] != c.counts[begunCount]
}

// A sharedPurse is the purse of an attempt at a task that other workers drive too.
type sharedPurse struct {
	engine  *Engine
	account *account
	row     store.Thread
	attempt string
}

// Reserve reserves u, or returns the limit that is used up.
func (p *sharedPurse) Reserve(ctx context.Context, u store.Usage) (*store.Reason, error) {
	for {
		counts, err := p.engine.recount(ctx, p.row)
		if err != nil || !p.account.limited(limitsUsage) {
			return nil, err
		}
		why, wait := p.account.leaves(p.engine.now(), u)
		switch {
		case why != nil:
			return why, nil
		case wait:
			select {
			case <-time.After(turnEvery): // what others spend sends no event
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			continue
		}
		err = p.count(ctx, heldTokensOf, u.Tokens(), heldCostOf, u.CostMicroUSD,
			store.Count{Task: p.row.Task, Name: reservedCount, Add: 1, Most: counts[reservedCount] + 1})
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
}

// leaves returns the limit that is used up, and otherwise whether requests under way may leave less than u.
func (a *account) leaves(now int64, u store.Usage) (why *store.Reason, wait bool) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	why = a.exceeded(now, true)
	return why, why == nil && a.crowded(u)
}

// Spend replaces the amount reserved for a request by the usage of that request. If the record is unavailable
// for long, the attempt is lost, and the usage in its row counts.
func (p *sharedPurse) Spend(reserved, used store.Usage) {
	if !p.account.limited(limitsUsage) {
		return
	}
	ctx := context.Background()
	err := p.count(ctx, heldTokensOf, -reserved.Tokens(), heldCostOf, -reserved.CostMicroUSD)
	if err == nil {
		err = p.count(ctx, tokensOf, used.Tokens(), costOf, used.CostMicroUSD)
	}
	if err != nil {
		p.engine.cfg.Log.Warn("count what was used", "attempt", p.attempt, "error", err)
	}
}

// count adds to two counts of the attempt.
func (p *sharedPurse) count(ctx context.Context, tokens string, n int64, cost string, micro int64,
	more ...store.Count) error {
	for _, x := range []struct {
		name string
		add  int64
	}{{tokens, n}, {cost, micro}} {
		if x.add != 0 {
			more = append(more, store.Count{Task: p.row.Task, Name: x.name + p.attempt, Add: x.add, Most: math.MaxInt64})
		}
	}
	return p.engine.cfg.Store.Commit(ctx, store.Batch{Counts: more})
}
