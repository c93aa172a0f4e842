package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) taskPullCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "pull TASK[/STEP]",
		Short: "Make a Git branch of the files that a task left",
		Long: `Make a Git branch in this repository of the files that a task has left so far, or that one of its
steps left. They come from the record: the repository may be another clone than the one that the task
worked in, which may be gone. Nothing is checked out or merged.

Only tasks that ran with --keep-files (or keepFiles: true in the configuration) have their files in
the record.`,
		Example: `  plait task pull last
  git diff HEAD...plait/01J…/files-3f9c2a61b7d0`,
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
			v := map[string]any{"branch": p.Branch, "commit": p.Commit, "tree": p.Tree, "on": p.On}
			return a.print(cmd, v, func(out io.Writer) {
				fmt.Fprintln(out, safe(p.Branch))
				if p.On == "" {
					fmt.Fprintln(out, "warning: this repository does not have the commit that the task worked on: the branch has no history")
				}
			})
		},
	}
}
