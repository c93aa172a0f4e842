package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

func (a *app) taskPullCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "pull TASK[/STEP]",
		Short: "Make a Git branch of the files that a task left",
		Long: `Create a Git branch in this repository with the current files of a task, or with those after one of
its steps. They come from the record, so this can be another clone than the one that the task worked
in. Nothing is checked out or merged: merge the branch yourself.

Only tasks of a team, and tasks that ran with --keep-files (or keepFiles: true in the configuration), have
their files in the record. With --all, each part of the task that had files of its own gets a branch, too.`,
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
			p, err := w.control.Pull(ctx, w.workspace, row, head)
			if err != nil {
				return err
			}
			v := pulledView{Branch: p.Branch, Commit: p.Commit, Tree: p.Tree, On: p.On}
			if all {
				if v.Parts, err = a.pullParts(ctx, w, row); err != nil {
					return err
				}
			}
			return a.print(cmd, v, v.print)
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

func (v pulledView) print(out io.Writer) {
	fmt.Fprintln(out, safe(v.Branch))
	for _, p := range v.Parts {
		fmt.Fprintf(out, "%s  %s\n", safe(p.Branch), safe(p.Path))
	}
	if v.On == "" {
		fmt.Fprintln(out, "warning: this repository does not have the commit that the task worked on: the branch has no history")
	}
}

// pullParts makes a branch for each part of a task that worked in its own files and left some.
func (a *app) pullParts(ctx context.Context, w *workplace, root store.Thread) (parts []pulledView, err error) {
	rows, err := thread.Subtree(ctx, w.store, root.ID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Path == nil || row.ID == root.ID || !worktree.Own(row) || row.Parent != nil && row.Head == row.Parent.From {
			continue
		}
		p, err := w.control.Pull(ctx, w.workspace, row, row.Head)
		if err != nil {
			return nil, err
		}
		parts = append(parts, pulledView{Branch: p.Branch, Commit: p.Commit, Tree: p.Tree, On: p.On, Thread: row.ID, Path: row.Path.ID})
	}
	return parts, nil
}
