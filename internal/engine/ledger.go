package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// A ledger holds the usage of the threads of tasks. A thread's limits bound it together with its paths and all
// that it called; a path has no limits of its own. So a child may use what its caller has left.
type ledger struct {
	mu       sync.Mutex
	spent    chan struct{}       // closed when something was spent; nil: no waiters
	accounts map[string]*account // by thread
}

// An account is the usage of one thread and all below it.
type account struct {
	ledger   *ledger
	above    *account // of the thread it is a path or child of, nil for a root
	depth    int
	limits   flow.Limits // none for a path
	used     store.Usage // by attempts that have ended
	open     store.Usage // by attempts under way, as far as known
	held     store.Usage // what their requests may still use
	attempts int
	busy     spans
	working  []int64 // when the running attempts began, Unix ms
	taken    []int64 // when those not yet in the record began
	options  []byte  // of the thread, which include the limits
}

// account returns the account of a thread. The first call for a task reads the whole task.
func (e *Engine) account(ctx context.Context, row store.Thread) (*account, error) {
	l := &e.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accounts[row.Root] != nil {
		a, err := e.open(ctx, row, nil, l.accounts)
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", row.Task, err)
		}
		return a, nil
	}
	threads, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err == nil {
		err = e.tally(ctx, store.TaskRows{Threads: threads}, row.Task)
	}
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", row.Task, err)
	}
	return l.accounts[row.ID], nil
}

// tally recounts the usage of a task's threads, under the current limits. The ledger's mutex is held.
// Attempts that begin from now on are counted by the code that begins them.
func (e *Engine) tally(ctx context.Context, task store.TaskRows, id string) error {
	used, err := e.cfg.Store.Used(ctx, id)
	if err != nil {
		return err
	}
	rows := make(map[string]store.Thread, len(task.Threads))
	for _, t := range task.Threads {
		rows[t.ID] = t
	}
	accounts := maps.Clone(e.ledger.accounts)
	for _, t := range task.Threads {
		a, err := e.open(ctx, t, rows, accounts)
		if err != nil {
			return err
		}
		if err := e.updateLimits(ctx, a, t); err != nil {
			return err
		}
	}
	e.ledger.accounts = accounts
	for _, t := range task.Threads {
		a := accounts[t.ID]
		a.used, a.open, a.held, a.busy = store.Usage{}, store.Usage{}, store.Usage{}, spans{}
		a.attempts, a.working = len(a.taken), slices.Clone(a.taken)
	}
	for _, u := range used { // in the order of their starts, the spans only grow at the end
		if a := accounts[u.Thread]; a != nil { // otherwise its thread began after the rows were read
			a.begin(u.StartedAt)
			a.count(u, task.Counts)
		}
	}
	return nil
}

// updateLimits reads the limits of a thread again if its options have changed.
func (e *Engine) updateLimits(ctx context.Context, a *account, row store.Thread) error {
	if row.Kind == store.KindPath || bytes.Equal(a.options, row.Options) {
		return nil
	}
	limits, err := e.limitsOf(ctx, row)
	if err == nil {
		a.limits, a.options = limits, row.Options
	}
	return err
}

// applyLimits makes the changed limits of threads count from now on.
func (e *Engine) applyLimits(ctx context.Context, rows []store.ThreadChange) error {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	defer e.ledger.tell() // requests may wait for what is left
	for _, t := range rows {
		a := e.ledger.accounts[t.Row.ID]
		if a == nil {
			continue
		}
		if err := e.updateLimits(ctx, a, t.Row); err != nil {
			return fmt.Errorf("read the limits of thread %s: %w", t.Row.ID, err)
		}
		e.slots.limit(t.Row.ID, a.limits.MaxConcurrent)
	}
	return nil
}

