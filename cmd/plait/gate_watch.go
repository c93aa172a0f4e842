package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) gateWatchCmd() *cobra.Command {
	var all, once bool
	cmd := &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Watch what waits for a person, and answer it there",
		Long: `Watch what waits for a person: in this workspace, in one TASK until it has ended, or with
--all everywhere. On a terminal it is an inbox: the number of a gate shows it whole, then
"a" alone approves, "d" alone denies, "m TEXT" says what goes with it, and "answer TEXT"
answers a question. A number is never given to another gate.
Elsewhere, and with --json, it prints a line when a gate opens and when it is answered.

Ctrl-C ends it with exit code 130; "q", the end of the input and the end of TASK with 0.`,
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
			feed := w.view().GateFeed(view.GateFilter{All: all, Task: row.ID})
			if !once && !a.json && isTerminal(a.in) && isTerminal(a.out) {
				err = a.newInbox(w, feed).run(ctx)
			} else {
				err = a.tellGates(ctx, feed, once)
			}
			if ctx.Err() != nil {
				a.code = exitInterrupted
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every workspace")
	cmd.Flags().BoolVar(&once, "once", false, "print what is open, and end")
	return cmd
}

// A gateEvent is what gate watch --json prints of a gate.
type gateEvent struct {
	TS     int64      `json:"ts"`
	Type   string     `json:"type"` // as the event's
	Task   string     `json:"task"`
	Thread string     `json:"thread"`
	Gate   store.Gate `json:"gate"`
}

// tellGates prints a line for each gate that opens or is answered.
func (a *app) tellGates(ctx context.Context, f *view.GateFeed, once bool) error {
	for {
		over, err := f.Over(ctx) // asked first, so that what came before the end is told
		if err != nil {
			return err
		}
		changed, err := f.Next(ctx)
		if err != nil {
			return err
		}
		for _, g := range changed {
			if err := a.tellGate(g); err != nil {
				return err // nobody reads any more
			}
		}
		if once || over {
			return nil
		}
		if err := f.Wait(ctx, 0); err != nil {
			return err
		}
	}
}

func (a *app) tellGate(g store.Gate) error {
	line := gateEvent{TS: g.OpenedAt, Type: event.Type(event.GateChanged{Change: event.GateBlocked}), Task: g.Task,
		Thread: g.Thread, Gate: g}
	if g.State != store.GateOpen {
		line.TS, line.Type = g.AnsweredAt, event.Type(event.GateChanged{Change: event.Change(g.State)})
	}
	if a.json {
		return a.line(line)
	}
	text := fmt.Sprintf("%s  %s asks: %s", oneLine(string(g.Kind), 20), oneLine(view.Asker(g), 40),
		strings.Join(asks(g, 200), "; "))
	if g.ExpiresAt != 0 {
		text += "; until " + clock(g.ExpiresAt)
	}
	if g.State != store.GateOpen {
		text = closed(g)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s  %s  %s\n", time.UnixMilli(line.TS).Format("15:04:05"), g.ID, where(g), text)
	return err
}
