package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/app/people/notes"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/transfer"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/advice"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// handOver gives a task of this machine to the workers of a team. They continue from its last steps, with the
// files as they are here now. It refuses a task with parts that cannot move, before it changes anything that
// the task needs here. It returns the task's row.
func (c *Controller) handOver(ctx context.Context, row store.Thread, r Resume) (store.Thread, error) {
	fail := func(err error) (store.Thread, error) {
		return row, fmt.Errorf("hand task %s to the team: %w", row.ID, err)
	}
	if row.Intent == store.IntentCancel {
		return fail(usage("it is being cancelled"))
	}
	lease, err := c.acquire(ctx, row.Root)
	var held *store.HeldError
	if errors.As(err, &held) {
		return row, view.Advise(err, "end that process first, with Ctrl-C or SIGTERM: committed steps are kept")
	}
	if err != nil {
		return fail(err)
	}
	defer lease.Release()
	if row, err = c.withLease(lease).release(ctx, row, r); err != nil {
		return fail(err)
	}
	c.views.board.Forget(row.ID) // it is drawn elsewhere from now on
	return row, c.afterCreate(ctx, row)
}

// release is handOver for the holder of the task's lease.
func (c *Controller) release(ctx context.Context, row store.Thread, r Resume) (store.Thread, error) {
	rows, err := thread.Subtree(ctx, c.cfg.Store, row.ID)
	if err != nil {
		return row, err
	}
	if names := ownTrees(liveThreads(rows)); len(names) > 0 {
		return row, view.Advise(usage("its parts %s have working trees of their own, which are on this machine",
			strings.Join(names, ", ")),
			"continue it here until they are joined, with `%s`, then hand it over", option(advice.Resume, row, "", ""))
	}
	if err := c.allowAgain(ctx, row, r, func(string) (bool, error) { return false, nil }); err != nil {
		return row, err
	}
	if err := c.newEngine(false).Release(ctx, rows); err != nil {
		if errors.Is(err, ErrUsage) {
			err = view.Advise(err, "look at the files, then let it run again: `%s`",
				option(advice.ResumeTeam, row, "", ""))
		}
		return row, err
	}
	notes.Read(ctx, c.notesOf(row)) // from now on no one here does
	c.views.directory(ctx, row.ID, false)
	pinned := false
	defer func() {
		if pinned {
			c.cfg.Store.Commit(context.WithoutCancel(ctx), store.Batch{Unpin: []string{uploadPin(row.ID)}})
		}
	}()
	for {
		if rows, err = thread.Subtree(ctx, c.cfg.Store, row.ID); err != nil {
			return row, err
		}
		next := rows[0]
		pinned = r.Upload != nil
		objects, err := c.upload(ctx, r.Upload, &next)
		if err != nil {
			return row, err
		}
		batch, err := handOverBatch(rows, next, r.Options.Needs)
		if err != nil {
			return row, err
		}
		batch.Objects, batch.Unpin = objects, []string{uploadPin(row.ID)}
		given, err := json.Marshal(record.Options{On: OnTeam, Needs: r.Options.Needs, KeepFiles: true})
		if err != nil {
			return row, err
		}
		now := c.cfg.Now().UnixMilli()
		batch.Events = []store.Event{
			event.New(row, now, event.TaskUpdated{Intent: store.Intent(store.RequestResume)}),
			event.New(row, now, event.TaskOptions{By: gate.Person(), Options: given}),
		}
		err = c.cfg.Store.Commit(context.WithoutCancel(ctx), batch)
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			continue // someone recorded a request
		}
		if err != nil {
			return row, err
		}
		pinned = false
		left := taskdir.At(row.Workspace, row.ID)
		if row, err = c.cfg.Store.Thread(ctx, row.ID); err == nil && left.Path() != taskdir.At(row.Workspace, row.ID).Path() {
			err = left.Leave(c.cfg.Program)
		}
		return row, err
	}
}

// liveThreads returns the threads of a task that have not ended, and those that they wait for. rows are the task's,
// its own first and each after its parent.
func liveThreads(rows []store.Thread) []store.Thread {
	heads := map[string]dag.Hash{}
	var out []store.Thread
	for _, t := range rows {
		if t.Parent != nil {
			if head, ok := heads[t.Parent.Thread]; !ok || head != t.Parent.From {
				continue
			}
		}
		out = append(out, t)
		if !t.Ended() {
			heads[t.ID] = t.Head
		}
	}
	return out
}

// ownTrees names the parts of a task that work, or have worked, in their own working trees.
func ownTrees(rows []store.Thread) []string {
	var names []string
	for _, t := range rows[1:] {
		if worktree.Own(t) && t.Path != nil && !slices.Contains(names, t.Path.ID) {
			names = append(names, t.Path.ID)
		}
	}
	slices.Sort(names)
	return names
}

// handOverBatch makes the batch that gives all threads of a task to the team. next is the task's own row after the
// upload.
func handOverBatch(rows []store.Thread, next store.Thread, needs []string) (store.Batch, error) {
	var b store.Batch
	uploaded := map[string]dag.Hash{}
	if next.Files != rows[0].Files {
		for _, t := range liveThreads(rows) {
			uploaded[t.Head.String()] = next.Files
		}
	}
	for _, t := range rows {
		was := t.State()
		opts, err := record.OptionsOf(t)
		if err != nil {
			return b, err
		}
		opts.On, opts.Needs, opts.KeepFiles, opts.Imported = OnTeam, needs, true, ""
		if len(uploaded) > 0 {
			opts.Uploaded = maps.Clone(uploaded)
		}
		if t.Options, err = json.Marshal(opts); err != nil {
			return b, err
		}
		if _, of, made := worktree.Made(t); made && of != rows[0].ID {
			t.Tree = transfer.Within(next.Workspace, t)
		} else {
			t.Tree = next.Tree
		}
		t.Workspace, t.Files, t.Host = next.Workspace, next.Files, ""
		b.Threads = append(b.Threads, store.ThreadChange{Row: t, From: was})
	}
	return b, nil
}
