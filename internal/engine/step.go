package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Stand is where a thread is after a step: its row, and what it waits for, if
// anything: the paths of a fork, or a child. The caller sees to it that those go
// on, and then calls [Engine.Resolve] and [Engine.Join], or [Engine.Return].
type Stand struct {
	store.Thread
	Fork *Fork
	Call *Call
}

// Step takes the thread one step on from the head from and returns where it is
// afterwards. A thread that is elsewhere, has ended or is blocked is returned as
// it is. The thread runs when the row's status is running and its head has
// moved: call again. A context cancelled with cause [ErrInterrupted] stops the
// agent and leaves the thread running; any other cancellation, or a wish to
// cancel on the row, ends the thread as cancelled.
func (e *Engine) Step(ctx context.Context, id string, from dag.Hash) (Stand, error) {
	// A cancelled context stops agents, never the keeping of the record.
	c, row, err := e.load(context.WithoutCancel(ctx), id, from)
	if err != nil {
		return Stand{}, err
	}
	if c == nil || row.Ended() || row.Status == store.Blocked {
		return Stand{Thread: row}, nil
	}
	if row.Wanted == store.WantCancel {
		if err := e.drop(ctx, c); err != nil {
			return Stand{}, err
		}
		return stand(e.end(ctx, c, cancelled))
	}
	decision := flow.Next(c.def, c.at(), c.last)
	switch d := decision.(type) {
	case flow.End:
		if c.row.Kind == store.KindPath { // only a forked action ends by itself
			return stand(e.endPath(ctx, c, store.Failed, &store.Reason{Kind: store.ReasonFailed, Message: d.Summary}))
		}
		return stand(e.end(ctx, c, d))
	case flow.Blocked:
		return stand(e.block(ctx, c, store.Reason{Kind: blockedKind(d.Kind), Message: d.Reason}))
	case flow.Run:
		d.Location = c.where(d.Location)
		return stand(e.run(ctx, c, d))
	case flow.AtJoin:
		return stand(e.atJoin(ctx, c, d))
	case flow.Gate:
		return stand(e.gate(ctx, c, d))
	case flow.Fork:
		return e.fork(ctx, c, d)
	case flow.Call:
		d.Location = c.where(d.Location)
		return e.call(ctx, c, d)
	}
	return Stand{}, fmt.Errorf("thread %s: no way to carry out %T", id, decision)
}

func stand(row store.Thread, err error) (Stand, error) { return Stand{Thread: row}, err }

// cancelled is how a thread ends that nobody wants to go on.
var cancelled = flow.End{Code: thread.CodeCancelled, Summary: "cancelled"}

// Cancel ends a thread as cancelled, wherever it stands, and returns its row. What
// is below it is the caller's to cancel first.
func (e *Engine) Cancel(ctx context.Context, id string) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	for {
		row, err := e.cfg.Store.Thread(ctx, id)
		if err != nil {
			return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
		}
		if row.Ended() {
			return row, nil
		}
		c, _, err := e.load(ctx, id, row.Head)
		if err != nil {
			return store.Thread{}, err
		}
		if c == nil {
			continue
		}
		if err := e.drop(ctx, c); err != nil {
			return store.Thread{}, err
		}
		if row, err = e.end(ctx, c, cancelled); err != nil || row.Ended() {
			return row, err
		}
	}
}

// drop records that an attempt whose batch A is committed will not be run.
func (e *Engine) drop(ctx context.Context, c *cursor) error {
	p := c.ready
	if c.ready = nil; p == nil {
		return nil
	}
	_, err := e.stop(ctx, c, p, nil, &agent.Failure{Kind: agent.Cancelled, Message: NotBegun})
	return err
}

// Block blocks a thread that waits, because nothing it waits for can go on.
func (e *Engine) Block(ctx context.Context, id string, from dag.Hash, why store.Reason) (store.Thread, error) {
	c, row, err := e.load(context.WithoutCancel(ctx), id, from)
	if err != nil || c == nil {
		return row, err
	}
	return e.block(ctx, c, why)
}

// blockedKind maps what flow calls a block to a reason of the thread. A route
// that cannot be taken is a fault of the flow: a person must see to it.
func blockedKind(kind string) store.ReasonKind {
	if kind == flow.BlockedInput {
		return store.ReasonInput
	}
	return store.ReasonAttempts
}

// end commits the thread's last step. A path has none: its row alone says that it
// was cancelled.
func (e *Engine) end(ctx context.Context, c *cursor, d flow.End) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	if c.row.Kind == store.KindPath {
		return e.endPath(ctx, c, store.Cancelled, &store.Reason{Kind: store.ReasonCancelled, Message: d.Summary})
	}
	return e.change(ctx, c, func(row store.Thread) (thread.Change, store.Batch, error) {
		now := e.now()
		ch, err := thread.End(row, c.tip, d.Code, d.Summary, now)
		if err != nil {
			return ch, store.Batch{}, err
		}
		b := store.Batch{Objects: ch.Objects}
		ended := event.Done
		switch d.Code {
		case thread.CodeDone:
		case thread.CodeCancelled:
			ended = event.Cancelled
		default:
			ended = event.Failed
		}
		b.Events = append(b.Events, phase(row, len(c.def.Plans()) > 0, now, ended)...)
		b.Events = append(b.Events, event.New(row, now, event.ThreadEnded{
			Status: ch.Row.Status, Head: ch.Row.Head, Code: &d.Code, Summary: event.Text(d.Summary),
		}))
		if row.Kind == store.KindRoot {
			b.Events = append(b.Events, event.New(row, now, event.TaskEnded{
				State: event.TaskState(ch.Row.Status), Code: d.Code, Summary: event.Text(d.Summary),
			}))
		}
		return ch, b, nil
	})
}

