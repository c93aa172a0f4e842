package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An account is what a thread and all below it have used, as the record had it when it was read, and the limits on
// that. A thread's limits bound it together with its paths and all that it called; a path has no limits of its own. So
// a child may use what its caller has left.
//
// Usage of ended attempts is in their rows. Running attempts add what they spend and reserve to counts of the task.
// Who begins an attempt or reserves something reads all of it first, and commits only if no one else has done the same
// since: each count includes how often it changed.
type account struct {
	above    *account // of the thread it is a path or child of, nil for a root
	depth    int
	limits   flow.Limits // none for a path
	used     store.Usage // by attempts that have ended
	open     store.Usage // by attempts under way, as far as known
	held     store.Usage // what their requests may still use
	attempts int
	busy     spans
	working  []int64          // when the running attempts began, Unix ms
	counts   map[string]int64 // of the task
}

// Names of counts. A name ending in a slash is for one attempt, whose id follows.
const (
	begunCount    = "begun"    // attempts, where they are limited
	reservedCount = "reserved" // requests to models, where tokens or cost are limited
	tokensOf      = "tokens/"
	costOf        = "cost/"
	heldTokensOf  = "held-tokens/"
	heldCostOf    = "held-cost/"
)

// account reads the limits of a thread and of those above it, and what was used if one of them limits that.
func (e *Engine) account(ctx context.Context, row store.Thread) (*account, error) {
	fail := func(err error) (*account, error) {
		return nil, fmt.Errorf("read what task %s has used: %w", row.Task, err)
	}
	accounts := map[string]*account{}
	var below *account
	for t := row; ; {
		a := &account{}
		start, err := e.cfg.Reader.Start(ctx, t.Start)
		if err == nil && t.Kind != store.KindPath {
			a.limits, err = e.limitsOf(ctx, t)
		}
		if err != nil {
			return fail(err)
		}
		a.depth, accounts[t.ID] = start.Depth, a
		if below != nil {
			below.above = a
		}
		below = a
		if t.Parent == nil {
			break
		}
		if t, err = e.cfg.Store.Thread(ctx, t.Parent.Thread); err != nil {
			return fail(err)
		}
	}
	a := accounts[row.ID]
	if !a.limited(limitsAny) {
		return a, nil
	}
	task, err := e.cfg.Store.Task(ctx, row.Task) // read before the attempts: the counts include what begins later
	if err == nil {
		err = e.tally(ctx, row.Task, task, accounts)
	}
	if err != nil {
		return fail(err)
	}
	return a, nil
}

// tally adds what the threads of a task have used to the accounts of some of them, which are empty.
func (e *Engine) tally(ctx context.Context, id string, task store.TaskRows, accounts map[string]*account) error {
	used, err := e.cfg.Store.Used(ctx, id)
	if err != nil {
		return err
	}
	above := make(map[string]string, len(task.Threads))
	for _, t := range task.Threads {
		if t.Parent != nil {
			above[t.ID] = t.Parent.Thread
		}
	}
	for _, a := range accounts {
		a.counts = task.Counts
	}
	waits, err := e.waits(ctx, id, used)
	for _, u := range used { // in the order of their starts, the spans only grow at the end
		for id := u.Thread; id != ""; id = above[id] {
			if a := accounts[id]; a != nil {
				a.count(u, waits[u.Attempt].list)
			}
		}
	}
	return err
}

// waits returns when attempts that have not ended waited for people, up to math.MaxInt64 if they still do.
func (e *Engine) waits(ctx context.Context, task string, used []store.Use) (map[string]spans, error) {
	of := map[string]spans{}
	if !slices.ContainsFunc(used, func(u store.Use) bool { return u.EndedAt == 0 }) {
		return of, nil
	}
	gates, err := e.cfg.Store.Gates(ctx, store.GateFilter{Task: task})
	for _, g := range gates {
		s := of[g.Attempt]
		s.add(g.OpenedAt, cmp.Or(g.AnsweredAt, math.MaxInt64))
		of[g.Attempt] = s
	}
	return of, err
}

