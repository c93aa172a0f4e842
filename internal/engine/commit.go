package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// inlineLog is the largest log that rides in batch B; larger ones are staged
// before it.
const inlineLog = 64 << 10

// logs reads what the attempt added to its logs into blobs.
func (e *Engine) logs(ctx context.Context, p *prepared, desk Desk) ([]store.Object, error) {
	if desk == nil {
		return nil, nil
	}
	var objects []store.Object
	one := func(open func() (io.ReadCloser, int64, error), into *dag.Hash, bytes *int64) error {
		r, size, err := open()
		if err != nil {
			return err
		}
		defer r.Close()
		*bytes = size
		switch {
		case size == 0:
		case size <= inlineLog:
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			*into = dag.Sum(data)
			objects = append(objects, store.Object{Hash: *into, Data: data})
		default:
			if *into, _, err = e.cfg.Store.Stage(ctx, p.row.ID, r); err != nil {
				return err
			}
			p.row.Pins = append(p.row.Pins, *into)
		}
		return nil
	}
	var stderr int64
	if err := errors.Join(one(desk.Transcript, &p.row.Transcript, &p.logged), one(desk.Stderr, &p.row.Stderr, &stderr)); err != nil {
		return nil, fmt.Errorf("keep logs of attempt %s: %w", p.row.ID, err)
	}
	return objects, nil
}

// stop commits an attempt that did not become a step. When the thread moved
// meanwhile the attempt is superseded.
func (e *Engine) stop(ctx context.Context, c *cursor, p *prepared, desk Desk, fail *agent.Failure) (store.Thread, error) {
	interrupted := fail.Kind == agent.Cancelled && errors.Is(context.Cause(ctx), ErrInterrupted)
	ctx = context.WithoutCancel(ctx)
	objects, err := e.logs(ctx, p, desk)
	if err != nil {
		return store.Thread{}, err
	}
	p.row.EndedAt, p.row.Usage = e.now(), store.Usage(fail.Usage)
	if desk != nil {
		p.row.Session = fail.Session // what was not begun leaves its session as it was
	}
	p.row.Failure = &store.Failure{Kind: store.FailureKind(fail.Kind), Message: clip(fail.Message), ResetAt: millis(fail.ResetAt)}
	switch {
	case interrupted:
		p.row.Status, p.row.Failure.Kind = store.AttemptInterrupted, store.FailureInterrupted
		switch {
		case desk == nil:
			p.row.Failure.Message = NotBegun
		case p.asks.unattended() != nil:
			p.row.Failure.Message = "stopped: it waited for an answer, and the run does not wait for people"
		}
	case fail.Kind == agent.Cancelled:
		p.row.Status = store.AttemptCancelled
	default:
		p.row.Status = store.AttemptFailed
	}
	ev := event.OfAttempt(c.row, p.row, p.row.EndedAt, event.AttemptFailed{
		Interrupted: interrupted, Role: p.row.Role, Kind: p.row.Failure.Kind, Message: event.Text(p.row.Failure.Message),
	})
	pins := p.row.Pins
	p.row.Pins = nil
	err = e.cfg.Store.Commit(ctx, store.Batch{
		Objects: objects, Attempts: []store.AttemptChange{{Row: p.row, From: store.AttemptRunning}},
		Events: []store.Event{ev}, Unpin: unpin(p.row.ID, pins),
	})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return store.Thread{}, fmt.Errorf("record failure of attempt %s: %w", p.row.ID, err)
	}
	c.count(p.row, dag.Hash{})
	c.account.spent(p.row)
	return c.row, nil
}

// NotBegun is the failure message of an attempt that was recorded but whose
// agent was never started: it may be run again by anyone.
const NotBegun = "stopped before it began"

func unpin(id string, pins []dag.Hash) []string {
	if len(pins) == 0 {
		return nil
	}
	return []string{id}
}

// step commits batch B: the attempt becomes the step. When the next decision is
// plain, the next attempt's batch A rides in it.
func (e *Engine) step(ctx context.Context, c *cursor, p *prepared, desk Desk, result agent.Result, ans answer) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	objects, err := e.logs(ctx, p, desk)
	if err != nil {
		return store.Thread{}, err
	}
	if ans.whole {
		whole, err := e.wholeOutput(ctx, p, result)
		if err != nil {
			return store.Thread{}, err
		}
		objects = append(objects, whole...)
		ans.artifacts = append(ans.artifacts, whole[0].Hash)
	}
	objects = append(objects, ans.objects...)
	p.row.Status, p.row.EndedAt = store.AttemptDone, e.now()
	p.row.Usage, p.row.Session = store.Usage(result.Usage), result.Session
	p.row.Turn = result.Turn
	pins := p.row.Pins
	p.row.Pins = nil
	c.account.spent(p.row)

	for {
		from := c.row
		ch, err := thread.Append(from, c.tip, thread.Draft{
			Role: p.row.Role, Meta: ans.meta, Text: ans.text, Artifacts: ans.artifacts,
			Detail: detail(p, result), At: p.row.EndedAt,
		})
		if err != nil {
			return store.Thread{}, err
		}
		ch.Row.Status, ch.Row.InFlight = store.Running, ""
		next, err := e.after(ctx, c, ch)
		if err != nil {
			return store.Thread{}, err
		}
		next.count(p.row, ch.Row.Head)
		next.leave(p.row, ch.Row.Head, e.cfg.Home(from.Task))
		batch := store.Batch{
			Objects:  append(ch.Objects, objects...),
			Attempts: []store.AttemptChange{{Row: p.row, From: store.AttemptRunning}},
			Events:   done(from, p, ch, ans),
			Unpin:    unpin(p.row.ID, pins),
		}
		if !e.arrive(next, &batch) {
			e.ride(ctx, next, &batch)
		}
		batch.Threads = []store.ThreadChange{{Row: next.row, From: from.State()}}
		moved, err := e.commit(ctx, c, batch, next.row)
		if err != nil {
			return store.Thread{}, err
		}
		if moved {
			*c = *next
			return c.row, nil
		}
		if c.row.Head != from.Head {
			return e.superseded(ctx, c, p, objects, pins)
		}
		if c.row.Status != from.Status || c.row.InFlight != from.InFlight {
			e.Forget(c.row.ID)
			return c.row, nil
		}
		// Only a wish was recorded meanwhile. What was done is kept: the
		// wish is looked at by the next step.
	}
}