// open makes the account of a thread and of those above it. rows has the threads of the task that were read so
// far.
func (e *Engine) open(ctx context.Context, row store.Thread, rows map[string]store.Thread,
	accounts map[string]*account) (*account, error) {
	if a := accounts[row.ID]; a != nil {
		return a, nil
	}
	a := &account{ledger: &e.ledger, options: row.Options}
	if row.Parent != nil {
		parent, ok := rows[row.Parent.Thread]
		if !ok {
			var err error
			if parent, err = e.cfg.Store.Thread(ctx, row.Parent.Thread); err != nil {
				return nil, err
			}
		}
		var err error
		if a.above, err = e.open(ctx, parent, rows, accounts); err != nil {
			return nil, err
		}
	}
	start, err := e.cfg.Reader.Start(ctx, row.Start)
	if err != nil {
		return nil, err
	}
	a.depth = start.Depth
	if row.Kind != store.KindPath {
		if a.limits, err = e.limitsOf(ctx, row); err != nil {
			return nil, err
		}
	}
	accounts[row.ID] = a
	return a, nil
}

// begin counts an attempt that begins, in every account above too.
func (a *account) begin(at int64) {
	for ; a != nil; a = a.above {
		a.attempts++
		a.working = append(a.working, at)
	}
}

// stop records that an attempt that began at a time no longer runs.
func (a *account) stop(at int64) {
	if i := slices.Index(a.working, at); i >= 0 {
		a.working = slices.Delete(a.working, i, i+1)
	}
}

// spend counts what an attempt used.
func (a *account) spend(by store.Use) {
	for ; a != nil; a = a.above {
		a.stop(by.StartedAt)
		a.used = a.used.Add(by.Usage)
		if by.StartedAt > 0 {
			a.busy.add(by.StartedAt, by.EndedAt-by.Waited)
		}
	}
}

// take counts one more attempt, or returns the limit that is used up. If several ask for the last one at once,
// only one gets it.
func (a *account) take(now int64) *store.Reason {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if why := a.exceeded(now, false); why != nil {
		return why
	}
	a.begin(now)
	for ; a != nil; a = a.above {
		a.taken = append(a.taken, now)
	}
	return nil
}

// giveBack undoes take: the attempt did not begin.
func (a *account) giveBack(at int64) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for ; a != nil; a = a.above {
		if a.untake(at) {
			a.attempts--
			a.stop(at)
		}
	}
}

// settle marks an attempt that was taken as about to be in the record, which counts it from then on.
func (a *account) settle(at int64) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for ; a != nil; a = a.above {
		a.untake(at)
	}
}

func (a *account) untake(at int64) bool {
	i := slices.Index(a.taken, at)
	if i >= 0 {
		a.taken = slices.Delete(a.taken, i, i+1)
	}
	return i >= 0
}

// spent counts the usage of an attempt that has ended, and removes what it took from its purse.
func (a *account) spent(by store.Attempt, from *purse) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if from != nil {
		from.close()
	}
	a.spend(by.Use())
}

// exhausted returns which limit is used up, or nil.
func (a *account) exhausted(now int64) *store.Reason {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	return a.exceeded(now, false)
}

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
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	var b attempt.Budget
	least := func(to **int64, most, used int64) {
		if left := max(most-used, 0); most > 0 && (*to == nil || left < **to) {
			*to = &left
		}
	}
	for ; a != nil; a = a.above {
		least(&b.Attempts, int64(a.limits.MaxAttempts), int64(a.attempts))
		least(&b.Tokens, a.limits.MaxTokens, a.total().Tokens())
		least(&b.CostMicroUSD, a.limits.MaxCostMicroUSD, a.total().CostMicroUSD)
		least(&b.Millis, time.Duration(a.limits.Timeout).Milliseconds(), a.time(now).Milliseconds())
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

// usage returns what was used by a thread and everything below it.
func (e *Engine) usage(ctx context.Context, id string) (store.Usage, error) {
	e.ledger.mu.Lock()
	a := e.ledger.accounts[id]
	e.ledger.mu.Unlock()
	if a == nil {
		row, err := e.cfg.Store.Thread(ctx, id)
		if err != nil {
			return store.Usage{}, err
		}
		if a, err = e.account(ctx, row); err != nil {
			return store.Usage{}, err
		}
	}
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	return a.used, nil
}
