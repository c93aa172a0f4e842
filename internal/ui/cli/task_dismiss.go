package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) taskDismissCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "dismiss TASK…",
		Short: "Take tasks that have stopped out of the inbox",
		Long: `Take tasks out of the inbox: those that failed, were interrupted, or are blocked and ask nothing. Their record is kept.
If one is resumed and stops again, it is in the inbox again.`,
		Example:           `  plait task dismiss k7f2`,
		Args:              atLeast(1, "one task or more"),
		ValidArgsFunction: a.completeMany(store.Failed, store.Blocked, store.Running),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, rows, err := a.openThreads(cmd.Context(), args) // all are found before the first is dismissed
			if err != nil {
				return err
			}
			var failed error
			for _, row := range rows {
				row, err := w.control.Dismiss(cmd.Context(), row.ID)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				res := view.NewStanding(row)
				err = a.print(cmd, res, func(out page) { out.line("%s  dismissed", out.names.Of(out.ctx, row)) })
				if err != nil {
					return err
				}
			}
			return failed
		},
	}
}