// ride adds the next attempt to the batch that commits this one. Only an
// attempt that may be run again does: between the batch and its start nobody
// can tell whether it began. What stands in the way of preparing it stops
// nothing here: it shows when the next step is begun by itself.
func (e *Engine) ride(ctx context.Context, next *cursor, batch *store.Batch) {
	if next.row.Wanted != "" {
		return
	}
	d, ok := flow.Next(next.def, next.at(), next.last).(flow.Run)
	if !ok || e.rounds(next) != nil || next.account.exhausted(e.now()) != nil || !Repeatable(next.def.Roles[d.Role]) || e.long(next, d.Role) {
		return
	}
	p, err := e.prepare(ctx, next, d, "")
	if err != nil {
		return
	}
	next.row.InFlight = p.row.ID
	next.attempts, next.asked = p.row.N, p.prompt
	next.ready = p
	attempts, events := p.begun(next.row)
	batch.Objects = append(batch.Objects, p.object)
	batch.Attempts = append(batch.Attempts, attempts...)
	batch.Events = append(batch.Events, events...)
}

// Repeatable tells whether an interrupted attempt of role may be run again
// without asking: by its retry.interrupted, else when it only reads.
func Repeatable(role flow.Role) bool {
	if role.Retry.Interrupted != nil {
		return *role.Retry.Interrupted
	}
	return role.Access == "" || role.Access == flow.Access(agent.Read)
}

// superseded records that somebody else made the step first.
func (e *Engine) superseded(ctx context.Context, c *cursor, p *prepared, objects []store.Object, pins []dag.Hash) (store.Thread, error) {
	p.row.Status = store.AttemptSuperseded
	err := e.cfg.Store.Commit(ctx, store.Batch{
		Objects: objects, Attempts: []store.AttemptChange{{Row: p.row, From: store.AttemptRunning}}, Unpin: unpin(p.row.ID, pins),
	})
	e.Forget(c.row.ID)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return store.Thread{}, fmt.Errorf("record attempt %s as superseded: %w", p.row.ID, err)
	}
	return c.row, nil
}

// detail says how the step came about.
func detail(p *prepared, result agent.Result) *thread.Detail {
	d := &thread.Detail{
		Agent: p.worker.Name, Model: result.Model, Instance: p.row.Instance, Session: result.Session,
		Attempt: p.row.ID, Attempts: []thread.Earlier{}, StartedAt: p.row.StartedAt, EndedAt: p.row.EndedAt,
		Prompt: p.row.Prompt, Context: p.uses, Usage: p.row.Usage,
		Transcript: p.row.Transcript, Stderr: p.row.Stderr, Exit: result.Exit, Sandbox: result.Sandbox,
		Evidence: p.evidence,
	}
	if p.before != "" {
		d.TreeBefore = &p.before
	}
	if p.after != "" {
		d.TreeAfter = &p.after
	}
	if d.Context == nil {
		d.Context = []thread.ContextUse{}
	}
	for _, a := range p.earlier {
		d.Attempts = append(d.Attempts, thread.Earlier{ID: a.ID, Failure: a.Failure, Transcript: a.Transcript})
		d.Usage = d.Usage.Add(a.Usage)
	}
	return d
}

// done returns the events of a step.
func done(row store.Thread, p *prepared, ch thread.Change, ans answer) []store.Event {
	var events []store.Event
	at := func(what event.Payload) { events = append(events, event.OfAttempt(row, p.row, p.row.EndedAt, what)) }
	at(event.AttemptCompleted{Role: p.row.Role, Step: ch.Step.Hash, N: ch.Row.Steps, Status: ans.status, Usage: p.row.Usage})
	if len(ans.names) > 0 || len(ans.skipped) > 0 {
		at(event.ArtifactWritten{Names: ans.names, Skipped: ans.skipped})
	}
	for _, added := range ans.proved {
		at(added)
	}
	at(event.AgentEnded{State: store.Completed, Role: p.row.Role, Status: ans.status})
	events = append(events, phase(row, p.role.Plan && ans.status == flow.Planned, p.row.EndedAt, event.Dispatching)...)
	return events
}

// wholeOutput makes an artifact of an output of which the text holds only the
// head: of its bytes, or of the log when even they are only the head.
func (e *Engine) wholeOutput(ctx context.Context, p *prepared, result agent.Result) ([]store.Object, error) {
	a := thread.Artifact{Name: "output", MediaType: "application/octet-stream", Size: p.logged, Blob: p.row.Transcript}
	if !result.Truncated {
		h, n, err := e.cfg.Store.Stage(ctx, p.row.ID, bytes.NewReader(result.Output))
		if err != nil {
			return nil, fmt.Errorf("keep output of attempt %s: %w", p.row.ID, err)
		}
		a.Blob, a.Size = h, n
		p.row.Pins = append(p.row.Pins, h)
	}
	obj, err := thread.NewNode(dag.TypeArtifact, a)
	return []store.Object{obj}, err
}
