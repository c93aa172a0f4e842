package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Reconcile does what a task needs that takes no agent, and no files except those of attempts whose owner died. It
// applies requests, decides and commits joins, commits what calls returned, blocks threads when nothing below them can
// continue without a person, resumes them when something can, and cancels what is no longer wanted. It then returns
// what may be driven. Several may call it at any time: what it does follows from the rows.
func (e *Engine) Reconcile(ctx context.Context, task string) (Agenda, error) {
	ctx = context.WithoutCancel(ctx)
	e.surveyMu.Lock()
	defer e.surveyMu.Unlock()
	held := &ownership{engine: e}
	defer held.release()
	for { // until a pass changes nothing
		row, err := e.cfg.Store.Thread(ctx, task)
		if err != nil {
			return Agenda{}, fmt.Errorf("read task %s: %w", task, err)
		}
		if row.Ended() {
			return Agenda{}, nil
		}
		taken, err := e.applyRequests(ctx, row, held)
		if err != nil {
			return Agenda{}, err
		}
		if taken {
			continue
		}
		roots, err := e.survey(ctx, held, []store.Thread{row})
		if err != nil {
			return Agenda{}, err
		}
		m := movesOf(roots[0])
		changed, err := e.carryOut(ctx, held, &m)
		switch {
		case err != nil:
			return Agenda{}, err
		case changed:
			continue
		}
		if err := e.withinTurns(ctx, row, &m); err != nil {
			return Agenda{}, err
		}
		return m.Agenda, nil
	}
}

// withinTurns leaves on the agenda what can be driven without waiting for another agent of the task, if several
// processes drive it.
func (e *Engine) withinTurns(ctx context.Context, root store.Thread, m *moves) error {
	if e.cfg.Claim.alone() || m.Driven+len(m.Drive) < 2 {
		return nil
	}
	limits, err := e.limitsOf(ctx, root)
	if err != nil || limits.MaxConcurrent == 0 || m.Driven+len(m.Drive) <= limits.MaxConcurrent {
		return err
	}
	taken, err := e.cfg.Claim.turns(ctx, root.ID)
	if err == nil {
		m.within(limits.MaxConcurrent - taken)
	}
	return err
}

// carryOut does the moves that need neither an agent nor files, and reports whether it changed anything.
func (e *Engine) carryOut(ctx context.Context, held *ownership, m *moves) (changed bool, err error) {
	for _, id := range m.cancel {
		stop, ended, err := e.cancelTree(ctx, held, id)
		if err != nil {
			return false, err
		}
		m.Stop = append(m.Stop, stop...)
		changed = changed || ended
	}
	do := func(nodes []*node, act func(context.Context, *node) error) {
		for _, n := range nodes {
			if err != nil {
				return
			}
			if err = act(ctx, n); errors.Is(err, store.ErrConflict) {
				err = nil // it has moved, and the next pass looks at it
			}
			changed = true
		}
	}
	do(m.decide, e.decide)
	// The next pass handles what ended during the reads, after the threads that wait for it were read.
	do(m.join, func(ctx context.Context, n *node) error {
		if n.fork.decision == nil || !n.fork.ended() {
			return nil
		}
		_, err := e.join(ctx, n.state, n.fork)
		return err
	})
	do(m.returned, func(ctx context.Context, n *node) error {
		if !n.call.child.Ended() {
			return nil
		}
		_, err := e.returned(ctx, n.state, *n.call)
		return err
	})
	do(m.block, func(ctx context.Context, n *node) error {
		_, err := e.block(ctx, n.state, n.blockedBelow())
		return err
	})
	do(m.resume, func(ctx context.Context, n *node) error { return e.resume(ctx, n.row) })
	return changed, err
}

