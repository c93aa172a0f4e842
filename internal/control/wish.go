package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
)

// Cancel asks for a task to be cancelled. When a process drives it, that process
// does; otherwise it is done here, and the row returned has ended.
func (c *Controller) Cancel(ctx context.Context, id string) (store.Thread, error) {
	for {
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil {
			return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
		}
		if row.Root != row.ID {
			return store.Thread{}, usage("thread %s is part of task %s; cancel that", id, row.Root)
		}
		if row.Ended() {
			return row, nil
		}
		if row.Wanted != store.WantCancel {
			was := row
			row.Wanted = store.WantCancel
			row.UpdatedAt = c.cfg.Now().UnixMilli()
			if row.Status == store.Blocked {
				// The engine ends only what runs.
				row.Status, row.Reason = store.Running, nil
			}
			err := c.cfg.Store.Commit(ctx, store.Batch{
				Threads: []store.ThreadChange{{Row: row, From: was.State()}},
				Events:  []store.Event{newEvent(row, "task.updated", map[string]any{"wanted": store.WantCancel})},
			})
			if errors.Is(err, store.ErrConflict) {
				continue // it moved on: ask again
			}
			if err != nil {
				return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
			}
		}
		row, err = c.Drive(ctx, id, Resume{})
		var held *store.HeldError
		if errors.As(err, &held) {
			return c.cfg.Store.Thread(ctx, id) // its owner has been told
		}
		return row, err
	}
}

// A Fork is a fork by hand.
type Fork struct {
	Thread  string
	At      string  // a step as thread.Reader.Find reads it; "": the last step before the end
	ID      string  // empty: drawn
	Prompt  string  // more input, or ""
	Source  string  // of the input; "" is fork
	Options Options // over those of the thread
}

// Fork makes a new pending task whose head is a step of another thread. It
// copies nothing: the steps are shared. It works in the same tree.
func (c *Controller) Fork(ctx context.Context, f Fork) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, f.Thread)
	if err != nil {
		return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
	}
	at, number, err := c.forkPoint(ctx, row, f.At)
	if err != nil {
		return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
	}
	now := c.cfg.Now()
	id := f.ID
	if id == "" {
		id, err = thread.NewID(now, c.cfg.Random)
	} else if id, err = thread.ParseID(id); err != nil {
		err = usageError{err}
	}
	if err != nil {
		return store.Thread{}, err
	}
	next := thread.Fork(row, id, at, number, now.UnixMilli())
	if next, err = c.withOptions(ctx, next, f.Options); err != nil {
		return store.Thread{}, err
	}
	batch := store.Batch{}
	if f.Prompt != "" {
		ch, err := c.input(ctx, next, cmp.Or(f.Source, "fork"), f.Prompt, now.UnixMilli())
		if err != nil {
			return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
		}
		next, batch.Objects = ch.Row, ch.Objects
	}
	batch.Threads = []store.ThreadChange{{Row: next}}
	batch.Events = []store.Event{
		newEvent(next, "task.created", map[string]any{"flow": next.Flow, "bundle": next.Bundle, "start": next.Start}),
		newEvent(next, "thread.forked", map[string]any{"from": row.ID, "step": at.Hash, "n": number}),
	}
	if err := c.cfg.Store.Commit(ctx, batch); err != nil {
		return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
	}
	return next, errors.Join(task.At(next.Workspace, id).Create(), c.views.flush(ctx, next.Bundle))
}

// forkPoint finds the step to fork at.
func (c *Controller) forkPoint(ctx context.Context, row store.Thread, name string) (thread.Step, int, error) {
	if name == "" {
		name = row.Head.String()
		head, err := c.reader.Page(ctx, row.Head, 0, 1)
		if err != nil {
			return thread.Step{}, 0, err
		}
		if len(head) == 1 && head[0].State.Role == thread.RoleEnd {
			name = row.Start.String()
			if a := head[0].State.Ancestors; len(a) > 0 {
				name = a[0].String()
			}
		}
	}
	at, number, err := c.reader.Find(ctx, row.Head, name)
	if err != nil {
		return at, number, err
	}
	if at.State != nil && at.State.Role == thread.RoleEnd {
		return at, number, usage("step %d is the end; nothing can follow it: fork at %d or before", number, number-1)
	}
	return at, number, nil
}

// Remove deletes a root thread and its whole tree: rows, events, attempts,
// gates and the task directory. Forks by hand stay, and keep the steps they
// share. It refuses while a process drives the task.
func (c *Controller) Remove(ctx context.Context, id string) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove thread %s: %w", id, err)
	}
	if row.Root != row.ID {
		return store.Thread{}, usage("thread %s is a %s of task %s; only a whole task can be removed: %s", id, row.Kind, row.Root, row.Root)
	}
	lease, err := c.acquire(ctx, row.Root)
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove task %s: %w", row.Root, err)
	}
	defer lease.Release()
	row.UpdatedAt = c.cfg.Now().UnixMilli()
	err = c.cfg.Store.Commit(ctx, store.Batch{
		Remove: []string{row.Root},
		Events: []store.Event{newEvent(row, "thread.removed", json.RawMessage(`{}`))},
	})
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove thread %s: %w", id, err)
	}
	return row, errors.Join(task.At(row.Workspace, row.Root).Remove(), os.RemoveAll(c.home(row.Root)), c.views.flush(ctx, row.Bundle))
}
