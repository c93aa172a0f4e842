package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) gateWatchCmd() *cobra.Command {
	var all, once, resume bool
	cmd := &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Watch for questions and approvals, and answer them",
		Long: `Watch for questions and approvals: in this workspace, in one TASK until it ends, or with --all
in every workspace. On a terminal this opens the same screen as plait alone: a key answers, and
the task continues here unless another process runs it. Elsewhere, and with --json, it prints a
line when a question or an approval opens and when it is answered.

With --resume, a task also continues here when it was answered elsewhere, unless another
process runs it. It stops when this command does, and can be resumed.

The exit code is 130 after Ctrl-C, and 0 when TASK ended.`,
		Example: `  plait gate watch
  plait gate watch k7f2 --resume`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(store.Pending, store.Running, store.Blocked),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var w *workplace
			var row store.Thread
			var err error
			if len(args) == 0 {
				w, err = a.open(ctx, "")
			} else {
				w, row, err = a.openTask(ctx, args[0])
			}
			if err != nil {
				return err
			}
			screen := !once && !a.json && isTerminal(a.in) && isTerminal(a.out)
			feed := w.view().GateFeed(view.GateFilter{All: all, Task: row.ID})
			if resume {
				drives := &answerResumer{w: w, drive: a.driveElsewhere, out: a.err}
				if screen && a.redraws(a.out) {
					drives.out = io.Discard // the screen shows which tasks wait
				}
				var stop context.CancelFunc
				ctx, stop = context.WithCancel(ctx)
				defer drives.running.Wait()
				defer stop()
				feed.Closed = func(g store.Gate) { drives.resume(ctx, g) }
				if screen {
					drives.running.Go(func() { eachGate(ctx, feed, false, func(store.Gate) error { return nil }) })
				}
			}
			if screen {
				return a.showInbox(cmd, w, row.ID, all)
			}
			names := w.view().Names()
			err = eachGate(ctx, feed, once, func(g store.Gate) error { return a.printGate(ctx, names, g) })
			if cmd.Context().Err() != nil {
				a.code = exitInterrupted
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "in every workspace")
	cmd.Flags().BoolVar(&resume, "resume", false,
		"continue tasks here once they are answered, unless another process runs them")
	cmd.Flags().BoolVar(&once, "once", false, "print what is open, and exit")
	cmd.MarkFlagsMutuallyExclusive("once", "resume")
	return cmd
}

// An answerResumer resumes tasks whose gates were answered, each in its own goroutine.
type answerResumer struct {
	w       *workplace
	drive   func(ctx context.Context, row store.Thread, how control.Resume) (store.Thread, error)
	out     io.Writer // receives why a task did not continue
	running sync.WaitGroup
}

// resume resumes the task of a gate that was answered.
func (d *answerResumer) resume(ctx context.Context, g store.Gate) {
	row, free := d.w.resumable(ctx, g)
	if !free || g.State == store.GateOpen || g.State == store.GateWithdrawn {
		return
	}
	d.running.Go(func() {
		_, err := d.drive(ctx, row, control.Resume{Wait: true})
		printNotDriven(d.out, row, err)
	})
}

// printNotDriven prints why a task did not continue, unless it was stopped here or another process was faster.
func printNotDriven(out io.Writer, row store.Thread, err error) {
	var held *store.HeldError
	if err != nil && !errors.As(err, &held) && !errors.Is(err, engine.ErrInterrupted) &&
		!errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "task "+row.ID+" did not continue: "+text.Safe(err.Error()))
	}
}

// A gateEvent is what gate watch --json prints for a gate.
type gateEvent struct {
	TS     int64      `json:"ts"`
	Type   string     `json:"type"` // as the event's
	Task   string     `json:"task"`
	Thread string     `json:"thread"`
	Gate   store.Gate `json:"gate"`
}

// eachGate calls show for each gate that opens or is answered; with once, only for those that are open now.
func eachGate(ctx context.Context, f *view.GateFeed, once bool, show func(store.Gate) error) error {
	for last := once; ; {
		changed, err := f.Next(ctx)
		if err != nil {
			return err
		}
		for _, g := range changed {
			if err := show(g); err != nil {
				return err // the reader is gone
			}
		}
		if last {
			return nil
		}
		// This comes after Next: Wait does not return for an end that Next has read past.
		if last, err = f.Ended(ctx); err != nil {
			return err
		}
		if last {
			continue // first print what came before the end
		}
		if err := f.Wait(ctx, 0); err != nil {
			return err
		}
	}
}

// printGate prints a gate that was opened or answered.
func (a *app) printGate(ctx context.Context, names *view.Names, g store.Gate) error {
	line := gateEvent{TS: g.OpenedAt, Type: event.Type(event.GateChanged{Change: event.GateBlocked}), Task: g.Task,
		Thread: g.Thread, Gate: g}
	if g.State != store.GateOpen {
		line.TS, line.Type = g.AnsweredAt, event.Type(event.GateChanged{Change: event.Change(g.State)})
	}
	if a.json {
		return a.line(line)
	}
	what := fmt.Sprintf("%s  %s asks: %s", text.FirstLine(string(g.Kind), 20), text.FirstLine(view.Asker(g), 40),
		strings.Join(asks(g, 200), "; "))
	if g.ExpiresAt != 0 {
		what += "; until " + clock(g.ExpiresAt)
	}
	if g.State != store.GateOpen {
		what = closed(g)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s  %s  %s\n", time.UnixMilli(line.TS).Format("15:04:05"), g.ID,
		text.Safe(names.ByID(ctx, g.Thread)), what)
	return err
}
