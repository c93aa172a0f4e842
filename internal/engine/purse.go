package engine

import (
	"context"

	"github.com/plait-run/plait/internal/record/store"
)

// A purse is what one attempt spends from while it works, see [attempt.Purse]. One request can exceed a limit,
// since its usage is known only once it is answered. Several concurrent requests cannot each exceed it: if
// what they have reserved may reach the limit, the next one waits for them.
type purse struct {
	account *account
	now     func() int64
	spent   store.Usage // guarded by the ledger
}

// Reserve reserves u, or returns the limit that is used up.
func (p *purse) Reserve(ctx context.Context, u store.Usage) (*store.Reason, error) {
	l := p.account.ledger
	for {
		l.mu.Lock()
		why := p.account.exceeded(p.now(), true)
		wait := why == nil && p.account.crowded(u)
		if why == nil && !wait {
			p.account.hold(u)
		}
		if wait && l.spent == nil {
			l.spent = make(chan struct{})
		}
		spent := l.spent
		l.mu.Unlock()
		if !wait {
			return why, nil
		}
		select {
		case <-spent:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Spend replaces the amount reserved for a request by the usage of that request.
func (p *purse) Spend(reserved, used store.Usage) {
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	p.account.hold(negative(reserved))
	p.spent = p.spent.Add(used)
	for a := p.account; a != nil; a = a.above {
		a.open = a.open.Add(used)
	}
	l.tell()
}

// close takes back what the attempt spent, since its usage is counted as a whole once it has ended. The
// ledger's mutex is held.
func (p *purse) close() {
	for a := p.account; a != nil; a = a.above {
		a.open = a.open.Add(negative(p.spent))
	}
	p.spent = store.Usage{}
	p.account.ledger.tell()
}

// tell wakes all who wait for a change in what is spent.
func (l *ledger) tell() {
	if l.spent != nil {
		close(l.spent)
		l.spent = nil
	}
}

// hold reserves u in the account and in those above it.
func (a *account) hold(u store.Usage) {
	for ; a != nil; a = a.above {
		a.held = a.held.Add(u)
	}
}

// crowded reports whether requests under way may leave less than u.
func (a *account) crowded(u store.Usage) bool {
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

func negative(u store.Usage) store.Usage {
	return store.Usage{
		InputTokens: -u.InputTokens, CachedInputTokens: -u.CachedInputTokens, OutputTokens: -u.OutputTokens,
		ReasoningTokens: -u.ReasoningTokens, CostMicroUSD: -u.CostMicroUSD,
	}
}
