package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
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
	hears := ""
	if row.Root != row.ID {
		if r.Prompt == "" {
			return store.Thread{}, usage("thread %s is part of task %s; resume that", id, row.Root)
		}
		hears = row.ID
		if row, err = c.cfg.Store.Thread(ctx, row.Root); err != nil {
			return store.Thread{}, fmt.Errorf("drive thread %s: %w", id, err)
		}
		if row.Ended() {
			return store.Thread{}, usage("thread %s is part of task %s, which has ended", id, row.Root)
		}
	}
	if row.Ended() {
		if r.Prompt == "" {
			return row, nil
		}
		if row, err = c.Fork(ctx, Fork{Thread: id, Prompt: r.Prompt, Source: "resume", Options: r.Options, InPlace: true}); err != nil {
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
		c.views.keep(context.WithoutCancel(ctx), row.ID, stop)
	}()
	defer func() {
		close(stop)
		<-kept
		if c.views.flush(context.WithoutCancel(ctx), row.Bundle) == nil {
			c.views.directory(context.WithoutCancel(ctx), row.ID, false)
		}
	}()
	d, err := c.newDrive(ctx, row, r, hears)
	if err != nil {
		return row, err
	}
	return d.run(ctx)
}

// newDrive brings a task back from wherever it was left: what is left of attempts
// whose owner died is ended. The caller holds the lease, so nobody else drives it.
func (c *Controller) newDrive(ctx context.Context, row store.Thread, r Resume, hears string) (*drive, error) {
	d := &drive{Controller: c, task: row.ID, resume: r, hears: hears, work: newWorkload(), stuck: map[string]bool{}}
	rows, err := c.under(ctx, row.ID)
	if err != nil {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	for i := range rows {
		attempts, err := c.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: rows[i].ID, Status: store.AttemptRunning})
		if err != nil {
			return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
		}
		for _, a := range attempts {
			if err := c.interrupted(ctx, &rows[i], &a); err != nil {
				return nil, err
			}
		}
		d.stuck[rows[i].ID] = rows[i].Status == store.Blocked
	}
	if rows[0].Wanted == store.WantCancel {
		d.hears = ""
	} else {
		if err := d.listen(rows); err != nil {
			return nil, err
		}
		if err := c.raise(ctx, rows, r.Options); err != nil {
			return nil, err
		}
	}
	if d.slots, err = c.newSlots(ctx, rows[0], d.work, r.Wait); err != nil {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	d.engine = c.newEngine(r.Full, d)
	return d, nil
}

// listen finds the thread that what a person added is for: the one that waits for
// input, else the task's own unless it waits for others.
func (d *drive) listen(rows []store.Thread) error {
	if d.resume.Prompt == "" {
		d.hears = ""
		return nil
	}
	var asking []string
	waits := false
	for _, row := range rows {
		if row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind == store.ReasonInput {
			asking = append(asking, row.ID)
		}
		waits = waits || row.Parent != nil && row.Parent.Thread == d.task && !row.Ended()
	}
	switch {
	case d.hears != "":
		if !slices.Contains(asking, d.hears) {
			return usage("thread %s does not wait for input", d.hears)
		}
	case len(asking) == 1:
		d.hears = asking[0]
	case len(asking) > 1:
		return usage("several threads wait for input; answer one: plait resume THREAD -p … with one of %s", strings.Join(asking, ", "))
	case rows[0].Status == store.Blocked && rows[0].Reason != nil && rows[0].Reason.Kind == store.ReasonJoin:
		return usage("task %s waits to try its paths again: resume it without more input, or fork it before they began", d.task)
	case waits:
		return usage("task %s waits for its paths or a called flow, and none of them asks for input", d.task)
	default:
		d.hears = d.task
	}
	return nil
}

