package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Fork is a manual fork.
type Fork struct {
	Thread  string          // a thread of any kind
	At      string          // a step as thread.Reader.Find reads it; "": the last step before the end
	ID      string          // empty: generated
	Prompt  string          // more input, or ""
	Source  string          // of the input; "" is fork
	About   *thread.Comment // lines that the input is about, see About; or nil
	Options Options         // override the options of the thread
	// Rejoin, for a step inside a path, forks the thread that the path belongs to. The other paths are adopted
	// as they are, and the thread joins again.
	Rejoin bool
	// InPlace keeps the working tree of the thread. Otherwise the fork has its own worktree, if the
	// record has the files as the step left them.
	InPlace bool
	// Tree is a git tree: the fork has its own worktree that begins with it. It cannot be combined with
	// Rejoin.
	Tree string
}

// Fork makes a new pending task whose head is a step of another thread. It copies nothing, since the steps are
// shared. A fork inside a path keeps its position in that path, and ends where the join would be.
func (c *Controller) Fork(ctx context.Context, f Fork) (store.Thread, error) {
	next, batch, err := c.forkBatch(ctx, f)
	if err == nil {
		next, err = c.commitRoot(ctx, batch)
	}
	if err != nil {
		if f.Tree != "" && next.ID != "" {
			err = errors.Join(err, c.trees.Remove(context.WithoutCancel(ctx), []store.Thread{next}))
		}
		return store.Thread{}, fmt.Errorf("fork thread %s: %w", f.Thread, err)
	}
	return next, c.afterCreate(ctx, next)
}

func (c *Controller) forkBatch(ctx context.Context, f Fork) (next store.Thread, batch store.Batch, err error) {
	row, err := c.cfg.Store.Thread(ctx, f.Thread)
	if err != nil {
		return next, batch, err
	}
	at, err := c.forkPoint(ctx, row, f.At)
	if err != nil {
		return next, batch, err
	}
	def, err := c.record.Definition(ctx, row)
	if err != nil {
		return next, batch, err
	}
	now := c.cfg.Now()
	id, err := c.newID(f.ID, now)
	if err != nil {
		return next, batch, err
	}
	if f.Rejoin {
		return c.rejoin(ctx, f, at, def, id)
	}
	if next, err = c.forkRow(ctx, row, id, at, now.UnixMilli()); err != nil {
		return next, batch, err
	}
	if next.Path, err = c.pathAt(ctx, def, at); err != nil {
		return next, batch, err
	}
	if next, err = c.newEngine(false).WithOptions(ctx, next, f.Options); err != nil {
		return next, batch, err
	}
	if f.Tree == "" {
		next.Tree, err = c.forkTree(ctx, def, row, next, f.InPlace)
	} else if next.Tree, err = c.trees.Place(ctx, row, next); err == nil {
		err = c.trees.Begin(ctx, next, f.Tree)
	}
	if err != nil {
		return next, batch, err
	}
	if next, batch.Objects, err = c.addPrompt(ctx, next, f, now.UnixMilli()); err != nil {
		return next, batch, err
	}
	batch.Threads = []store.ThreadChange{{Row: next}}
	batch.Events = forkEvents(next, at)
	return next, batch, nil
}

// forkRow returns the row of a fork. If its task was imported and not taken over, neither is the fork, whatever part of
// the task it was made of.
func (c *Controller) forkRow(ctx context.Context, row store.Thread, id string, at forkPoint, now int64) (store.Thread,
	error) {
	next := thread.Fork(row, id, at.step, at.number, now)
	root, err := c.cfg.Store.Thread(ctx, row.Root)
	if err != nil {
		return next, err
	}
	from, err := Imported(root)
	if err != nil || from == "" {
		return next, err
	}
	opts, err := record.OptionsOf(next)
	if err == nil {
		opts.Imported = from
		next.Options, err = json.Marshal(opts)
	}
	return next, err
}

func forkEvents(next store.Thread, at forkPoint) []store.Event {
	return []store.Event{
		event.New(next, next.UpdatedAt, event.TaskCreated{By: gate.Person(), Flow: next.Flow, Bundle: next.Bundle,
			Start: next.Start}),
		event.New(next, next.UpdatedAt, event.ThreadForked{From: at.row.ID, Step: at.step.Hash, N: at.number}),
	}
}

// forkTree returns where a manual fork works: in its own worktree if the earlier files are known,
// otherwise where the forked thread works.
func (c *Controller) forkTree(ctx context.Context, def *flow.Definition, row, next store.Thread, inPlace bool) (string,
	error) {
	if c.cfg.Place != nil && c.cfg.Place.Has(row) {
		return c.trees.PlaceFork(ctx, row, next) // the files of row may be on no machine, but they are in the record
	}
	if inPlace {
		if top, _, made := worktree.Made(row); made {
			if _, err := os.Lstat(top); errors.Is(err, os.ErrNotExist) {
				return "", usage("the working tree of thread %s was removed when its changes were merged: fork it "+
					"without --in-place", row.ID)
			}
		}
		return row.Tree, nil
	}
	// Only steps of roles that write record their files, and only with git. Otherwise reading the whole chain
	// would be pointless.
	writes, err := c.newEngine(false).Writes(ctx, row, def, slices.Sorted(maps.Keys(def.Roles)))
	if err != nil || !writes {
		return row.Tree, err
	}
	return c.trees.PlaceFork(ctx, row, next)
}

// addPrompt adds the fork's prompt, if any, to a thread, and returns the new row and its new objects.
func (c *Controller) addPrompt(ctx context.Context, row store.Thread, f Fork, now int64) (store.Thread, []store.Object,
	error) {
	if f.Prompt == "" {
		return row, nil, nil
	}
	if err := checkText("the prompt", f.Prompt); err != nil {
		return row, nil, err
	}
	tip, err := c.reader.Tip(ctx, row.Head)
	if err != nil {
		return row, nil, err
	}
	meta := thread.InputMeta(cmp.Or(f.Source, "fork"), "")
	if f.About != nil {
		meta = thread.CommentMeta(*f.About)
	}
	ch, err := thread.Append(row, tip, thread.Draft{
		Role: thread.RoleInput, Meta: meta, Text: f.Prompt,
		Detail: thread.ByPerson(gate.Person(), now, now), At: now,
	})
	return ch.Row, ch.Objects, err
}
