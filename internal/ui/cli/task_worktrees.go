package cli

import (
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) taskWorktreesCmd() *cobra.Command {
	var prune bool
	cmd := &cobra.Command{
		Use:   "worktrees [TASK]",
		Short: "List or remove the Git worktrees of agents",
		Long: `List the Git worktrees of agents in this workspace, or of one task, with how long ago their
agents ended and what they have that cannot be merged: files in a submodule, repositories, and
what Git ignores, except caches.

--prune removes the worktrees of a task that has ended, with all that they have. plait rm does,
too.`,
		Example: `  plait task worktrees
  plait task worktrees k7f2 --prune`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if prune && len(args) == 0 {
				return usagef("--prune needs a task")
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			workspace, task, err := w.scope(ctx, args)
			if err != nil {
				return err
			}
			if !prune {
				list, err := w.control.Worktrees(ctx, workspace, task.ID)
				return show(a, cmd, worktreeList{list}, err, func(out page, v worktreeList) {
					worktreeTable(out, workspace, v.Worktrees)
				})
			}
			gone, err := w.control.PruneWorktrees(ctx, task)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"removed": gone}, func(out page) {
				for _, t := range gone {
					out.line("removed %s", worktreeLine(t))
				}
				if len(gone) == 0 {
					out.line("no worktrees")
				}
			})
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "remove the worktrees of the task, with all that they have")
	return cmd
}

// A worktreeList is what task worktrees prints.
type worktreeList struct {
	Worktrees []control.Worktree `json:"worktrees"`
}

func worktreeTable(out page, workspace string, list []control.Worktree) {
	if len(list) == 0 {
		out.line("no worktrees")
		return
	}
	t := table{head: []string{"WORKTREE", "OF", "STATE", "ENDED", "HAS"}, elastic: []int{4}, state: 2}
	for _, tree := range list {
		ended := ""
		if tree.Ended > 0 {
			ended = text.Ago(tree.Ended, time.Now())
		}
		dir, err := filepath.Rel(workspace, tree.Dir)
		if err != nil {
			dir = tree.Dir
		}
		t.add(text.Safe(dir), text.Safe(out.names.ByID(out.ctx, tree.Thread)), displays(nil).of("", tree.Status), ended,
			text.FirstLine(tree.Holds(), 300))
	}
	out.table(t)
}

// worktreeLine says where a worktree is and what it has.
func worktreeLine(t control.Worktree) string {
	line := "worktree " + text.Safe(t.Dir)
	if t.Path != "" {
		line += " of " + text.Safe(t.Path)
	}
	if len(t.Left) > 0 {
		line += " with " + text.FirstLine(t.Holds(), 1000)
	}
	return line
}
