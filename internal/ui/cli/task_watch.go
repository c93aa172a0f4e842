package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/ui/tui"
)

func (a *app) taskWatchCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Watch a task that another process runs",
		Long: `Watch a task that another process runs, until the task or that process ends. If stderr is not a terminal, ` +
			`and with --json, earlier events are printed first.
Ctrl-C stops watching, not the task. The exit codes are those of plait run, and 130 after Ctrl-C.`,
		Example: `  plait task watch
  plait task watch k7f2`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(store.Pending, store.Running, store.Blocked),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openTask(ctx, newest(args))
			if err != nil {
				return err
			}
			if a.redraws(a.err) {
				end, err := a.live(ctx, w, row, tui.Run{Watch: true})
				if err != nil && ctx.Err() == nil {
					return err
				}
				return a.watched(cmd, w, row, end.Left || ctx.Err() != nil)
			}
			n := w.narrator()
			n.ends = true
			stop := streamUntil(ctx, w.store, row.Task, 0, a.eventPrinter(n, a.err, a.json))
			row, err = w.waitUndriven(ctx, row)
			if err = cmp.Or(err, stop()); err != nil {
				return err
			}
			return a.watched(cmd, w, row, cmd.Context().Err() != nil)
		},
	}
}

// watched prints the state of a watched task. left says that the person stopped watching.
func (a *app) watched(cmd *cobra.Command, w *workplace, row store.Thread, left bool) error {
	ctx := context.WithoutCancel(cmd.Context())
	row, err := w.store.Thread(ctx, row.ID)
	switch {
	case err != nil:
		return err
	case left:
		a.code = exitInterrupted
		fmt.Fprintln(a.err, a.says("stopped watching; the task continues. Stop it with: plait cancel ")+
			a.names().Of(ctx, row))
		return nil
	}
	return a.ended(cmd, w, row, driven{interrupted: row.Status == store.Running})
}

// waitUndriven waits until a task has ended, no process drives it, or ctx ends.
func (w *workplace) waitUndriven(ctx context.Context, row store.Thread) (store.Thread, error) {
	for pos := int64(0); ; {
		now, err := w.store.Thread(context.WithoutCancel(ctx), row.ID)
		if err != nil {
			return row, err
		}
		if row = now; row.Ended() || ctx.Err() != nil || !w.view().Driven(ctx, row.ID) {
			return row, nil
		}
		wait, cancel := context.WithTimeout(ctx, time.Second) // a dying process notifies no one
		if last, err := w.store.Wait(wait, pos); err == nil {
			pos = last
		}
		cancel()
	}
}
