package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/app/people/notes"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Resume says how to resume a thread.
type Resume struct {
	Prompt  string  // more input, or ""
	Source  string  // where the input came from; "" is resume
	Again   bool    // repeat the attempts that are cut off now though they may have acted
	Wait    bool    // wait when only a person's answer is missing
	Options Options // override those the task was started with; with On, workers continue, see handOver
	Upload  *Upload // with On, for a task of this machine: where its files go; nil: workers have the same directory

	Note func(note string) // called if nothing had to be done of what was asked for; nil: nothing is told
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

func (c *Controller) askOnly(ctx context.Context, row store.Thread, r Resume, meant string) (store.Thread, error) {
	return row, c.ask(ctx, row, r, meant)
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
	held.gates = gate.New(gate.Config{Store: held.cfg.Store, Now: c.cfg.Now})
	return &held
}

// underLease calls do with a task that may continue, while this process holds its lease.
func (c *Controller) underLease(ctx context.Context, id string, r Resume,
	do func(c *Controller, ctx context.Context, row store.Thread, r Resume, meant string) (store.Thread, error),
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
	row, meant, err := c.taskOf(ctx, row)
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
		f := Fork{Thread: id, Prompt: r.Prompt, Source: "resume", Options: r.Options, InPlace: true}
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
		return row, c.askTeam(ctx, row, r, meant)
	}
	lease, err := c.acquire(ctx, row.Root)
	var held *store.HeldError
	if errors.As(err, &held) && r.Prompt != "" {
		if err := c.queueInput(ctx, row, meant, r); err != nil {
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
	row, err = do(c.withLease(lease), leased, row, r, meant)
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
	case row.Ended() || row.Wanted == store.WantCancel:
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

// taskOf returns the task of a thread, and the part of it that is meant, "" for none.
func (c *Controller) taskOf(ctx context.Context, row store.Thread) (root store.Thread, meant string, err error) {
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

// QueueInput records a person's input to a thread for the driver of its task.
func (c *Controller) QueueInput(ctx context.Context, id string, r Resume) error {
	row, meant, err := c.taskByID(ctx, id)
	if err != nil {
		return err
	}
	return c.queueInput(ctx, row, meant, r)
}

// HasOpenInput reports whether a task that continues has input that it has not read yet.
func (c *Controller) HasOpenInput(ctx context.Context, task string) bool {
	row, err := c.cfg.Store.Thread(ctx, task)
	if err != nil || row.Ended() {
		return false
	}
	open, err := c.cfg.Store.Wishes(ctx, store.WishFilter{Task: task, Open: true})
	return err == nil && slices.ContainsFunc(open, func(w store.Wish) bool { return w.Kind == store.WishInput })
}

// CheckInput returns why a thread cannot take input now, if no one drives its task.
func (c *Controller) CheckInput(ctx context.Context, id string, r Resume) error {
	if r.Prompt == "" {
		return nil
	}
	row, meant, err := c.taskByID(ctx, id)
	if err != nil {
		return err
	}
	return c.newEngine(false).CheckInput(ctx, row.ID, meant, false)
}

// taskByID is taskOf for a thread's id.
func (c *Controller) taskByID(ctx context.Context, id string) (root store.Thread, meant string, err error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return row, "", fmt.Errorf("drive thread %s: %w", id, err)
	}
	return c.taskOf(ctx, row)
}

// queueInput records a person's input, and the options with it, for the driver of a task.
func (c *Controller) queueInput(ctx context.Context, row store.Thread, meant string, r Resume) error {
	e, wishes := c.newEngine(false), []store.WishKind{store.WishInput}
	if err := e.CheckInput(ctx, row.ID, meant, true); err != nil {
		return err
	}
	if r.Again || !r.Options.Empty() {
		if _, err := e.WithOptions(ctx, row, r.Options); err != nil {
			return err
		}
		wishes = append(wishes, store.WishResume)
	}
	if err := c.allowAgain(ctx, row, r, func(string) (bool, error) { return true, nil }); err != nil {
		return err
	}
	return c.wish(ctx, row, meant, r, true, wishes...)
}

// drive drives a task whose lease the caller holds.
func (c *Controller) drive(ctx context.Context, row store.Thread, r Resume, meant string) (store.Thread, error) {
	bg := context.WithoutCancel(ctx)
	defer c.publishViews(bg, row)()
	if err := c.ask(ctx, row, r, meant); err != nil {
		return row, err
	}
	defer notes.Watch(bg, c.notesOf(row))()
	return c.newEngine(r.Wait).Run(ctx, row.ID)
}

// publishViews draws a task that is being driven, and has it watched, until done is called.
func (c *Controller) publishViews(ctx context.Context, row store.Thread) (done func()) {
	stop, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		c.views.keep(ctx, row, stop)
	}()
	unwatch := func() {}
	if c.cfg.Watch != nil {
		unwatch = c.cfg.Watch(ctx, row)
	}
	return func() {
		unwatch()
		close(stop)
		<-kept
		if c.views.flush(ctx, row) == nil {
			c.views.directory(ctx, row.ID, false)
		}
	}
}

// ask records what a person asks of a task that is not being driven, or returns why it cannot be done.
func (c *Controller) ask(ctx context.Context, row store.Thread, r Resume, meant string) error {
	if row.Wanted == store.WantCancel {
		return nil
	}
	e := c.newEngine(false)
	var wishes []store.WishKind
	if r.Prompt != "" {
		if err := e.CheckInput(ctx, row.ID, meant, false); err != nil {
			return err
		}
		wishes = append(wishes, store.WishInput)
	}
	switch {
	case row.Status == store.Pending && !r.Again && r.Options.Empty(): // it has not begun: nothing to resume
	case r.Options.Empty():
		wishes = append(wishes, store.WishResume)
	default:
		if _, err := e.WithOptions(ctx, row, r.Options); err != nil {
			return err
		}
		wishes = append(wishes, store.WishResume)
	}
	alive := func(string) (bool, error) { return false, nil } // the caller holds the task's lease
	if Team(row) {
		alive = func(id string) (bool, error) {
			owners, err := c.cfg.Store.Holders(ctx, []string{store.ThreadLease(id)})
			return len(owners) > 0, err
		}
	}
	if err := c.allowAgain(ctx, row, r, alive); err != nil {
		return err
	}
	return c.wish(ctx, row, meant, r, Team(row), wishes...)
}

// allowAgain records a person's consent that attempts at a task are repeated, if r asks for that.
func (c *Controller) allowAgain(ctx context.Context, row store.Thread, r Resume, alive func(id string) (bool, error)) error {
	if !r.Again {
		return nil
	}
	rows, err := thread.Subtree(ctx, c.cfg.Store, row.ID)
	if err != nil {
		return fmt.Errorf("resume task %s: %w", row.ID, err)
	}
	n, err := c.newEngine(false).AllowAgain(context.WithoutCancel(ctx), rows, alive, gate.Person())
	if err == nil && n == 0 {
		r.note("--again: no attempt that may have changed something is known to be interrupted; one that counts as running " +
			"is asked about once its worker is lost")
	}
	return err
}

// wish records all that a person asks of a task, in one batch. With news, the driver is notified.
func (c *Controller) wish(ctx context.Context, row store.Thread, meant string, r Resume, news bool,
	kinds ...store.WishKind) error {
	now := c.cfg.Now()
	var b store.Batch
	for _, kind := range kinds {
		id, err := thread.NewID(now, rand.Reader)
		if err != nil {
			return err
		}
		w := store.Wish{ID: id, Task: row.Task, Kind: kind, By: gate.Person(),
			Via: cmp.Or(store.Via(r.Source), store.ViaResume), At: now.UnixMilli()}
		if kind == store.WishInput {
			w.Thread, w.Text = meant, store.Text(r.Prompt)
			if _, err := thread.NewContent(w.Text, nil); err != nil { // recorded, it would end every run
				return usage("what you say does not fit into the record: it may have %d bytes, as JSON; put what is long into a "+
					"file", dag.MaxBytes)
			}
		} else if w.Options, err = json.Marshal(engine.Resumption{Options: r.Options}); err != nil {
			return err
		}
		b.Wishes = append(b.Wishes, store.WishChange{Row: w})
		if news {
			b.Events = append(b.Events, event.New(row, w.At, event.TaskUpdated{Wanted: store.Wanted(kind)}))
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	if err := c.cfg.Store.Commit(context.WithoutCancel(ctx), b); err != nil {
		return fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	return nil
}