// survey reads threads and what they wait for.
func (e *Engine) survey(ctx context.Context, held *ownership, rows []store.Thread) ([]*node, error) {
	idle, err := held.lockIdle(ctx, rows)
	if err != nil {
		return nil, err
	}
	nodes := make([]*node, len(rows))
	for i, row := range rows {
		if !idle[row.ID] {
			nodes[i] = &node{row: row, driven: !row.Ended()}
		} else if nodes[i], err = e.surveyed(ctx, held, row); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// surveyed reads a thread that is not being driven, and what it waits for.
func (e *Engine) surveyed(ctx context.Context, held *ownership, row store.Thread) (n *node, err error) {
	n = &node{row: row, waits: waits(row, e.cfg.Now())}
	var expires int64
	if n.gate, expires, err = gateOf(ctx, e.gates, row); err != nil {
		return nil, err
	}
	if n.expires = expires != 0; n.expires {
		n.left = time.UnixMilli(expires).Sub(e.cfg.Now())
	}
	if row.Status == store.Pending ||
		row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind != store.ReasonChild {
		return n, nil // it waits for no other thread
	}
	c, now, err := e.load(ctx, row.ID, row.Head)
	if err != nil {
		return nil, err
	}
	if c == nil {
		n.row, n.driven = now, true // it has moved since the rows were read: an event follows
		return n, nil
	}
	if err := e.setRow(c, row); err != nil { // others may have decided meanwhile
		return nil, err
	}
	n.state = c
	var below []store.Thread
	switch d := c.Next().(type) {
	case flow.Fork:
		f, made, err := e.paths(ctx, c, d)
		if err != nil || !made {
			return n, err
		}
		if f.left, err = e.timeLeft(ctx, row, f); err != nil {
			return nil, err
		}
		if e.cfg.Player != nil {
			if f.then, err = e.cfg.Player.Joined(ctx, row); err != nil {
				return nil, err
			}
		}
		n.fork, below = f, f.threads
	case flow.Call:
		w, err := e.child(ctx, c, d)
		if err != nil || w.n == 0 {
			return n, err
		}
		if w.child.Ended() {
			_, status, err := e.returnedStep(ctx, c, w)
			if err != nil {
				return nil, err
			}
			w.route = c.Def.Leads(d.Role, status)
		}
		n.call, below = &w, []store.Thread{w.child}
	}
	n.below, err = e.survey(ctx, held, below)
	return n, err
}

// timeLeft returns how long the paths of a fork may still take. The clock may jump meanwhile: it is read once,
// and after that only elapsed time counts.
func (e *Engine) timeLeft(ctx context.Context, row store.Thread, f *forkState) (time.Duration, error) {
	if f.Rule.Timeout == 0 {
		return 0, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	made := 0 // a path that is tried again has time again
	for _, p := range f.threads {
		made += p.Path.N
	}
	end, known := e.ends[row.ID]
	if !known || end.head != row.Head || end.made != made {
		since := f.since
		if row.ForkedFrom != nil { // it may have adopted paths before it began
			begun, err := e.cfg.Store.Events(ctx, 0, store.EventFilter{Task: row.Task, Thread: row.ID,
				Types: event.Types(event.ThreadStarted{}), Limit: 1})
			if err != nil {
				return 0, fmt.Errorf("read when thread %s began: %w", row.ID, err)
			}
			for _, ev := range begun {
				since = max(since, ev.TS)
			}
		}
		left := time.UnixMilli(since).Add(time.Duration(f.Rule.Timeout)).Sub(e.cfg.Now())
		end = deadline{row.Head, made, time.Now().Add(left)}
		e.ends[row.ID] = end
	}
	return time.Until(end.at), nil
}

// A deadline is when the join that a thread waits for at a head times out.
type deadline struct {
	head dag.Hash
	made int // threads of the paths
	at   time.Time
}

// decide commits the decision about a join, with its event.
func (e *Engine) decide(ctx context.Context, n *node) error {
	r := n.fork.outcome
	decision, err := json.Marshal(Decision{Join: n.fork.Join, Outcome: r.Outcome, DecidedBy: r.DecidedBy})
	if err != nil {
		return err
	}
	now, err := e.cfg.Store.Thread(ctx, n.row.ID)
	if err != nil || string(now.Decision) != string(n.row.Decision) { // another process has decided, and may already merge
		return err
	}
	_, err = e.change(ctx, n.state, func(row store.Thread, now int64) (store.Thread, []store.Event) {
		row.Status, row.Reason, row.Decision = store.Running, nil, decision
		return row, append([]store.Event{event.New(row, now, event.JoinDecided{
			Join: n.fork.Join, Outcome: r.Outcome, DecidedBy: r.DecidedBy, Cancel: r.Cancel,
		})}, event.Phase(row, n.fork.Plan != nil, now, event.Joining)...)
	})
	return err
}

// resume commits that a blocked thread runs again.
func (e *Engine) resume(ctx context.Context, row store.Thread) error {
	e.setClean(row.ID, false)
	c, _, err := e.load(ctx, row.ID, row.Head)
	if err != nil || c == nil {
		return err
	}
	return e.setRunning(ctx, c, resumed)
}

// setRunning commits that a pending or blocked thread runs, with the events that report it.
func (e *Engine) setRunning(ctx context.Context, c *threadState, events func(store.Thread, int64) []store.Event) error {
	_, err := e.change(ctx, c, func(row store.Thread, now int64) (store.Thread, []store.Event) {
		report := events(row, now)
		row.Status, row.Reason, row.InFlight = store.Running, nil, ""
		return row, report
	})
	return err
}

// cancelTree ends a thread as cancelled, after everything below it. Threads that are being driven have to be
// stopped first: it returns those, and ends nothing above them.
func (e *Engine) cancelTree(ctx context.Context, held *ownership, id string) (stop []string, changed bool, err error) {
	rows, idle, err := held.lockSubtree(ctx, id)
	if err != nil {
		return nil, false, fmt.Errorf("cancel thread %s: %w", id, err)
	}
	waits := map[string]bool{} // for a thread below that is being driven
	for _, row := range slices.Backward(rows) {
		if row.Ended() {
			continue
		}
		if !idle[row.ID] {
			stop = append(stop, row.ID)
		}
		continues := !idle[row.ID] || waits[row.ID]
		if !continues {
			ended, err := e.cancelOne(ctx, row)
			if err != nil {
				return nil, false, err
			}
			continues, changed = !ended, true
		}
		if continues && row.Parent != nil {
			waits[row.Parent.Thread] = true
		}
	}
	return stop, changed, nil
}

// cancelOne ends one thread as cancelled, along with an attempt left by an owner that died. It reports false if
// someone has just begun to drive the thread.
func (e *Engine) cancelOne(ctx context.Context, row store.Thread) (bool, error) {
	if row.Status != store.Pending {
		lease, ok, err := e.cfg.Claim.take(ctx, row.ID)
		if !ok || err != nil {
			return false, err
		}
		leased, _, done := e.withLease(ctx, lease)
		defer done()
		if err := leased.recover(ctx, []store.Thread{row}); err != nil {
			return false, err
		}
		e = leased
	}
	row, err := e.Cancel(ctx, row.ID)
	if err == nil {
		err = e.withdrawAtEnd(ctx, row)
	}
	return true, err
}
