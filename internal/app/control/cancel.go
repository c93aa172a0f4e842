package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/advice"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Cancel requests that a task be cancelled. If a process drives the task, that process cancels it; otherwise
// Cancel does so itself, and the returned row has ended.
func (c *Controller) Cancel(ctx context.Context, id string) (store.Thread, error) {
	return c.cancel(ctx, id, nil)
}

// cancel is Cancel for a reason that people see, nil for none.
func (c *Controller) cancel(ctx context.Context, id string, why *store.Reason) (store.Thread, error) {
	for {
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil {
			return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
		}
		if row.Root != row.ID {
			return store.Thread{}, usage("thread %s is part of task %s; cancel the task", id, row.Root)
		}
		if row.Ended() {
			return row, nil
		}
		if row.Intent != store.IntentCancel {
			was := row
			row.Intent = store.IntentCancel
			row.UpdatedAt = c.cfg.Now().UnixMilli()
			if row.Status == store.Blocked {
				// The engine ends only running threads.
				row.Status = store.Running
			}
			row.Reason = why
			err := c.cfg.Store.Commit(ctx, store.Batch{
				Threads: []store.ThreadChange{{Row: row, From: was.State()}},
				Events:  []store.Event{event.New(row, row.UpdatedAt, event.TaskUpdated{Intent: store.IntentCancel})},
			})
			if errors.Is(err, store.ErrConflict) {
				continue // it moved on: try again
			}
			if err != nil {
				return store.Thread{}, fmt.Errorf("cancel thread %s: %w", id, err)
			}
		}
		if Team(row) {
			return c.cancelOnTeam(ctx, id)
		}
		row, err = c.Drive(ctx, id, Resume{})
		var held *store.HeldError
		if errors.As(err, &held) {
			if c.waitReleased(ctx, id) {
				continue // its owner has ended it, or could not
			}
			return c.cfg.Store.Thread(ctx, id) // its owner has been notified
		}
		return row, err
	}
}

// LogFile returns the log of a detached process that drives a task.
func LogFile(home string, row store.Thread) string {
	return filepath.Join(home, "logs", row.Root+".log")
}

// waitReleased waits up to 100 ms for the owner of a task to release it, and reports whether it has.
func (c *Controller) waitReleased(ctx context.Context, task string) bool {
	for range 10 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if _, held, err := c.cfg.Store.Holder(ctx, task); err != nil || !held {
			return err == nil
		}
	}
	return false
}

// Remove deletes root threads and everything below them: rows, events, attempts, gates and the task
// directories. Manual forks stay, with the steps they share, and so do the branches of unmerged work. It calls
// each after each deletion, and refuses a thread that a process drives.
func (c *Controller) Remove(ctx context.Context, ids []string, each func(store.Thread) error) error {
	bundles := map[dag.Hash]bool{}
	var gone []string
	var err error
	for _, id := range ids {
		var row store.Thread
		if row, err = c.remove(ctx, id); row.ID != "" { // some of its files may be left
			bundles[row.Bundle], gone = true, append(gone, row.ID)
		}
		if err == nil {
			err = each(row)
		}
		if err != nil {
			break
		}
	}
	ctx = context.WithoutCancel(ctx)
	for bundle := range bundles {
		err = errors.Join(err, ignoreBusy(c.views.drawBundle(ctx, bundle)))
	}
	if len(gone) > 0 {
		err = errors.Join(err, c.views.index.Forget(ctx, gone))
	}
	return err
}

// remove deletes one root thread.
func (c *Controller) remove(ctx context.Context, id string) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove thread %s: %w", id, err)
	}
	if row.Root != row.ID {
		return store.Thread{}, suggest("thread %s is a %s of task %s; only whole tasks can be removed: %s", id, row.Kind,
			row.Root, advice.Option{Verb: advice.Remove, ID: row.Root})
	}
	lease, err := c.acquire(ctx, row.Root)
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove task %s: %w", row.Root, err)
	}
	defer lease.Release()
	c = c.withLease(lease)
	if err := c.ensureNoDriver(ctx, row); err != nil {
		return store.Thread{}, fmt.Errorf("remove task %s: %w", row.Root, err)
	}
	list, err := c.Branches(ctx, row.Workspace, row.ID)
	if err == nil {
		_, _, err = c.dropBranches(ctx, row.Workspace, list, func(b Branch) bool { return b.Merged })
	}
	var rows []store.Thread
	if err == nil {
		rows, err = thread.Subtree(ctx, c.cfg.Store, row.ID)
	}
	if err == nil {
		err = c.trees.Remove(ctx, rows)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove thread %s: %w", id, err)
	}
	said := event.ThreadRemoved{By: gate.Person()}
	err = event.Each(ctx, c.cfg.Store, store.EventFilter{Task: row.Root}, new(int64), func(ev store.Event) error {
		if said.Count++; said.First == 0 {
			said.First = ev.Pos
		}
		said.Last = ev.Pos
		return nil
	})
	if err == nil {
		err = c.cfg.Store.Commit(ctx, store.Batch{
			Remove: []string{row.Root},
			Events: []store.Event{event.New(store.Thread{ID: row.Root}, c.cfg.Now().UnixMilli(), said)},
		})
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("remove thread %s: %w", id, err)
	}
	c.views.board.Forget(row.Root)
	os.Remove(LogFile(c.cfg.Home, row))
	os.Remove(filepath.Join(c.cfg.Home, "instructions", row.Root+".json"))
	return row, errors.Join(taskdir.At(row.Workspace, row.Root).Remove(), RemoveOwn(c.cfg.Home, c.cfg.Scratch, row.Root))
}

// RemoveOwn removes what the agents of a task kept for themselves on this machine: caches below scratch, "" for none,
// and homes below PLAIT_HOME, with their sessions.
func RemoveOwn(home, scratch, task string) error {
	if scratch != "" {
		os.RemoveAll(filepath.Join(scratch, task)) // failing to remove them does no harm
	}
	return removeHome(filepath.Join(home, "homes", task))
}

// removeHome removes what the agents of a task kept for themselves, including what is stored elsewhere: see
// codex. The directory around that cannot be read, so what is stored elsewhere is removed first, from the inside.
func removeHome(home string) error {
	var errs error
	if relocated, ok := relocatedHome(home); ok {
		entries, _ := os.ReadDir(relocated)
		for _, e := range entries {
			errs = errors.Join(errs, os.RemoveAll(filepath.Join(relocated, e.Name())))
		}
		if err := os.Remove(relocated); !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errors.Join(errs, os.RemoveAll(home))
}
