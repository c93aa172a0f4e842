package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/view"
)

// showStack prints the path from a thread's head, or a step, up to the top.
func (a *app) showStack(cmd *cobra.Command, w *workplace, what view.Subject) error {
	v, err := w.view().Stack(cmd.Context(), what)
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out io.Writer) {
		names := w.view().Names()
		tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		for _, f := range v.Stack {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\tdepth %d\t%s\n", f.Type, f.Hash.Short(), safe(f.Role), safe(f.Flow), f.Depth,
				safe(names.ByID(cmd.Context(), f.Thread)))
		}
		tw.Flush()
	})
}