// usage returns what attempts at threads of a task, and at all below them, have used.
func (e *Engine) usage(ctx context.Context, task string, threads []string) (all store.Usage, err error) {
	if len(threads) == 0 {
		return all, nil
	}
	ids, err := e.below(ctx, task, threads)
	var attempts []store.Attempt
	if err == nil {
		attempts, err = e.cfg.Store.Attempts(ctx, store.AttemptFilter{Threads: ids})
	}
	if err != nil {
		return all, fmt.Errorf("read what task %s has used: %w", task, err)
	}
	for _, a := range attempts {
		all = all.Add(a.Usage)
	}
	return all, nil
}

// below returns the ids of threads of a task and of all below them. If this engine drives the whole task, it reads the
// task's threads once, since it makes all later ones itself.
func (e *Engine) below(ctx context.Context, task string, ids []string) ([]string, error) {
	e.mu.Lock()
	known := e.cfg.Claim.alone() && e.known[task]
	e.mu.Unlock()
	var rows []store.Thread
	if !known {
		var err error
		if rows, err = e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: task}); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[task] = true
	for _, t := range rows {
		e.children.add(t)
	}
	for i := 0; i < len(ids); i++ {
		ids = slices.AppendSeq(ids, maps.Keys(e.children[ids[i]]))
	}
	return ids, nil
}

// children has the ids of the paths, calls and workers of each thread.
type children map[string]map[string]bool

func (c children) add(t store.Thread) {
	if t.Parent == nil {
		return
	}
	if c[t.Parent.Thread] == nil {
		c[t.Parent.Thread] = map[string]bool{}
	}
	c[t.Parent.Thread][t.ID] = true
}

// tries returns the ids of the threads that were made at a thread's head for a path or a role.
func (c *threadState) tries(name string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, thread.DerivedID(c.Stamp, c.Row.ID, c.Row.Head, name, i+1))
	}
	return ids
}

// count counts an attempt that has begun. waits is when it waited for people, if it has not ended.
func (a *account) count(u store.Use, waits [][2]int64) {
	if !u.Void {
		a.attempts++
	}
	spent := store.Usage{InputTokens: a.counts[tokensOf+u.Attempt], CostMicroUSD: a.counts[costOf+u.Attempt]}
	if u.EndedAt == 0 {
		from := u.StartedAt
		for _, w := range waits {
			a.busy.add(from, w[0])
			from = max(from, w[1])
		}
		if from < math.MaxInt64 {
			a.working = append(a.working, from)
		}
		a.held = a.held.Add(store.Usage{InputTokens: a.counts[heldTokensOf+u.Attempt],
			CostMicroUSD: a.counts[heldCostOf+u.Attempt]})
	} else {
		a.used = a.used.Add(u.Usage)
		if u.StartedAt > 0 {
			a.busy.add(u.StartedAt, u.EndedAt-u.Waited)
		}
		// If a worker died, its counts are all that is known.
		spent.InputTokens = max(0, spent.InputTokens-u.Usage.Tokens())
		spent.CostMicroUSD = max(0, spent.CostMicroUSD-u.Usage.CostMicroUSD)
	}
	a.open = a.open.Add(spent)
}

// limited reports whether the account, or one above it, has a limit.
func (a *account) limited(has func(flow.Limits) bool) bool {
	for ; a != nil; a = a.above {
		if has(a.limits) {
			return true
		}
	}
	return false
}

func limitsAttempts(l flow.Limits) bool { return l.MaxAttempts > 0 }
func limitsUsage(l flow.Limits) bool    { return l.MaxTokens > 0 || l.MaxCostMicroUSD > 0 }
func limitsAny(l flow.Limits) bool      { return limitsAttempts(l) || limitsUsage(l) || l.Timeout > 0 }

// guardCount makes a batch that begins an attempt conflict if another one has begun since the account was read.
func (a *account) guardCount(task string, b *store.Batch) {
	if a.limited(limitsAttempts) {
		b.Counts = append(b.Counts, store.Count{Task: task, Name: begunCount, Add: 1, Most: a.counts[begunCount] + 1})
	}
}