// run drives the task's thread, and waits for answers when asked to.
func (d *drive) run(ctx context.Context) (store.Thread, error) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { cancel(engine.ErrInterrupted) })()
	defer d.heed(work, cancel)()
	defer d.readNotes(work)()
	for {
		row, err := d.thread(work, d.task)
		if err != nil {
			return row, err
		}
		if row.Ended() {
			return row, d.withdraw(context.WithoutCancel(ctx), row)
		}
		now, err := d.cfg.Store.Thread(context.WithoutCancel(ctx), d.task)
		switch {
		case err != nil:
			return row, fmt.Errorf("drive thread %s: %w", d.task, err)
		case now.Wanted == store.WantCancel && !interrupted(work):
			continue // it came in when nothing was at work
		case !d.resume.Wait:
			return row, nil
		}
		answered, err := d.answered(work, d.task)
		switch {
		case err != nil:
			return row, err
		case interrupted(work):
			return row, engine.ErrInterrupted
		case !answered && work.Err() == nil:
			return row, nil
		}
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

// heed cancels ctx when somebody asks for the task to be cancelled, until the
// function that it returns is called.
func (d *drive) heed(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if err := d.watch(ctx, d.task); ctx.Err() == nil {
			cancel(wished(err))
		}
	}()
	return func() { cancel(nil); <-watching }
}

// wished is why a drive stops watching for a wish: it has come, or the store fails,
// which is nobody's wish.
func wished(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrInterrupted, err)
	}
	return errCancelled
}

// watch returns when somebody asks for the thread to be cancelled, when ctx ends,
// or with the error that keeps it from seeing either.
func (c *Controller) watch(ctx context.Context, id string) error {
	for pos := int64(0); ; {
		next, err := c.cfg.Store.Wait(ctx, pos)
		if err != nil {
			return err
		}
		pos = next
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil {
			return err
		}
		if row.Wanted == store.WantCancel && !row.Ended() {
			return nil
		}
	}
}

// wake takes in what a person added to a thread and lets it run again when
// something has changed since it was blocked.
func (d *drive) wake(ctx context.Context, id string) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	row, err := d.cfg.Store.Thread(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("resume thread %s: %w", id, err)
	}
	if row.Wanted == store.WantCancel || row.Ended() {
		return row, nil
	}
	prompt, stuck := d.heard(id)
	if row.Status == store.Blocked && row.Reason != nil {
		switch row.Reason.Kind {
		case store.ReasonGate, store.ReasonConflict:
		case store.ReasonChild:
			if !stuck || prompt != "" {
				break // more input moves the head: what is called is called from there
			}
			if next, called, err := d.engine.Recall(ctx, id, row.Head); err != nil || called {
				return next, err
			}
		case store.ReasonJoin:
			if stuck {
				return d.engine.Again(ctx, id, row.Head)
			}
			return row, nil
		case store.ReasonInput:
			if prompt == "" {
				return row, nil
			}
		default:
			if !stuck {
				return row, nil
			}
			if row.Reason.Kind == store.ReasonLimit && prompt == "" { // it may be the one that forbade to call again
				if next, called, err := d.engine.Recall(ctx, id, row.Head); err != nil || called {
					return next, err
				}
			}
		}
	}
	attempts, err := d.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: id, From: row.Head})
	if err != nil {
		return store.Thread{}, fmt.Errorf("resume thread %s: %w", id, err)
	}
	var last *store.Attempt
	if n := len(attempts); n > 0 {
		last = &attempts[n-1]
	} else if last, err = d.lastBefore(ctx, row); err != nil {
		return store.Thread{}, fmt.Errorf("resume thread %s: %w", id, err)
	}
	stays, err := d.unanswered(ctx, row, last, d.resume.Again)
	switch {
	case err != nil:
		return store.Thread{}, err
	case stays == nil:
		return d.commitWake(ctx, row, prompt)
	case prompt != "":
		return store.Thread{}, usage("thread %s: %s", row.ID, stays.Message)
	case row.Status == store.Blocked && row.Reason != nil && *row.Reason == *stays:
		return row, nil
	}
	return d.block(ctx, row, *stays)
}

