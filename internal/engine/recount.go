package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// What the workers of a team use up together. What attempts came to is in their rows; what those under way spend, and
// set aside, is in counts of the task. Whoever begins an attempt or sets something aside looks at all of it first, and
// commits only if nobody else has done so since: a count says how often that happened.

// Names of counts. Those with a slash are of one attempt, whose id follows.
const (
	begunCount    = "begun"    // attempts, where they are limited
	reservedCount = "reserved" // requests to models, where tokens or cost are limited
	tokensOf      = "tokens/"
	costOf        = "cost/"
	heldTokensOf  = "held-tokens/"
	heldCostOf    = "held-cost/"
)

// recount reads anew what the threads of a task have used up, and their limits, where others drive threads of it
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
	task, err := e.cfg.Store.Task(ctx, row.Task) // first: what begins after that is seen in its counts
	if err != nil {
		return fail(err)
	}
	if err := e.tally(ctx, task, row.Task); err != nil {
		return fail(err)
	}
	return task.Counts, nil
}

// count counts an attempt that has begun. counts are what its task's workers have counted of it, if there are several.
func (a *account) count(u store.Use, counts map[string]int64) {
	spent := store.Usage{InputTokens: counts[tokensOf+u.Attempt], CostMicroUSD: counts[costOf+u.Attempt]}
	if u.EndedAt == 0 {
		a.hold(store.Usage{InputTokens: counts[heldTokensOf+u.Attempt], CostMicroUSD: counts[heldCostOf+u.Attempt]})
	} else {
		a.spend(u)
		// What a worker that died had counted is all that is known of it.
		spent.InputTokens = max(0, spent.InputTokens-u.Usage.Tokens())
		spent.CostMicroUSD = max(0, spent.CostMicroUSD-u.Usage.CostMicroUSD)
	}
	for ; a != nil; a = a.above {
		a.open = a.open.Add(spent)
	}
}

// limited reports whether an account, or one above it, has a limit.
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

// counted adds to a batch that begins an attempt that it may do so only if no other worker has begun one since the
// counts were read.
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

// Reserve sets u aside, or returns the limit that is used up.
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
			case <-time.After(turnEvery): // what others spend is no news
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

// leaves returns the limit that is used up, or else whether requests under way may use so much that u is not left.
func (a *account) leaves(now int64, u store.Usage) (why *store.Reason, wait bool) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	why = a.exceeded(now, true)
	return why, why == nil && a.crowded(u)
}

// Spend counts what a request used, for which so much was set aside. Should the record be away for long, the attempt is
// lost, and counted by what its row says.
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