// outdated reports whether another attempt has begun since the account was read, and attempts are limited.
func (e *Engine) outdated(ctx context.Context, task string, a *account) bool {
	if !a.limited(limitsAttempts) {
		return false
	}
	now, err := e.cfg.Store.Task(ctx, task)
	return err == nil && now.Counts[begunCount] != a.counts[begunCount]
}

// exhausted returns which limit is used up, or nil.
func (a *account) exhausted(now int64) *store.Reason { return a.exceeded(now, false) }

// time returns how long agents have worked, including those at work now.
func (a *account) time(now int64) time.Duration {
	if len(a.working) == 0 {
		return a.busy.total()
	}
	all := spans{list: slices.Clone(a.busy.list), sum: a.busy.sum}
	all.add(slices.Min(a.working), now)
	return all.total()
}

// left returns the time that agents have left, zero if there is no limit.
func (a *account) left(now int64) time.Duration {
	if ms := a.budget(now).Millis; ms != nil {
		return time.Duration(max(*ms, 1)) * time.Millisecond
	}
	return 0
}

// budget returns what is left of the limits of the account and of those above it: for each limit, the least.
func (a *account) budget(now int64) attempt.Budget {
	var b attempt.Budget
	lower := func(to **int64, most, used int64) {
		if left := max(most-used, 0); most > 0 && (*to == nil || left < **to) {
			*to = &left
		}
	}
	for ; a != nil; a = a.above {
		lower(&b.Attempts, int64(a.limits.MaxAttempts), int64(a.attempts))
		lower(&b.Tokens, a.limits.MaxTokens, a.total().Tokens())
		lower(&b.CostMicroUSD, a.limits.MaxCostMicroUSD, a.total().CostMicroUSD)
		lower(&b.Millis, time.Duration(a.limits.Timeout).Milliseconds(), a.time(now).Milliseconds())
	}
	return b
}

// total is the usage so far.
func (a *account) total() store.Usage { return a.used.Add(a.open) }

// exceeded returns the limit of the account, or of one above it, that is used up, or nil. For an attempt that
// has begun, only tokens and cost count.
func (a *account) exceeded(now int64, begun bool) *store.Reason {
	for whose := ""; a != nil; a = a.above {
		l, total := a.limits, a.total()
		used := func(name, key string, used, most any, raise any) *store.Reason {
			return &store.Reason{Kind: store.ReasonLimit, Limit: name, Raise: fmt.Sprintf("%s=%v", key, raise),
				Message: fmt.Sprintf("%v of %v %s used%s", used, most, name, whose)}
		}
		switch {
		case l.MaxTokens > 0 && total.Tokens() >= l.MaxTokens:
			return used("tokens", "maxTokens", total.Tokens(), l.MaxTokens, 2*total.Tokens())
		case l.MaxCostMicroUSD > 0 && total.CostMicroUSD >= l.MaxCostMicroUSD:
			cost := total.CostMicroUSD
			return used("micro-dollars", "maxCostMicroUSD", cost, l.MaxCostMicroUSD, 2*cost)
		case begun:
		case l.MaxAttempts > 0 && a.attempts >= l.MaxAttempts:
			return used("attempts", "maxAttempts", a.attempts, l.MaxAttempts, 2*a.attempts)
		case l.Timeout > 0 && a.time(now) >= time.Duration(l.Timeout):
			took := a.time(now)
			return used("time", "timeout", took.Round(time.Millisecond), l.Timeout, 2*took.Truncate(time.Second)+time.Minute)
		}
		if l != (flow.Limits{}) {
			whose = " by the caller's limits"
		}
	}
	return nil
}

// tooDeep returns why nothing may be called from here, or nil.
func (a *account) tooDeep() *store.Reason {
	depth := a.depth + 1
	for ; a != nil; a = a.above {
		if most := a.limits.MaxDepth; most > 0 && depth-a.depth > most {
			return &store.Reason{Kind: store.ReasonLimit, Limit: "depth", Raise: fmt.Sprintf("maxDepth=%d", 2*most),
				Message: fmt.Sprintf("%d calls deep, at most %d are allowed", depth-a.depth, most)}
		}
	}
	return nil
}

// spans is a union of spans of time: time in which several agents work counts once.
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
