package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/proc"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
)

// A Resume says how a thread goes on.
type Resume struct {
	Prompt  string  // more input, or ""
	Source  string  // where the input came from; "" is resume
	Again   bool    // run an interrupted attempt again though it may have acted
	Full    bool    // assemble prompts past compact marks
	Wait    bool    // while only a person's answer is missing, wait for it
	Options Options // over what the task was started with
}

// errCancelled is the cause of a context cancelled by a recorded wish.
var errCancelled = errors.New("cancelled")

// Drive takes a task's lease, brings the thread back from whatever state it was
// left in, and steps it until it has ended or is blocked. It returns the row
// then. When ctx ends, the agent is stopped and the thread left to be resumed:
// the error is engine.ErrInterrupted. A *store.HeldError says who drives the
// task already. A completed thread with a prompt goes on in a fork from before
// its end; the row is that of the fork.
func (c *Controller) Drive(ctx context.Context, id string, r Resume) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("drive thread %s: %w", id, err)
	}
	if row.Root != row.ID {
		return store.Thread{}, usage("thread %s is part of task %s; resume that", id, row.Root)
	}
	if row.Ended() {
		if r.Prompt == "" {
			return row, nil
		}
		if row, err = c.Fork(ctx, Fork{Thread: id, Prompt: r.Prompt, Source: "resume", Options: r.Options}); err != nil {
			return store.Thread{}, err
		}
		r.Prompt = ""
	}
	lease, err := c.acquire(ctx, row.Root)
	if err != nil {
		var held *store.HeldError
		if errors.As(err, &held) {
			return store.Thread{}, err // it names the task
		}
		return store.Thread{}, fmt.Errorf("drive thread %s: %w", row.ID, err)
	}
	defer lease.Release()
	stop := make(chan struct{})
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		c.views.keep(context.WithoutCancel(ctx), stop)
	}()
	defer func() {
		close(stop)
		<-kept
		c.views.flush(context.WithoutCancel(ctx), row.Bundle)
	}()
	for {
		if row, err = c.recover(ctx, row.ID, r); err != nil {
			return row, err
		}
		if row.Status != store.Blocked && !row.Ended() {
			if row, err = c.loop(ctx, row, r.Full); err != nil {
				return row, err
			}
		}
		if row.Ended() {
			return row, c.withdraw(context.WithoutCancel(ctx), row)
		}
		if !r.Wait || row.Reason == nil || row.Reason.Kind != "gate" {
			return row, nil
		}
		if err := c.answered(ctx, row); err != nil {
			return row, err
		}
		// What was asked for was asked for once.
		r = Resume{Full: r.Full, Wait: r.Wait}
	}
}

// acquire takes a task's lease. Whoever lists threads looks for a moment whether
// it is free; that must not turn away its owner.
func (c *Controller) acquire(ctx context.Context, root string) (lease store.Lease, err error) {
	for range 10 {
		var held *store.HeldError
		if lease, err = c.cfg.Store.Acquire(ctx, root); !errors.As(err, &held) {
			return lease, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil, err
}

// loop steps the thread until it stands still.
func (c *Controller) loop(ctx context.Context, row store.Thread, full bool) (store.Thread, error) {
	step, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
			cancel(engine.ErrInterrupted)
		case <-step.Done():
		}
	}()
	watching, id := make(chan struct{}), row.ID
	go func() {
		defer close(watching)
		c.watch(step, id, func() { cancel(errCancelled) })
	}()
	defer func() { cancel(nil); <-watching }()

	e := c.newEngine(full)
	for {
		next, err := e.Step(step, id, row.Head)
		if err != nil {
			return row, err
		}
		if next.Ended() || next.Status == store.Blocked {
			return next, nil
		}
		if step.Err() != nil && errors.Is(context.Cause(step), engine.ErrInterrupted) && next.InFlight == "" {
			return next, engine.ErrInterrupted
		}
		row = next
	}
}

