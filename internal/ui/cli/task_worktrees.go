package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
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
			if len(args) == 0 {
				w, err := a.open(ctx, "")
				if err != nil {
					return err
				}
				return a.listWorktrees(cmd, w, w.workspace, "")
			}
			w, row, err := a.openTask(ctx, args[0])
			if err != nil {
				return err
			}
			if !prune {
				return a.listWorktrees(cmd, w, row.Workspace, row.ID)
			}
			gone, err := w.control.PruneWorktrees(ctx, row)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"removed": gone}, func(out io.Writer) {
				for _, t := range gone {
					fmt.Fprintln(out, "removed "+worktreeLine(t))
				}
				if len(gone) == 0 {
					fmt.Fprintln(out, "no worktrees")
				}
			})
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "remove the worktrees of the task, with all that they have")
	return cmd
}

func (a *app) listWorktrees(cmd *cobra.Command, w *workplace, workspace, task string) error {
	list, err := w.control.Worktrees(cmd.Context(), workspace, task)
	if err != nil {
		return err
	}
	return a.print(cmd, map[string]any{"worktrees": list}, func(out io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(out, "no worktrees")
			return
		}
		a.worktreeTable(cmd.Context(), out, w, workspace, list)
	})
}

func (a *app) worktreeTable(ctx context.Context, out io.Writer, w *workplace, workspace string,
	list []control.Worktree) {
	st := a.style(out)
	t := table{head: []string{"WORKTREE", "OF", "STATE", "ENDED", "HAS"}, elastic: []int{4}}
	for _, tree := range list {
		of, ended := tree.Thread, ""
		if row, err := w.store.Thread(ctx, tree.Thread); err == nil {
			of = w.view().Names().Of(ctx, row)
		}
		if tree.Ended > 0 {
			ended = ago(tree.Ended)
		}
		dir, err := filepath.Rel(workspace, tree.Dir)
		if err != nil {
			dir = tree.Dir
		}
		state := displays(nil).of("", tree.Status)
		t.add(safe(dir), safe(of), string(state), ended, oneLine(tree.Holds(), 300))
	}
	t.paint = statePainter(st, 2)
	t.write(out, st, columns(out))
}

// worktreeLine says where a worktree is and what it has.
func worktreeLine(t control.Worktree) string {
	line := "worktree " + safe(t.Dir)
	if t.Path != "" {
		line += " of " + safe(t.Path)
	}
	if len(t.Left) > 0 {
		line += " with " + oneLine(t.Holds(), 1000)
	}
	return line
}
