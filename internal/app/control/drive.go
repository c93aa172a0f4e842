package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/app/people/notes"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Resume says how to resume a thread.
type Resume struct {
	Prompt  string          // more input, or ""
	Source  string          // where the input came from; "" is resume
	About   *thread.Comment // lines that the input is about, see About; or nil
	Again   bool            // repeat the attempts that are cut off now though they may have acted
	Wait    bool            // wait when only a person's answer is missing
	Options Options         // override those the task was started with; with On, workers continue, see handOver
	Upload  *Upload         // with On, for a task of this machine: where its files go; nil: workers have the same directory

	part string            // the thread of the task that the prompt is for, "" for none in particular
	Note func(note string) // called with a note if there was nothing to do; nil: notes are dropped
}

func (r Resume) note(note string) {
	if r.Note != nil {
		r.Note(note)
	}
}

// A RecordedError reports that a person's input was recorded, and that the process that drives the task will
// read it.
type RecordedError struct{ Held *store.HeldError }

func (e *RecordedError) Error() string { return "recorded: " + e.Held.Error() }

// Unwrap returns the error that names the driver of the task.
func (e *RecordedError) Unwrap() error { return e.Held }

// Drive takes a task's lease, records what the person asks for, and drives the task until it has ended or
// cannot continue without a person. It then returns the row. When ctx ends, Drive stops the agents and leaves
// the task to be resumed; the error is engine.ErrInterrupted. If another process already drives the task, a
// prompt is recorded for it and the error is a *RecordedError; without a prompt it is a *store.HeldError. A
// prompt to a completed thread continues in a fork from before its end, whose row is returned.
//
// For a task of the team, Drive records what the person asks and then follows the task, since workers drive it.
func (c *Controller) Drive(ctx context.Context, id string, r Resume) (store.Thread, error) {
	row, err := c.underLease(ctx, id, r, (*Controller).drive)
	if err == nil && !row.Ended() && Team(row) {
		return c.waitUntilIdle(ctx, row.ID, r.Wait)
	}
	return row, err
}

// Ask records what a person asks of a task for the next process that drives it. It returns the same as
// [Controller.Drive], but drives nothing.
func (c *Controller) Ask(ctx context.Context, id string, r Resume) (store.Thread, error) {
	return c.underLease(ctx, id, r, (*Controller).askOnly)
}

func (c *Controller) askOnly(ctx context.Context, row store.Thread, r Resume) (store.Thread, error) {
	return row, c.ask(ctx, row, r)
}

// A TakenError reports that another process has taken over a task that this one drove, because this one had
// been silent for too long. What it did since then is not recorded.
type TakenError struct{ Row store.Thread }

func (e *TakenError) Error() string {
	return "another process has taken task " + e.Row.ID + " over, since this one was silent for too long"
}

// Unwrap makes it an interruption: the task continues elsewhere.
func (e *TakenError) Unwrap() error { return engine.ErrInterrupted }

// withLease returns c for the holder of a task's lease: what it commits, answers in notes included, is refused once
// another process holds the lease.
func (c *Controller) withLease(l store.Lease) *Controller {
	held := *c
	held.cfg.Store = store.Under(c.cfg.Store, l)
	held.gates = gate.New(gate.Config{Store: held.cfg.Store, Now: c.cfg.Now, Signing: c.cfg.Signing})
	return &held
}

// underLease calls do with a task that may continue, while this process holds its lease.
func (c *Controller) underLease(ctx context.Context, id string, r Resume,
	do func(c *Controller, ctx context.Context, row store.Thread, r Resume) (store.Thread, error),
) (store.Thread, error) {
	if strings.TrimSpace(r.Prompt) == "" {
		r.Prompt = ""
	}
	if err := checkText("the prompt", r.Prompt); err != nil {
		return store.Thread{}, err
	}
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("drive thread %s: %w", id, err)
	}
	if row.Root != row.ID && r.Prompt == "" {
		return store.Thread{}, usage("thread %s is part of task %s; resume the task", id, row.Root)
	}
	row, r.part, err = c.taskOf(ctx, row)
	if err != nil {
		return store.Thread{}, err
	}
	if err := c.mayContinue(row, r.Options.On == OnTeam); err != nil {
		return store.Thread{}, err
	}
	if row.Ended() {
		if r.Prompt == "" {
			return row, nil
		}
		f := Fork{Thread: id, Prompt: r.Prompt, Source: "resume", About: r.About, Options: r.Options,
			InPlace: true}
		if row, err = c.Fork(ctx, f); err != nil {
			return store.Thread{}, err
		}
		r.Prompt = ""
	}
	if r.Options.On == OnTeam && !Team(row) {
		if row, err = c.handOver(ctx, row, r); err != nil {
			return row, err
		}
		r.Options.Needs, r.Again = nil, false
	}
	if Team(row) {
		return row, c.askTeam(ctx, row, r)
	}
	lease, err := c.acquire(ctx, row.Root)
	var held *store.HeldError
	if errors.As(err, &held) && r.Prompt != "" {
		if err := c.queueInput(ctx, row, r); err != nil {
			return store.Thread{}, err
		}
		r.Prompt = ""
		lease, err = c.acquire(ctx, row.Root) // the previous driver may have stopped before it read the input
		if errors.As(err, &held) {
			return row, &RecordedError{held}
		}
	}
	if errors.As(err, &held) {
		c.cfg.Log.Info("lease held by another", "task", row.Root)
		return store.Thread{}, err // it already names the task
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("drive thread %s: %w", row.ID, err)
	}
	defer lease.Release()
	c.cfg.Log.Info("lease taken", "task", row.Root)
	leased, done := engine.WhileHeld(ctx, lease)
	defer done()
	root := row
	row, err = do(c.withLease(lease), leased, row, r)
	if errors.Is(err, store.ErrFenced) || errors.Is(context.Cause(leased), store.ErrFenced) {
		row, err = root, &TakenError{root}
	}
	c.cfg.Log.Info("drive ended", "task", row.Root, "status", row.Status, "steps", row.Steps, "failed", err != nil)
	return row, err
}

