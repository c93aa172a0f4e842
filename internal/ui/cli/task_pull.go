package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) taskPullCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "pull TASK[/STEP]",
		Short: "Make a Git branch of the files that a task left",
		Long: `Create a Git branch in this repository with the current files of a task, or with those after one of
its steps. They come from the record, so this can be another clone than the one that the task worked
in. Nothing is checked out or merged: merge the branch yourself.

The repository needs the commit that the task began with, unless the task is a team's, or ran with
--keep-files (or keepFiles: true in the configuration). With --all, each part of the task that had files of its own gets a branch, too.`,
		Example: `  plait task pull last
  git diff HEAD...plait/01J…/files-3f9c2a61b7d0
  plait task pull last --all --json`,
		Args:              exactly(1, "a task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			row, typed, err := w.view().Find(ctx, args[0])
			if err != nil {
				return err
			}
			if all && typed != "" {
				return usagef("--all is for a task, not for a step")
			}
			head := row.Head
			if typed != "" {
				s, _, err := w.control.Reader().Find(ctx, row.Head, typed)
				if err != nil {
					return err
				}
				head = s.Hash
			}
			v, err := w.pull(ctx, row, head)
			if err == nil && all {
				v.Parts, err = w.pullParts(ctx, row)
			}
			return show(a, cmd, v, err, writePulled)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "make a branch for each part of the task, too")
	return cmd
}

// A pulledView is a branch that was made.
type pulledView struct {
	Branch string       `json:"branch"`
	Commit string       `json:"commit"`
	Tree   string       `json:"tree"`
	On     string       `json:"on"`
	Thread string       `json:"thread,omitempty"` // of a part
	Path   string       `json:"path,omitempty"`
	Parts  []pulledView `json:"parts,omitempty"` // with --all
}

func writePulled(out page, v pulledView) {
	out.line("%s", text.Safe(v.Branch))
	for _, p := range v.Parts {
		out.line("%s  %s", text.Safe(p.Branch), text.Safe(p.Path))
	}
	if v.On == "" {
		out.line("warning: this repository does not have the commit that the task worked on: the branch has no history")
	}
}

// pull makes a branch of the files that a thread had at a step.
func (w *workplace) pull(ctx context.Context, row store.Thread, head dag.Hash) (pulledView, error) {
	p, err := w.control.Pull(ctx, w.workspace, row, head)
	return pulledView{Branch: p.Branch, Commit: p.Commit, Tree: p.Tree, On: p.On}, err
}

// pullParts makes a branch for each part of a task that worked in its own files and left some.
func (w *workplace) pullParts(ctx context.Context, root store.Thread) (parts []pulledView, err error) {
	rows, err := thread.Subtree(ctx, w.store, root.ID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Path == nil || row.ID == root.ID || !worktree.Own(row) || row.Parent != nil && row.Head == row.Parent.From {
			continue
		}
		p, err := w.pull(ctx, row, row.Head)
		if err != nil {
			return nil, err
		}
		p.Thread, p.Path = row.ID, row.Path.ID
		parts = append(parts, p)
	}
	return parts, nil
}
