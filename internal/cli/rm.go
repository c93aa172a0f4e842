package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) threadRmCmd() *cobra.Command {
	var yes bool
	var status string
	cmd := &cobra.Command{
		Use:   "rm TASK…",
		Short: "Remove tasks: their record and their files",
		Long: `Remove tasks with all their steps, events, attempts and directories, and the Git branches of
merged work. Forks of them stay, as do branches of other work, which are named. plait gc
then frees the space. Without a terminal to confirm on, --yes is required.`,
		Example: `  plait rm k7f2
  plait rm --status cancelled --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (status == "") {
				return misused(cmd, "%s takes tasks, or --status", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeMany(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := oneOf("status", strings.ReplaceAll(status, " ", "-"), taskStandings...); err != nil {
				return err
			}
			w, rows, err := a.toRemove(ctx, args, status)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return a.print(cmd, map[string]any{"removed": []string{}, "steps": 0},
					func(out io.Writer) { fmt.Fprintln(out, a.nothingHere("tasks", true)) })
			}
			if err := a.confirmRemoval(ctx, w, rows, yes); err != nil {
				return err
			}
			names := make(map[string]string)
			var ids []string
			for _, row := range rows {
				names[row.ID] = w.view().Names().Of(ctx, row)
				ids = append(ids, row.ID)
			}
			return w.control.Remove(ctx, ids, func(row store.Thread) error {
				kept, err := w.control.Branches(ctx, row.Workspace, row.ID)
				if err != nil {
					return err
				}
				removed := map[string]any{"removed": row.ID, "steps": row.Steps, "branches": branchNames(kept)}
				return a.print(cmd, removed, func(out io.Writer) {
					fmt.Fprintf(out, a.says("removed %s; free its space with: plait gc\n"), names[row.ID])
					for _, b := range kept {
						fmt.Fprintf(out, "kept branch %s, which is %s; remove it with: git branch -D %[1]s\n", safe(b.Name),
							branchState(b))
					}
				})
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&status, "status", "", "remove all tasks of this workspace with this `status`")
	cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(taskStandings, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// toRemove finds the tasks that were named, or those in the given state.
func (a *app) toRemove(ctx context.Context, args []string, status string) (*workplace, []store.Thread, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	var rows []store.Thread
	for _, name := range args {
		row, err := w.threadID(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	if status == "" {
		return w, rows, nil
	}
	lines, err := w.view().Tasks(ctx, view.TaskFilter{Word: status})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range lines {
		row, err := w.store.Thread(ctx, l.ID)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return w, rows, nil
}

// confirmRemoval makes sure that a person wants the removal.
func (a *app) confirmRemoval(ctx context.Context, w *workplace, rows []store.Thread, yes bool) error {
	if yes {
		return nil
	}
	what := fmt.Sprintf("%d tasks and their directories", len(rows))
	if len(rows) == 1 {
		what = fmt.Sprintf("%s (%s, %s) and its directory", w.view().Names().Of(ctx, rows[0]), safe(rows[0].Flow),
			count(rows[0].Steps, "step"))
	}
	if !isTerminal(a.in) || !isTerminal(os.Stderr) {
		return view.Advise(usagef("nothing was removed: confirm with --yes"), "this removes %s", what)
	}
	if !a.ask("Remove " + what + "?") {
		return usagef("nothing was removed")
	}
	return nil
}