// lastBefore returns the last attempt of the path that a path goes on from, at the
// head that it goes on from, or nil. In a worktree of its own nothing is left of it.
func (c *Controller) lastBefore(ctx context.Context, row store.Thread) (*store.Attempt, error) {
	if row.Path == nil || row.Path.N < 2 || row.Parent == nil || ownTree(row) {
		return nil, nil
	}
	rows, err := c.under(ctx, row.Parent.Thread)
	if err != nil {
		return nil, err
	}
	for _, old := range rows {
		if old.Parent == nil || *old.Parent != *row.Parent || old.Path == nil || old.Path.ID != row.Path.ID || old.Path.N != row.Path.N-1 {
			continue
		}
		attempts, err := c.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: old.ID, From: row.Head})
		if n := len(attempts); err == nil && n > 0 {
			return &attempts[n-1], nil
		}
		return nil, err
	}
	return nil, nil
}

// heard returns what a person added for a thread, once, and whether the thread was
// blocked when the drive began, once.
func (d *drive) heard(id string) (prompt string, stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hears == id {
		prompt, d.hears = d.resume.Prompt, ""
	}
	stuck = d.stuck[id]
	delete(d.stuck, id)
	return prompt, stuck
}

// commitWake commits what a person added and that the thread runs again.
func (d *drive) commitWake(ctx context.Context, row store.Thread, prompt string) (store.Thread, error) {
	if prompt == "" && (row.Status == store.Pending || row.Status == store.Running && row.InFlight == "") {
		return row, nil
	}
	was, batch, now := row, store.Batch{}, d.cfg.Now().UnixMilli()
	if prompt != "" {
		ch, err := d.input(ctx, row, cmp.Or(d.resume.Source, "resume"), prompt, now)
		if err != nil {
			return store.Thread{}, fmt.Errorf("resume thread %s: %w", row.ID, err)
		}
		row, batch.Objects = ch.Row, ch.Objects
	}
	if row.Status != store.Pending { // else the first attempt makes it run
		row.Status, row.Reason, row.UpdatedAt = store.Running, nil, now
		batch.Events = []store.Event{event.New(row, now, event.ThreadResumed{From: was.Status, Head: row.Head})}
		if was.Status == store.Blocked && row.Kind == store.KindRoot {
			batch.Events = append(batch.Events, event.New(row, now, event.TaskUpdated{State: event.Working}))
		}
	}
	row.InFlight, row.UpdatedAt = "", now
	batch.Threads = []store.ThreadChange{{Row: row, From: was.State()}}
	return d.commitRow(ctx, "resume", row, batch)
}

// commitRow commits a batch that changes the row of a thread. Only a wish can come
// in between, since nobody else drives the task: then nothing is changed, and the
// row says so.
func (d *drive) commitRow(ctx context.Context, verb string, row store.Thread, batch store.Batch) (store.Thread, error) {
	err := d.cfg.Store.Commit(ctx, batch)
	d.engine.Forget(row.ID)
	if errors.Is(err, store.ErrConflict) {
		now, readErr := d.cfg.Store.Thread(ctx, row.ID)
		if readErr == nil && now.Wanted != "" {
			return now, nil
		}
		err = errors.Join(err, readErr)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("%s thread %s: %w", verb, row.ID, err)
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

func (d *drive) block(ctx context.Context, row store.Thread, why store.Reason) (store.Thread, error) {
	was := row
	row.Status, row.Reason, row.UpdatedAt = store.Blocked, &why, d.cfg.Now().UnixMilli()
	events := []store.Event{event.New(row, row.UpdatedAt, event.ThreadBlocked{Kind: why.Kind, Message: event.Text(why.Message)})}
	if row.Kind == store.KindRoot {
		events = append(events, event.New(row, row.UpdatedAt, event.TaskUpdated{State: event.InputRequired}))
	}
	return d.commitRow(ctx, "block", row, store.Batch{Threads: []store.ThreadChange{{Row: row, From: was.State()}}, Events: events})
}