// mayContinue returns why a task cannot continue, here or, with team, with workers. Ended or cancelled tasks are
// always allowed.
func (c *Controller) mayContinue(row store.Thread, team bool) error {
	opts, err := record.OptionsOf(row)
	switch {
	case err != nil:
		return err
	case row.Ended() || row.Intent == store.IntentCancel:
		return nil
	case opts.Replay != "" && c.player == nil:
		return usage("task %s is a replay and cannot be resumed; replay task %s again", row.ID, opts.Replay)
	case opts.Imported != "":
		return usage("task %s was imported from %s; use resume --trust to take it over", row.ID,
			opts.Imported)
	case opts.On == OnTeam, team:
		return nil // no agent is started here
	}
	return c.cfg.NoAgents
}

// taskOf returns the task of a thread, and the thread's id if it is a part of that.
func (c *Controller) taskOf(ctx context.Context, row store.Thread) (root store.Thread, part string, err error) {
	if row.Root == row.ID {
		return row, "", nil
	}
	if root, err = c.cfg.Store.Thread(ctx, row.Root); err != nil {
		return root, "", fmt.Errorf("drive thread %s: %w", row.ID, err)
	}
	if root.Ended() {
		return root, "", usage("thread %s is part of task %s, which has ended", row.ID, row.Root)
	}
	return root, row.ID, nil
}

// ReadNotes reads what people wrote into the notes of a task that is not being driven, and reports whether that
// answered a question. If the task is being driven it reads nothing, since the driver does. Those of a team's task are
// not read.
func (c *Controller) ReadNotes(ctx context.Context, row store.Thread) (answered bool, err error) {
	if Team(row) {
		return false, nil
	}
	var held *store.HeldError
	for _, name := range []string{store.NotesLease(row.Root), row.Root} {
		lease, err := c.cfg.Store.Acquire(ctx, name)
		if errors.As(err, &held) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the notes of task %s: %w", row.ID, err)
		}
		defer lease.Release()
	}
	return notes.Read(ctx, c.notesOf(row)), nil
}

// acquire takes the lease of a task. A process that only reads the task's notes holds the lease briefly:
// acquire waits for it.
func (c *Controller) acquire(ctx context.Context, task string) (store.Lease, error) {
	for again := true; ; {
		lease, err := c.cfg.Store.Acquire(ctx, task)
		var held *store.HeldError
		if !errors.As(err, &held) {
			return lease, err
		}
		_, read, lookErr := c.cfg.Store.Holder(ctx, store.NotesLease(task))
		if lookErr != nil || !read && !again {
			return nil, err
		}
		again = read // the reader may have released it between the two looks: look once more
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c *Controller) notesOf(row store.Thread) notes.Config {
	return notes.Config{
		Store: c.cfg.Store, Gates: c.gates, Row: row, Now: c.cfg.Now, Debounce: c.cfg.NotesDebounce, Poll: c.cfg.PollNotes,
	}
}

// drive drives a task whose lease the caller holds.
func (c *Controller) drive(ctx context.Context, row store.Thread, r Resume) (store.Thread, error) {
	bg := context.WithoutCancel(ctx)
	defer c.publishViews(bg, row)()
	if err := c.ask(ctx, row, r); err != nil {
		return row, err
	}
	defer notes.Watch(bg, c.notesOf(row))()
	return c.newEngine(r.Wait).Run(ctx, row.ID)
}

// publishViews draws a task that is being driven, and has it watched, until done is called.
func (c *Controller) publishViews(ctx context.Context, row store.Thread) (done func()) {
	stop := make(chan struct{})
	indexing, leave := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { c.views.keep(ctx, row, stop) })
	kept.Go(func() { c.views.index.Keep(indexing, indexEvery, IndexShare) })
	unwatch := func() {}
	if c.cfg.Watch != nil {
		unwatch = c.cfg.Watch(ctx, row)
	}
	return func() {
		unwatch()
		close(stop)
		leave()
		kept.Wait()
		if c.views.flush(ctx, row) == nil {
			c.views.directory(ctx, row.ID, false)
		}
	}
}
