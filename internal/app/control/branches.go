package control

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Branch keeps the work that a path of a task left.
type Branch = worktree.Branch

// Branches lists the branches of a workspace that keep the work of paths, of one task or, with "", of all.
// Without git there are none.
func (c *Controller) Branches(ctx context.Context, workspace, task string) ([]Branch, error) {
	list, err := c.trees.Branches(ctx, workspace, task, nil)
	if err != nil {
		return nil, fmt.Errorf("list branches in %s: %w", workspace, err)
	}
	merged := map[string]bool{}
	for task := range tasksOf(list) {
		rows, err := thread.Subtree(ctx, c.cfg.Store, task)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was removed: the repository decides
		}
		for _, row := range rows {
			var of map[string]bool
			if err == nil {
				of, err = c.trees.Merged(ctx, row)
			}
			maps.Copy(merged, of)
		}
		if err != nil {
			return nil, fmt.Errorf("read the joins of task %s: %w", task, err)
		}
	}
	return c.trees.Branches(ctx, workspace, task, merged)
}

func tasksOf(list []Branch) map[string]bool {
	tasks := map[string]bool{}
	for _, b := range list {
		tasks[b.Task] = true
	}
	return tasks
}

// PruneBranches removes the branches whose work is merged, and with force the others too. It keeps branches
// that are checked out and those of tasks that have not ended. It returns the branches it removed and those it
// kept.
func (c *Controller) PruneBranches(ctx context.Context, workspace, task string, force bool) (gone, kept []Branch,
	err error) {
	list, err := c.Branches(ctx, workspace, task)
	if err != nil {
		return nil, nil, err
	}
	continues := map[string]bool{}
	for id := range tasksOf(list) {
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, nil, fmt.Errorf("read task %s: %w", id, err)
		}
		continues[id] = err == nil && !row.Ended()
	}
	return c.dropBranches(ctx, workspace, list, func(b Branch) bool { return !continues[b.Task] && (b.Merged || force) })
}

// dropBranches removes those branches of a list that may go and that no working tree has checked out.
func (c *Controller) dropBranches(ctx context.Context, workspace string, list []Branch, may func(Branch) bool) (gone,
	kept []Branch, err error) {
	for _, b := range list {
		if b.CheckedOut || !may(b) {
			kept = append(kept, b)
			continue
		}
		switch err := c.trees.DropBranch(ctx, workspace, b); {
		case errors.Is(err, worktree.ErrRefused): // someone has moved it meanwhile
			kept = append(kept, b)
		case err != nil:
			return gone, kept, err
		default:
			gone = append(gone, b)
		}
	}
	return gone, kept, nil
}

// Pulled is the result of Pull.
type Pulled = worktree.Pulled

// Pull makes a branch, in the repository of dir, of the files that a thread had left at a head. The files are
// in the record, so the repository may be another clone than the one the task worked in.
func (c *Controller) Pull(ctx context.Context, dir string, row store.Thread, head dag.Hash) (Pulled, error) {
	return c.trees.Pull(ctx, dir, row, head)
}

// Trial calls use with a directory in a workspace that has the files of a thread as the step at head left them, the git
// tree given, and that is removed afterwards.
func (c *Controller) Trial(ctx context.Context, workspace string, row store.Thread, tree string, head dag.Hash,
	use func(dir string) error) error {
	lock, err := c.locks.Acquire("trial-" + row.ID)
	if err != nil {
		return err
	}
	defer lock.Release()
	return c.trees.Temporary(ctx, workspace, row, tree, head, use)
}