// watch calls cancel when somebody asks for the thread to be cancelled.
func (c *Controller) watch(ctx context.Context, id string, cancel func()) {
	for pos := int64(0); ; {
		next, err := c.cfg.Store.Wait(ctx, pos)
		if err != nil {
			return // ctx ended, or the store did: the engine will see it too
		}
		pos = next
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil {
			return
		}
		if row.Wanted == store.WantCancel && !row.Ended() {
			cancel()
			return
		}
	}
}

// recover brings a thread back to where it can be stepped: it ends what is left
// of attempts whose owner died, and takes in what a person added. The caller
// holds the lease, so nobody else drives the task.
func (c *Controller) recover(ctx context.Context, id string, r Resume) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("resume thread %s: %w", id, err)
	}
	attempts, err := c.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: id})
	if err != nil {
		return store.Thread{}, fmt.Errorf("resume thread %s: %w", id, err)
	}
	var last *store.Attempt
	for i := range attempts {
		a := &attempts[i]
		if a.Status == store.AttemptRunning {
			if err := c.interrupted(ctx, &row, a); err != nil {
				return store.Thread{}, err
			}
		}
		if a.From == row.Head {
			last = a
		}
	}
	if row.Wanted == store.WantCancel {
		return row, nil // the engine ends it
	}
	was := row
	if !r.Options.empty() {
		if row, err = c.withOptions(ctx, row, r.Options); err != nil {
			return store.Thread{}, err
		}
	}
	if r.Prompt == "" && row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind == "input" {
		return row, nil
	}
	stays, err := c.unanswered(ctx, row, last, r.Again)
	switch {
	case err != nil:
		return store.Thread{}, err
	case stays == nil:
		return c.wake(ctx, was, row, r)
	case r.Prompt != "":
		return store.Thread{}, usage("thread %s: %s", row.ID, stays.Message)
	case row.Status == store.Blocked && row.Reason != nil && *row.Reason == *stays:
		return row, nil
	}
	return c.block(ctx, row, *stays)
}

