package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) retryCmd() *cobra.Command {
	var f driveFlags
	var from string
	cmd := &cobra.Command{
		Use:   "retry TASK [-p MORE] [--from STEP]",
		Short: "Try a task again where it is blocked, or from the step that failed",
		Long: `Try a task again. If it is blocked or was interrupted, it makes new attempts. If it failed or was
cancelled, a fork continues in the same working tree, from before the step that failed, or from
where it was cancelled. If a path failed, only that path runs again. --from STEP forks before
that step.

The fork is a new task; the original is unchanged.`,
		Example: `  plait retry k7f2                          # try again what failed
  plait retry k7f2 -p "use the other port"  # with a hint
  plait retry k7f2 --from 3 --agent other   # do step 3 again, with another agent`,
		Args:              exactly(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id := args[0]
			if name, n, ok := view.CutStep(id); ok && from == "" {
				id, from = name, n
			}
			w, row, prompt, opts, err := a.openToContinue(ctx, id, &f)
			if err != nil {
				return err
			}
			again, err := w.control.Retry(ctx, control.Retry{Thread: row.ID, From: from, Prompt: prompt, About: f.comment,
				Options: opts})
			if err != nil {
				return err
			}
			if a.json {
				v := view.NewStanding(again.Row)
				v.Summary = again.Note
				err = a.line(view.NewEnvelope(verbOf(cmd), v))
			} else {
				_, err = fmt.Fprintln(a.err, again.Note)
			}
			if err != nil {
				return err
			}
			return a.drive(cmd, w, again.Row, again.Resume, f)
		},
	}
	f.add(cmd, a)
	f.addAbout(cmd)
	f.addWorkspace(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `step` to run again: its number, or the beginning of its hash")
	return cmd
}