// block commits that nothing goes on without a person.
// A path out of attempts has failed: its join decides what that means.
func (e *Engine) block(ctx context.Context, c *cursor, why store.Reason) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	if c.row.Kind == store.KindPath && why.Kind == store.ReasonAttempts {
		return e.endPath(ctx, c, store.Failed, &store.Reason{Kind: store.ReasonFailed, Message: why.Message})
	}
	return e.change(ctx, c, func(row store.Thread) (thread.Change, store.Batch, error) {
		now := e.now()
		events := append(started(row, now), phase(row, len(c.def.Plans()) > 0 && c.def.Acts() == "", now, event.Blocked)...)
		return thread.Change{Row: blockedRow(row, why, now), Tip: c.tip}, store.Batch{Events: append(events, blockedEvents(row, why, now)...)}, nil
	})
}

func blockedRow(row store.Thread, why store.Reason, now int64) store.Thread {
	row.Status, row.Reason, row.InFlight, row.UpdatedAt = store.Blocked, &why, "", now
	return row
}

func blockedEvents(row store.Thread, why store.Reason, now int64) []store.Event {
	var out []store.Event
	if why.Kind == store.ReasonLimit {
		out = append(out, event.New(row, now, event.LimitReached{Limit: why.Limit, Message: event.Text(why.Message)}))
	}
	out = append(out, event.New(row, now, event.ThreadBlocked{Kind: why.Kind, Message: event.Text(why.Message)}))
	if row.Kind == store.KindRoot {
		out = append(out, event.New(row, now, event.TaskUpdated{State: event.InputRequired}))
	}
	return out
}

// change commits what build makes of the row. When only a wish was recorded on
// the row meanwhile, it builds again on the new row; when the head moved, the
// row as it is now is returned and nothing was written.
func (e *Engine) change(ctx context.Context, c *cursor, build func(store.Thread) (thread.Change, store.Batch, error)) (store.Thread, error) {
	for {
		from := c.row
		ch, batch, err := build(from)
		if err != nil {
			return store.Thread{}, err
		}
		batch.Threads = []store.ThreadChange{{Row: ch.Row, From: from.State()}}
		moved, err := e.commit(ctx, c, batch, ch.Row)
		if err != nil {
			return store.Thread{}, err
		}
		if moved {
			next, err := e.after(ctx, c, ch)
			if err != nil {
				return store.Thread{}, err
			}
			*c = *next
			return c.row, nil
		}
		if c.row.Head != from.Head || c.row.Status != from.Status {
			e.Forget(c.row.ID)
			return c.row, nil
		}
	}
}

// commit applies batch, which moves the row of c to row. It reports whether
// that is so; when not, c.row is the row as it is.
func (e *Engine) commit(ctx context.Context, c *cursor, batch store.Batch, row store.Thread) (bool, error) {
	err := e.cfg.Store.Commit(ctx, batch)
	if err == nil {
		return true, nil
	}
	now, readErr := e.cfg.Store.Thread(ctx, row.ID)
	if readErr != nil {
		return false, fmt.Errorf("commit to thread %s: %w", row.ID, errors.Join(err, readErr))
	}
	if errors.Is(err, store.ErrConflict) {
		c.row = now
		return false, nil
	}
	// The outcome is unknown: equal heads mean equal pasts, so the head tells.
	if now.Head == row.Head && now.Status == row.Status && now.UpdatedAt == row.UpdatedAt && now.InFlight == row.InFlight && bytes.Equal(now.Decision, row.Decision) {
		return true, nil
	}
	return false, fmt.Errorf("commit to thread %s: %w", row.ID, err)
}

// after returns the cursor as it is once ch is committed.
func (e *Engine) after(ctx context.Context, c *cursor, ch thread.Change) (*cursor, error) {
	n := *c
	n.row, n.tip, n.ready = ch.Row, ch.Tip, nil
	if ch.Step.State != nil {
		n.tries, n.stamp = nil, ch.Step.State.Timestamp
		n.visits, n.sessions = maps.Clone(c.visits), maps.Clone(c.sessions)
		n.last = slices.Clip(c.last) // appending must not write into c's array
		e.cfg.Reader.Remember(ch)
		step, err := e.flowStep(ctx, ch.Step)
		if err != nil {
			return nil, err
		}
		if err := e.advance(ctx, &n, ch.Step, step); err != nil {
			return nil, err
		}
	}
	return &n, nil
}

// stepAt is the step at a node, as flow sees it.
func (e *Engine) stepAt(ctx context.Context, at dag.Hash) (flow.Step, error) {
	s, err := e.cfg.Reader.State(ctx, at)
	if err != nil {
		return flow.Step{}, err
	}
	return e.flowStep(ctx, thread.Step{Hash: at, State: s})
}

// flowStep is a step as flow sees it.
func (e *Engine) flowStep(ctx context.Context, s thread.Step) (flow.Step, error) {
	text, err := e.cfg.Reader.Text(ctx, s.State.Content)
	if err != nil {
		return flow.Step{}, err
	}
	step := flow.Step{Role: s.State.Role, Body: text}
	if json.Unmarshal(s.State.Meta, &step.Meta) != nil {
		step.Meta = nil // meta was checked when it was written
	}
	if s.State.Paths != nil {
		step.Paths, err = e.results(ctx, s.State)
	}
	return step, err
}

// clip keeps texts of the record short.
func clip(s string) string { return event.Clip(s, event.MaxText) }
