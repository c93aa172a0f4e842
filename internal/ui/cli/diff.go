package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/view"
)

// diffFewLines is how many lines of a text's diff are shown without --full.
const diffFewLines = 40

func (a *app) threadDiffCmd() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two tasks or steps from where they differ",
		Long: `Compare two tasks, parts or steps. Steps that they share are left out; after those, steps of the
same role are compared: output fields, text and artifacts. Tokens and cost are those of the steps
that are not shared. The exit code is 0 whether or not they differ.`,
		Example: `  plait diff last last~1
  plait diff k7f2/3 m4xd/3`,
		Args: exactly(2, "two threads or steps"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeThreads()(cmd, nil, typed)
		},
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (*view.Diff, error) {
			left, err := w.shown(ctx, args[0])
			if err != nil {
				return nil, err
			}
			right, err := w.shown(ctx, args[1])
			if err != nil {
				return nil, err
			}
			return w.view().Diff(ctx, left, right)
		}, func(out page, v *view.Diff) { writeDiff(out, v, whole) }),
	}
	cmd.Flags().BoolVar(&whole, "full", false, "print the full diff of each text")
	return cmd
}
