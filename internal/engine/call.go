package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A callState is the child that a thread waits for when its next step is done by another flow.
type callState struct {
	flow.Call
	child store.Thread // the newest child called from this head
	n     int          // how many were called; all but the newest did not complete
	route bool         // it has ended, and the flow has a route for how
}

// call makes the child that does a role's work, once, and takes over its result when it has ended.
func (e *Engine) call(ctx context.Context, c *threadState, d flow.Call) (StepResult, error) {
	bg := context.WithoutCancel(ctx)
	w, err := e.child(bg, c, d)
	switch {
	case err != nil:
		return StepResult{}, err
	case w.n > 0 && w.child.Ended():
		return at(e.returned(bg, c, w))
	case w.n > 0:
		return StepResult{Thread: c.Row, Waits: true}, nil
	case ctx.Err() != nil:
		return at(e.stopped(ctx, c))
	}
	row, err := e.makeChild(bg, c, d, 1, started)
	return StepResult{Thread: row, Waits: row.Status == store.Running}, err
}

// makeChild commits a child, and the fact that its caller waits for it, unless a limit forbids it. events
// returns the caller's events.
func (e *Engine) makeChild(ctx context.Context, c *threadState, d flow.Call, n int,
	events func(store.Thread, int64) []store.Event) (store.Thread, error) {
	if err := e.readAccount(ctx, c); err != nil {
		return store.Thread{}, err
	}
	if why := cmp.Or(outOfRounds(c, d.Role), c.account.exhausted(e.now()), c.account.tooDeep()); why != nil {
		return e.block(ctx, c, *why)
	}
	rounds, err := e.childRounds(ctx, c.Row, d.Flow)
	if err != nil {
		return store.Thread{}, err
	}
	tree := c.Row.Tree
	if dir := c.Where(d.Location); dir != "" {
		if tree, err = worktree.Inside(worktree.Of(c.Row), dir); err != nil {
			return e.block(ctx, c, store.Reason{Kind: store.ReasonAttempts, Message: d.Role + ": " + err.Error()})
		}
	}
	_, err = e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		objects, child, err := thread.Call(thread.Child{
			Parent: row, Since: c.Stamp, Role: d.Role, N: n, Flow: d.Flow, Depth: c.Depth + 1, Prompt: d.Prompt,
			MaxRounds: rounds, Now: now,
		})
		if err != nil {
			return nil, store.Batch{}, err
		}
		child.Tree = tree
		batch := store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: child}},
			Events: append(events(row, now),
				event.New(row, now, event.ThreadCalled{Role: d.Role, Flow: d.Flow, Child: child.ID}))}
		row.Status, row.Reason, row.UpdatedAt, row.InFlight = store.Running, nil, now, ""
		next := c.with(row)
		next.spawned = nil
		return next, batch, nil
	})
	return c.Row, err
}

// childRounds returns the limit on the rounds of a child of another flow, zero for none.
func (e *Engine) childRounds(ctx context.Context, row store.Thread, flow string) (int, error) {
	def, err := e.record.Flow(ctx, row.Bundle, flow)
	if err != nil {
		return 0, err
	}
	limits, err := record.Limits(row, def, e.cfg.Limits)
	return limits.MaxRounds, err
}

// child reads what a thread whose next step is a call has called.
func (e *Engine) child(ctx context.Context, c *threadState, d flow.Call) (callState, error) {
	newest, err := e.newest(ctx, c, []string{d.Role})
	if err != nil {
		return callState{}, err
	}
	return callState{Call: d, child: newest[0].row, n: newest[0].n}, nil
}

// returned commits the caller's step once its child has ended, or blocks the caller when the child did
// not complete and the flow has no route for that.
func (e *Engine) returned(ctx context.Context, c *threadState, w callState) (store.Thread, error) {
	draft, status, err := e.returnedStep(ctx, c, w)
	if err != nil {
		return store.Thread{}, err
	}
	if !c.Def.Leads(w.Role, status) {
		why := fmt.Sprintf("%s: flow %s %s in thread %s, and the graph has no route for %s", w.Role, w.Flow,
			w.child.Status, w.child.ID, status)
		return e.block(ctx, c, store.Reason{Kind: store.ReasonChild, Message: why})
	}
	if w.child.Host != "" {
		c.Row.Host = w.child.Host // they share a tree
	}
	return e.append(ctx, c, draft, func(ch thread.Change) store.Event {
		return event.New(c.Row, draft.At, event.AgentEnded{
			State: "completed", Role: w.Role, Status: status, Child: w.child.ID, Step: ch.Step.Hash, N: ch.Row.Steps,
		})
	})
}

// returnedStep makes the caller's step from how its child ended: the text of the child's last routed step, and
// its meta if the role's schema accepts it.
func (e *Engine) returnedStep(ctx context.Context, c *threadState, w callState) (draft thread.Draft, status string,
	err error) {
	child := w.child
	defer func() {
		if err != nil {
			err = fmt.Errorf("read child %s: %w", child.ID, err)
		}
	}()
	end, err := e.cfg.Reader.State(ctx, child.Head)
	if err != nil {
		return draft, "", err
	}
	draft = thread.Draft{
		Role: w.Role, ChildThread: child.Head, At: e.now(),
		Detail: thread.NewDetail(child.CreatedAt, child.EndedAt),
	}
	draft.Detail.Agent = w.Flow
	// The earlier tries did not complete, but had a cost too.
	if draft.Detail.Usage, err = e.usage(ctx, c.Row.Task, c.tries(w.Role, w.n)); err != nil {
		return draft, "", err
	}
	var last *thread.State
	for s, err := range e.cfg.Reader.Walk(ctx, child.Head) {
		if err != nil {
			return draft, "", err
		}
		if !thread.Routed(s.State.Role) {
			continue
		}
		last = s.State
		content, err := e.cfg.Reader.Content(ctx, last.Content)
		if err != nil {
			return draft, "", err
		}
		draft.Text, draft.Artifacts = content.Text, content.Artifacts
		break
	}
	draft.Meta, status, err = record.Returned(c.Def, w.Role, child.Status, end.Meta, last)
	return draft, status, err
}

// CallAgain makes a blocked thread repeat a call whose child did not complete, from the same head. It reports
// false when the thread waits for no such child.
func (e *Engine) CallAgain(ctx context.Context, id string, from dag.Hash) (bool, error) {
	c, _, err := e.load(ctx, id, from)
	if err != nil || c == nil {
		return false, err
	}
	d, ok := c.Next().(flow.Call)
	if !ok {
		return false, nil
	}
	w, err := e.child(ctx, c, d)
	if err != nil || w.n == 0 || !w.child.Ended() {
		return false, err
	}
	_, err = e.makeChild(ctx, c, w.Call, w.n+1, resumed)
	return true, err
}
