package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
)

// A Worktree is a worktree that was made for a thread.
type Worktree = worktree.Tree

// Worktrees lists the worktrees in a workspace that were made for threads of the record, of one task or, with "", of
// all.
func (c *Controller) Worktrees(ctx context.Context, workspace, task string) ([]Worktree, error) {
	list := []Worktree{}
	ids, err := readNames(worktree.TreeIn(workspace, "", ""))
	if err == nil && len(ids) > 0 {
		var rows []store.Thread
		rows, err = c.cfg.Store.Threads(ctx, store.ThreadFilter{Task: task, IDs: ids})
		if err == nil {
			rows = slices.DeleteFunc(rows, func(r store.Thread) bool { return r.Workspace != workspace })
			list, err = c.trees.Existing(ctx, rows)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list worktrees in %s: %w", workspace, err)
	}
	return list, nil
}

// PruneWorktrees removes the worktrees of a task that has ended, with all that they have, and returns them.
func (c *Controller) PruneWorktrees(ctx context.Context, task store.Thread) (gone []Worktree, err error) {
	if !task.Ended() {
		return nil, usage("task %s has not ended", task.ID)
	}
	list, err := c.Worktrees(ctx, task.Workspace, task.ID)
	if err != nil {
		return nil, err
	}
	for i, w := range list {
		row, err := c.cfg.Store.Thread(ctx, w.Thread)
		if err == nil {
			err = c.trees.Drop(ctx, row)
		}
		if err != nil {
			return list[:i], fmt.Errorf("remove worktree %s: %w", w.Dir, err)
		}
	}
	return list, nil
}
