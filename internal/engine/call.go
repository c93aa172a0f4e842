package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Call is what a thread waits for whose next step is done by another flow.
type Call struct {
	Role  string
	Child store.Thread // the newest one called from this head
}

// call makes the child that does a role's work, once, and returns how it stands.
func (e *Engine) call(ctx context.Context, c *cursor, d flow.Call) (Stand, error) {
	keep := context.WithoutCancel(ctx)
	child, n, err := e.newest(keep, c, d.Role)
	if err != nil {
		return Stand{}, err
	}
	if n > 0 {
		return Stand{Thread: c.row, Call: &Call{d.Role, child}}, nil
	}
	if ctx.Err() != nil {
		return stand(e.stopped(ctx, c))
	}
	return e.makeChild(keep, c, d, 1, started(c.row, e.now()))
}

// makeChild commits a child and that its caller waits for it, unless a limit
// forbids it.
func (e *Engine) makeChild(ctx context.Context, c *cursor, d flow.Call, n int, events []store.Event) (Stand, error) {
	why := e.rounds(c)
	if why == nil {
		why = c.account.exhausted(e.now())
	}
	if why == nil {
		why = c.account.tooDeep()
	}
	if why != nil {
		return stand(e.block(ctx, c, *why))
	}
	batch := store.Batch{Events: events}
	now := e.now()
	rounds, err := e.childRounds(ctx, c.row, d.Flow)
	if err != nil {
		return Stand{}, err
	}
	objects, child, err := thread.Call(thread.Child{
		Parent: c.row, Since: c.stamp, Role: d.Role, N: n, Flow: d.Flow, Depth: c.depth + 1, Prompt: d.Prompt, MaxRounds: rounds, Now: now,
	})
	if err != nil {
		return Stand{}, err
	}
	if d.Location != "" {
		if child.Tree, err = Inside(cmp.Or(child.Tree, child.Workspace), d.Location); err != nil {
			return stand(e.block(ctx, c, store.Reason{Kind: store.ReasonAttempts, Message: d.Role + ": " + err.Error()}))
		}
	}
	row := c.row
	row.Status, row.Reason, row.UpdatedAt, row.InFlight = store.Running, nil, now, ""
	batch.Objects = append(batch.Objects, objects...)
	batch.Threads = append(batch.Threads, store.ThreadChange{Row: child}, store.ThreadChange{Row: row, From: c.row.State()})
	moved, err := e.spawn(ctx, c, batch, row)
	if err != nil || !moved {
		e.Forget(c.row.ID)
		return Stand{Thread: c.row}, err
	}
	c.row = row
	delete(c.made, d.Role)
	return Stand{Thread: row, Call: &Call{d.Role, child}}, nil
}

// childRounds returns the limit on the rounds of a child of another flow, zero for none.
func (e *Engine) childRounds(ctx context.Context, row store.Thread, flow string) (int, error) {
	def, err := e.pinned(ctx, row.Bundle, flow)
	if err != nil {
		return 0, err
	}
	limits, err := e.cfg.Limits(row, def)
	return limits.MaxRounds, err
}

// calling returns the cursor of a thread that stands at a call, and its child.
func (e *Engine) calling(ctx context.Context, id string, from dag.Hash) (*cursor, flow.Call, store.Thread, int, error) {
	fail := func(err error) (*cursor, flow.Call, store.Thread, int, error) {
		return nil, flow.Call{}, store.Thread{}, 0, err
	}
	c, _, err := e.load(ctx, id, from)
	if err != nil {
		return fail(err)
	}
	if c == nil {
		return fail(fmt.Errorf("thread %s has moved on: %w", id, store.ErrConflict))
	}
	d, ok := flow.Next(c.def, c.at(), c.last).(flow.Call)
	if !ok {
		return fail(fmt.Errorf("thread %s is at no call: %w", id, store.ErrConflict))
	}
	d.Location = c.where(d.Location)
	child, n, err := e.newest(ctx, c, d.Role)
	if err == nil && n == 0 {
		err = fmt.Errorf("thread %s has called nobody: %w", id, store.ErrConflict)
	}
	return c, d, child, n, err
}

