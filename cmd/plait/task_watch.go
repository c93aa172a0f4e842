package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
)

func (a *app) taskWatchCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Watch a task that another process drives",
		Long: `Watch a task that another process drives, as that process shows it, until it has
ended or nobody drives it any more. Where standard error is no terminal, and with
--json, it begins with what has happened already. Ctrl-C stops watching, not the task. The exit code
is that of plait run, 130 when the watching was stopped.`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(store.Pending, store.Running, store.Blocked),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openTask(ctx, newest(args))
			if err != nil {
				return err
			}
			stop, err := a.watchEvents(ctx, w, row)
			if err != nil {
				return err
			}
			row, err = w.undriven(ctx, row)
			stop()
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				a.code = exitInterrupted
				fmt.Fprintln(a.err, "stopped watching; the task continues. Stop it with: plait cancel "+w.view().Names().Of(ctx, row))
				return nil
			}
			return a.ended(cmd, w, row, driven{
				interrupted: row.Status == store.Running, took: time.Since(time.UnixMilli(row.CreatedAt)),
			})
		},
	}
}

// undriven waits until a task has ended, nobody drives it, or ctx ends.
func (w *workplace) undriven(ctx context.Context, row store.Thread) (store.Thread, error) {
	for pos := int64(0); ; {
		now, err := w.store.Thread(context.WithoutCancel(ctx), row.ID)
		if err != nil {
			return row, err
		}
		if row = now; row.Ended() || ctx.Err() != nil || !w.driven(ctx, row.ID) {
			return row, nil
		}
		wait, cancel := context.WithTimeout(ctx, time.Second) // a process that dies tells nobody
		if last, err := w.store.Wait(wait, pos); err == nil {
			pos = last
		}
		cancel()
	}
}

// watchEvents shows what happens to a task until stop is called: on a terminal from
// now on, with what is going on already, else from the beginning.
func (a *app) watchEvents(ctx context.Context, w *workplace, row store.Thread) (stop func(), err error) {
	tell := w.narrator()
	tell.ends = true
	filter := store.EventFilter{Task: row.Task}
	var live *liveView
	var after int64
	show := func(ev store.Event) { tell.line(a.err, ev) }
	switch {
	case a.json:
		show = func(ev store.Event) { a.line(ev) }
	case isTerminal(a.err) && a.getenv("TERM") != "dumb":
		live = a.liveView(w, row, tell)
		show = live.event
		past, err := w.store.Events(ctx, 0, filter)
		if err != nil {
			return nil, err
		}
		for _, ev := range past {
			tell.hear(ev)
			live.past(ev)
			after = ev.Pos
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if live != nil {
			defer live.clear()
		}
		streamEvents(ctx, w.store, filter, after, live, show)
	})
	return func() { cancel(); done.Wait() }, nil
}
