package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// A ledger holds what the threads of tasks have used up. A thread's limits bound
// it together with its paths and all that it called; a path has none of its own.
// So what is left for a child is what is left for its caller.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account // by thread; a path has its parent's
}

// An account is that of a root or called thread.
type account struct {
	ledger   *ledger
	above    *account // the caller's, nil for a root
	depth    int
	limits   flow.Limits
	used     store.Usage
	attempts int
	busy     spans
}

// account returns the account of a thread. The first time it is asked about a
// task it reads the whole task.
func (e *Engine) account(ctx context.Context, row store.Thread) (*account, error) {
	l := &e.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accounts == nil {
		l.accounts = make(map[string]*account)
	}
	if a := l.accounts[row.ID]; a != nil {
		return a, nil
	}
	if l.accounts[row.Root] != nil {
		return e.open(ctx, row, nil)
	}
	fail := func(err error) (*account, error) { return nil, fmt.Errorf("read task %s: %w", row.Task, err) }
	threads, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err != nil {
		return fail(err)
	}
	rows := make(map[string]store.Thread, len(threads))
	for _, t := range threads {
		rows[t.ID] = t
	}
	for _, t := range threads {
		if _, err := e.open(ctx, t, rows); err != nil {
			return fail(err)
		}
	}
	attempts, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Task: row.Task})
	if err != nil {
		return fail(err)
	}
	// In the order of their beginnings the spans only grow at their end.
	slices.SortStableFunc(attempts, func(a, b store.Attempt) int { return int(a.StartedAt - b.StartedAt) })
	for _, a := range attempts {
		acct := l.accounts[a.Thread]
		acct.begin()
		acct.spend(a)
	}
	return l.accounts[row.ID], nil
}

// open makes the account of a thread and of those above it. rows holds the
// task's threads, as far as they have been read.
func (e *Engine) open(ctx context.Context, row store.Thread, rows map[string]store.Thread) (*account, error) {
	if a := e.ledger.accounts[row.ID]; a != nil {
		return a, nil
	}
	var above *account
	if row.Parent != nil {
		parent, ok := rows[row.Parent.Thread]
		if !ok {
			var err error
			if parent, err = e.cfg.Store.Thread(ctx, row.Parent.Thread); err != nil {
				return nil, err
			}
		}
		var err error
		if above, err = e.open(ctx, parent, rows); err != nil {
			return nil, err
		}
	}
	a := above
	if row.Kind != store.KindPath {
		def, err := e.Definition(ctx, row)
		if err != nil {
			return nil, err
		}
		a = &account{ledger: &e.ledger, above: above, limits: e.cfg.Limits(row, def)}
		if above != nil {
			a.depth = above.depth + 1
		}
	}
	e.ledger.accounts[row.ID] = a
	return a, nil
}

// begin counts an attempt that begins, in every account above too.
func (a *account) begin() {
	for ; a != nil; a = a.above {
		a.attempts++
	}
}

// spend counts what an attempt used.
func (a *account) spend(by store.Attempt) {
	for ; a != nil; a = a.above {
		a.used = a.used.Add(by.Usage)
		if by.StartedAt > 0 {
			a.busy.add(by.StartedAt, by.EndedAt-by.Waited)
		}
	}
}

// began and spent are begin and spend of an attempt under way.
func (a *account) began() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.begin()
}

func (a *account) spent(by store.Attempt) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.spend(by)
}

// left returns the time that agents still have, zero when there is no limit.
func (a *account) left() time.Duration {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	var least time.Duration
	for ; a != nil; a = a.above {
		if l := time.Duration(a.limits.Timeout); l > 0 {
			if left := max(l-a.busy.total(), time.Millisecond); least == 0 || left < least {
				least = left
			}
		}
	}
	return least
}

// over returns which limit of the account, or of one above it, is used up, or nil.
func (a *account) over() *store.Reason {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for whose := ""; a != nil; a, whose = a.above, " by the caller's limits" {
		l, time := a.limits, time.Duration(a.limits.Timeout)
		used := func(name string, used, most any) *store.Reason {
			return &store.Reason{Kind: "limit", Limit: name, Message: fmt.Sprintf("%v of %v %s used%s", used, most, name, whose)}
		}
		switch {
		case l.MaxTokens > 0 && a.used.Tokens() >= l.MaxTokens:
			return used("tokens", a.used.Tokens(), l.MaxTokens)
		case l.MaxCostMicroUSD > 0 && a.used.CostMicroUSD >= l.MaxCostMicroUSD:
			return used("micro-dollars", a.used.CostMicroUSD, l.MaxCostMicroUSD)
		case l.MaxAttempts > 0 && a.attempts >= l.MaxAttempts:
			return used("attempts", a.attempts, l.MaxAttempts)
		case time > 0 && a.busy.total() >= time:
			return used("time", a.busy.total(), l.Timeout)
		}
	}
	return nil
}

// tooDeep returns why nothing may be called from here, or nil.
func (a *account) tooDeep() *store.Reason {
	depth := a.depth + 1
	for ; a != nil; a = a.above {
		if most := a.limits.MaxDepth; most > 0 && depth-a.depth > most {
			return &store.Reason{Kind: "limit", Limit: "depth", Message: fmt.Sprintf("%d calls deep, at most %d are allowed", depth-a.depth, most)}
		}
	}
	return nil
}

// spans is a union of spans of time: agents that work side by side use the time once.
type spans struct {
	list [][2]int64 // Unix ms, apart from each other, in order
	sum  int64
}

func (s *spans) add(from, to int64) {
	if to <= from {
		return
	}
	hi := len(s.list)
	for hi > 0 && s.list[hi-1][0] > to {
		hi--
	}
	lo := hi
	for lo > 0 && s.list[lo-1][1] >= from {
		lo--
		s.sum -= s.list[lo][1] - s.list[lo][0]
		from, to = min(from, s.list[lo][0]), max(to, s.list[lo][1])
	}
	s.list = slices.Replace(s.list, lo, hi, [2]int64{from, to})
	s.sum += to - from
}

func (s *spans) total() time.Duration { return time.Duration(s.sum) * time.Millisecond }

// total returns what was used by an account and everything below it.
func (a *account) total() store.Usage {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	return a.used
}