// Return commits the caller's step once its child has ended, or blocks the caller
// when the child did not complete and the flow has no route for that.
func (e *Engine) Return(ctx context.Context, id string, from dag.Hash) (Stand, error) {
	ctx = context.WithoutCancel(ctx)
	c, d, child, n, err := e.calling(ctx, id, from)
	if err != nil {
		return Stand{}, err
	}
	if !child.Ended() {
		return Stand{}, fmt.Errorf("thread %s: its child %s is still %s: %w", id, child.ID, child.Status, store.ErrConflict)
	}
	draft, status, err := e.returned(ctx, c, d, child, n)
	if err != nil {
		return Stand{}, fmt.Errorf("read child %s: %w", child.ID, err)
	}
	if _, ok := c.def.Graph[d.Role][status]; !ok && status != flow.Suspend {
		why := fmt.Sprintf("%s: flow %s %s in thread %s, and the graph has no route for %s", d.Role, d.Flow, child.Status, child.ID, status)
		return stand(e.block(ctx, c, store.Reason{Kind: store.ReasonChild, Message: why}))
	}
	return e.append(ctx, c, draft, func(ch thread.Change) store.Event {
		return event.New(c.row, draft.At, event.AgentEnded{
			State: store.Completed, Role: d.Role, Status: status, Child: child.ID, Step: ch.Step.Hash, N: ch.Row.Steps,
		})
	})
}

// calledStatus is what a child's end means to a caller whose schema does not know
// better.
var calledStatus = map[store.Status]string{
	store.Completed: flow.CallDone, store.Failed: flow.CallFailed, store.Cancelled: flow.CallCancelled,
}

// returned makes the step of a caller out of how its child ended: the text of the
// child's last routed step, and its meta when the role's schema accepts it.
func (e *Engine) returned(ctx context.Context, c *cursor, d flow.Call, child store.Thread, n int) (draft thread.Draft, status string, err error) {
	end, err := e.cfg.Reader.State(ctx, child.Head)
	if err != nil {
		return draft, "", err
	}
	fallback := map[string]any{}
	if err := json.Unmarshal(end.Meta, &fallback); err != nil {
		return draft, "", err
	}
	status = calledStatus[child.Status]
	fallback["$status"] = status
	meta, err := dag.Marshal(fallback)
	if err != nil {
		return draft, "", err
	}
	draft = thread.Draft{
		Role: d.Role, Meta: meta, ChildThread: child.Head, At: e.now(),
		Detail: &thread.Detail{
			Agent: d.Flow, StartedAt: child.CreatedAt, EndedAt: child.EndedAt, Attempts: []thread.Earlier{}, Context: []thread.ContextUse{},
		},
	}
	for i := 1; i <= n; i++ { // those called before did not complete, but cost something too
		used, err := e.usage(ctx, thread.DerivedID(c.stamp, c.row.ID, c.row.Head, d.Role, i))
		if err != nil {
			return draft, "", err
		}
		draft.Detail.Usage = draft.Detail.Usage.Add(used)
	}
	for s, err := range e.cfg.Reader.Walk(ctx, child.Head) {
		if err != nil {
			return draft, "", err
		}
		if !thread.Routed(s.State.Role) {
			continue
		}
		content, err := e.cfg.Reader.Content(ctx, s.State.Content)
		if err != nil {
			return draft, "", err
		}
		draft.Text, draft.Artifacts = content.Text, content.Artifacts
		var fields map[string]any
		if child.Status == store.Cancelled || !hasSchema(c.def.Roles[d.Role]) || json.Unmarshal(s.State.Meta, &fields) != nil {
			break
		}
		if own, ok := fields["$status"].(string); ok && c.def.Validate(d.Role, fields) == nil {
			draft.Meta, status = s.State.Meta, own
		}
		break
	}
	return draft, status, nil
}

// Recall makes a blocked thread call once more, from where a child that did not
// complete was called. It reports false when the thread waits for no such child.
func (e *Engine) Recall(ctx context.Context, id string, from dag.Hash) (store.Thread, bool, error) {
	ctx = context.WithoutCancel(ctx)
	c, d, child, n, err := e.calling(ctx, id, from)
	if errors.Is(err, store.ErrConflict) || err == nil && !child.Ended() {
		return store.Thread{}, false, nil
	}
	if err != nil {
		return store.Thread{}, false, err
	}
	s, err := e.makeChild(ctx, c, d, n+1, resumed(c.row, e.now()))
	return s.Thread, true, err
}
