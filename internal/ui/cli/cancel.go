package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) cancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel TASK…",
		Short: "Cancel tasks, wherever they run",
		Long:  `Cancel tasks. If another process runs a task, that process stops it.`,
		Example: `  plait cancel k7f2
  plait cancel $(plait ls --state needs-you -q)`,
		Args:              atLeast(1, "one task or more"),
		ValidArgsFunction: a.completeMany(store.Pending, store.Running, store.Blocked),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, rows, err := a.openThreads(cmd.Context(), args) // all are found before the first is cancelled
			if err != nil {
				return err
			}
			var failed error
			for _, row := range rows {
				row, err := w.control.Cancel(cmd.Context(), row.ID)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				res := view.NewStanding(row)
				if row.Wanted == store.WantCancel && !row.Ended() {
					res.Status = "cancelling"
				}
				err = a.print(cmd, res, func(out page) { out.line("%s  %s", out.names.Of(out.ctx, row), res.Status) })
				if err != nil {
					return err
				}
			}
			return failed
		},
	}
}