// wake commits what a person added and that the thread runs again.
func (c *Controller) wake(ctx context.Context, was, row store.Thread, r Resume) (store.Thread, error) {
	change := store.Batch{}
	now := c.cfg.Now().UnixMilli()
	if r.Prompt != "" {
		ch, err := c.input(ctx, row, cmp.Or(r.Source, "resume"), r.Prompt, now)
		if err != nil {
			return store.Thread{}, fmt.Errorf("resume thread %s: %w", row.ID, err)
		}
		row, change.Objects = ch.Row, ch.Objects
	}
	if row.Status == store.Pending {
		// The first attempt makes it run.
		if len(change.Objects) == 0 && string(row.Options) == string(was.Options) {
			return row, nil
		}
	} else {
		row.Status, row.Reason = store.Running, nil
	}
	row.InFlight, row.UpdatedAt = "", now
	change.Threads = []store.ThreadChange{{Row: row, From: was.State()}}
	if was.Status != store.Pending {
		change.Events = []store.Event{newEvent(row, "thread.resumed", map[string]any{"from": was.Status, "head": row.Head})}
		if was.Status == store.Blocked {
			change.Events = append(change.Events, newEvent(row, "task.updated", map[string]any{"state": "working"}))
		}
	}
	if err := c.cfg.Store.Commit(ctx, change); err != nil {
		return store.Thread{}, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	return row, nil
}

// input returns the change that adds what a person said to a thread.
func (c *Controller) input(ctx context.Context, row store.Thread, source, text string, now int64) (thread.Change, error) {
	tip, err := c.reader.Tip(ctx, row.Head)
	if err != nil {
		return thread.Change{}, err
	}
	return thread.Append(row, tip, thread.Draft{
		Role: thread.RoleInput, Meta: thread.InputMeta(source, ""), Text: text, Detail: byPerson(now), At: now,
	})
}

// byPerson is the detail of a step that a person made.
func byPerson(now int64) *thread.Detail {
	d := &thread.Detail{StartedAt: now, EndedAt: now, Attempts: []thread.Earlier{}, Context: []thread.ContextUse{}}
	if by := person(); by != "" {
		d.By = &by
	}
	return d
}

func (c *Controller) block(ctx context.Context, row store.Thread, why store.Reason) (store.Thread, error) {
	was := row
	row.Status, row.Reason, row.UpdatedAt = store.Blocked, &why, c.cfg.Now().UnixMilli()
	err := c.cfg.Store.Commit(ctx, store.Batch{
		Threads: []store.ThreadChange{{Row: row, From: was.State()}},
		Events: []store.Event{
			newEvent(row, "thread.blocked", map[string]any{"kind": why.Kind, "message": why.Message}),
			newEvent(row, "task.updated", map[string]any{"state": "input-required"}),
		},
	})
	if err != nil {
		return store.Thread{}, fmt.Errorf("block thread %s: %w", row.ID, err)
	}
	return row, nil
}

// interrupted ends what is left of an attempt whose owner died, and keeps its
// logs.
func (c *Controller) interrupted(ctx context.Context, row *store.Thread, a *store.Attempt) error {
	fail := func(err error) error { return fmt.Errorf("end attempt %s: %w", a.ID, err) }
	if a.PID != 0 {
		if err := proc.Kill(a.PID, a.PIDStart); err != nil {
			return fail(err)
		}
	}
	if a.Tag != "" {
		if _, err := proc.Sweep(ctx, a.Tag); err != nil {
			return fail(err)
		}
	}
	err := task.At(row.Workspace, row.Task).Left(a.Instance, a.ID, func(events, stderr io.Reader) error {
		return errors.Join(c.keepLog(ctx, a.ID, events, &a.Transcript), c.keepLog(ctx, a.ID, stderr, &a.Stderr))
	})
	if err != nil {
		return fail(err)
	}
	was := *row
	a.Status, a.EndedAt = store.AttemptInterrupted, c.cfg.Now().UnixMilli()
	a.Failure = &store.Failure{Kind: agent.Interrupted, Message: "Plait ended while the agent was at work"}
	ev := newEvent(*row, "attempt.interrupted", map[string]any{"role": a.Role, "kind": a.Failure.Kind, "message": a.Failure.Message})
	ev.TS, ev.Instance, ev.Attempt = a.EndedAt, a.Instance, a.ID
	batch := store.Batch{
		Attempts: []store.AttemptChange{{Row: *a, From: store.AttemptRunning}},
		Events:   []store.Event{ev}, Unpin: []string{a.ID},
	}
	if row.InFlight == a.ID {
		row.InFlight, row.UpdatedAt = "", a.EndedAt
		batch.Threads = []store.ThreadChange{{Row: *row, From: was.State()}}
	}
	if err := c.cfg.Store.Commit(ctx, batch); err != nil {
		return fail(err)
	}
	return nil
}

// keepLog keeps a log as a blob, unless it is empty.
func (c *Controller) keepLog(ctx context.Context, pin string, log io.Reader, into *dag.Hash) error {
	h, n, err := c.cfg.Store.Stage(ctx, pin, log)
	if err == nil && n > 0 {
		*into = h
	}
	return err
}

// withOptions returns row with further options, when every role still has an
// agent with them.
func (c *Controller) withOptions(ctx context.Context, row store.Thread, over Options) (store.Thread, error) {
	opts, err := optionsOf(row)
	if err != nil {
		return store.Thread{}, err
	}
	if row.Options, err = json.Marshal(opts.With(over)); err != nil {
		return store.Thread{}, err
	}
	def, err := c.newEngine(false).Definition(ctx, row)
	if err != nil {
		return store.Thread{}, err
	}
	return row, c.checkAgents(row, def)
}
