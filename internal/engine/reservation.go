package engine

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// A reservation is what one attempt spends from while it works, see [attempt.Purse]. One request can exceed a limit,
// since its usage is known only once it is answered. Several concurrent requests cannot each exceed it: if what they
// have reserved may reach the limit, the next one waits for them.
type reservation struct {
	engine  *Engine
	row     store.Thread
	attempt string
	limited atomic.Bool // tokens or cost were limited when something was last reserved
}

const (
	// spentEvery is how often a request that waits for others looks what they have used: that sends no event.
	spentEvery = 250 * time.Millisecond
	// spendPatience is how long counting what a request used may take.
	spendPatience = 30 * time.Second
)

// Reserve reserves u, or returns the limit that is used up.
func (p *reservation) Reserve(ctx context.Context, u store.Usage) (*store.Reason, error) {
	for {
		a, err := p.engine.account(ctx, p.row)
		if err != nil {
			return nil, err
		}
		if p.limited.Store(a.limited(limitsUsage)); !p.limited.Load() {
			return nil, nil
		}
		if why := a.exceeded(p.engine.now(), true); why != nil {
			return why, nil
		}
		if a.overcommitted(u) {
			select {
			case <-time.After(spentEvery):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			continue
		}
		reserved := store.Count{Task: p.row.Task, Name: reservedCount, Add: 1, Most: a.counts[reservedCount] + 1}
		err = p.engine.unfenced.Commit(ctx, store.Batch{Counts: append(p.counts(heldTokensOf, heldCostOf, 1, u), reserved)})
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
}

// Spend replaces the amount reserved for a request by the usage of that request. If the record is unavailable for
// long, the attempt is lost, and the usage in its row counts.
func (p *reservation) Spend(reserved, used store.Usage) {
	if !p.limited.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), spendPatience)
	defer cancel()
	err := p.engine.unfenced.Commit(ctx, store.Batch{Counts: append(p.counts(heldTokensOf, heldCostOf, -1, reserved),
		p.counts(tokensOf, costOf, 1, used)...)})
	if err != nil {
		p.engine.cfg.Log.Warn("count what was used", "attempt", p.attempt, "error", err)
	}
}

// counts returns the changes that add u, times a sign, to two counts of the attempt.
func (p *reservation) counts(tokens, cost string, sign int64, u store.Usage) (changes []store.Count) {
	for _, c := range []store.Count{
		{Name: tokens, Add: sign * u.Tokens()},
		{Name: cost, Add: sign * u.CostMicroUSD},
	} {
		if c.Add != 0 {
			c.Task, c.Name, c.Most = p.row.Task, c.Name+p.attempt, math.MaxInt64
			changes = append(changes, c)
		}
	}
	return changes
}

// overcommitted reports whether requests under way may leave less than u.
func (a *account) overcommitted(u store.Usage) bool {
	full := func(most, used, held, more int64) bool { return most > 0 && held > 0 && used+held+more > most }
	for ; a != nil; a = a.above {
		total := a.total()
		if full(a.limits.MaxTokens, total.Tokens(), a.held.Tokens(), u.Tokens()) ||
			full(a.limits.MaxCostMicroUSD, total.CostMicroUSD, a.held.CostMicroUSD, u.CostMicroUSD) {
			return true
		}
	}
	return false
}
