package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// QueueInput records a person's input to a thread for the driver of its task.
func (c *Controller) QueueInput(ctx context.Context, id string, r Resume) error {
	row, part, err := c.taskByID(ctx, id)
	if err != nil {
		return err
	}
	r.part = part
	return c.queueInput(ctx, row, r)
}

// HasOpenInput reports whether a task that continues has input that it has not read yet.
func (c *Controller) HasOpenInput(ctx context.Context, task string) bool {
	row, err := c.cfg.Store.Thread(ctx, task)
	if err != nil || row.Ended() {
		return false
	}
	open, err := c.cfg.Store.Requests(ctx, store.RequestFilter{Task: task, Open: true})
	return err == nil && slices.ContainsFunc(open, func(w store.Request) bool { return w.Kind == store.RequestInput })
}

// CheckInput returns why a thread cannot take input now, if no one drives its task.
func (c *Controller) CheckInput(ctx context.Context, id string, r Resume) error {
	if r.Prompt == "" {
		return nil
	}
	row, part, err := c.taskByID(ctx, id)
	if err != nil {
		return err
	}
	return c.newEngine(false).CheckInput(ctx, row.ID, part, r.About != nil, false)
}

// taskByID is taskOf for a thread's id.
func (c *Controller) taskByID(ctx context.Context, id string) (root store.Thread, part string, err error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return row, "", fmt.Errorf("drive thread %s: %w", id, err)
	}
	return c.taskOf(ctx, row)
}

// queueInput records a person's input, and the options with it, for the driver of a task.
func (c *Controller) queueInput(ctx context.Context, row store.Thread, r Resume) error {
	e, requests := c.newEngine(false), []store.RequestKind{store.RequestInput}
	if err := e.CheckInput(ctx, row.ID, r.part, r.About != nil, true); err != nil {
		return err
	}
	if r.Again || !r.Options.Empty() {
		if _, err := e.WithOptions(ctx, row, r.Options); err != nil {
			return err
		}
		requests = append(requests, store.RequestResume)
	}
	if err := c.allowAgain(ctx, row, r, func(string) (bool, error) { return true, nil }); err != nil {
		return err
	}
	return c.request(ctx, row, r, true, requests...)
}

// ask records what a person asks of a task that is not being driven, or returns why it cannot be done.
func (c *Controller) ask(ctx context.Context, row store.Thread, r Resume) error {
	if row.Intent == store.IntentCancel {
		return nil
	}
	e := c.newEngine(false)
	var requests []store.RequestKind
	if r.Prompt != "" {
		if err := e.CheckInput(ctx, row.ID, r.part, r.About != nil, false); err != nil {
			return err
		}
		requests = append(requests, store.RequestInput)
	}
	switch {
	case row.Status == store.Pending && !r.Again && r.Options.Empty(): // it has not begun: nothing to resume
	case r.Options.Empty():
		requests = append(requests, store.RequestResume)
	default:
		if _, err := e.WithOptions(ctx, row, r.Options); err != nil {
			return err
		}
		requests = append(requests, store.RequestResume)
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
	return c.request(ctx, row, r, Team(row), requests...)
}

// allowAgain records a person's consent that attempts at a task are repeated, if r asks for that.
func (c *Controller) allowAgain(ctx context.Context, row store.Thread, r Resume,
	alive func(id string) (bool, error)) error {
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

// request records all that a person asks of a task, in one batch. With news, the driver is notified.
func (c *Controller) request(ctx context.Context, row store.Thread, r Resume, news bool,
	kinds ...store.RequestKind) error {
	now := c.cfg.Now()
	var b store.Batch
	for _, kind := range kinds {
		id, err := thread.NewID(now, rand.Reader)
		if err != nil {
			return err
		}
		w := store.Request{ID: id, Task: row.Task, Kind: kind, By: gate.Person(),
			Via: cmp.Or(store.Via(r.Source), store.ViaResume), At: now.UnixMilli()}
		if kind == store.RequestInput {
			w.Thread, w.Text = r.part, store.Text(r.Prompt)
			if _, err := thread.NewContent(w.Text, nil); err != nil { // recorded, it would end every run
				return usage("what you say does not fit into the record: it may have %d bytes, as JSON; put what is long into a "+
					"file", dag.MaxBytes)
			}
			if r.About != nil {
				w.Via = thread.SourceComment
				if w.Options, err = json.Marshal(engine.Resumption{About: r.About}); err != nil {
					return err
				}
			}
		} else if w.Options, err = json.Marshal(engine.Resumption{Options: r.Options}); err != nil {
			return err
		}
		b.Requests = append(b.Requests, store.RequestChange{Row: w})
		b.Events = append(b.Events, event.New(row, w.At,
			event.RequestMade{Request: w.ID, Kind: kind, By: w.By, Via: w.Via}))
		if news {
			b.Events = append(b.Events, event.New(row, w.At, event.TaskUpdated{Intent: store.Intent(kind)}))
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
