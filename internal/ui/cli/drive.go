package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/tui"
	"github.com/plait-run/plait/internal/view"
)

// drive drives a thread as a verb's flags say, in a separate process or here, showing what happens, and prints
// how it ended.
func (a *app) drive(cmd *cobra.Command, w *workplace, row store.Thread, r control.Resume, f driveFlags) error {
	if f.detach {
		return a.detach(cmd, w, row, r, f)
	}
	// From here on a reader that goes away, as head does, no longer ends the program: the work, and its exit code, are
	// wanted. Notify, unlike Ignore, is not inherited by agents.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	r.Wait = a.waits(f)
	quiet := f.quiet
	var end store.Thread
	var err error
	left := false
	switch {
	case !quiet && a.redraws(a.err):
		return a.driveLive(cmd, w, row, r)
	case !quiet && !a.json && r.Wait && isTerminal(a.in) && isTerminal(a.err):
		end, left, err = a.drivePlain(cmd.Context(), w, row, r)
	default:
		stop := a.followUnless(quiet && !a.streams(), w, row)
		end, err = w.control.Drive(cmd.Context(), row.ID, r)
		stop()
	}
	if left {
		return a.leftTalk(end)
	}
	return a.driven(cmd, w, row, end, err, driven{quiet: quiet})
}

// driven prints how the driving of row ended.
func (a *app) driven(cmd *cobra.Command, w *workplace, row, end store.Thread, err error, d driven) error {
	var recorded *control.RecordedError
	if errors.As(err, &recorded) {
		return a.recorded(cmd, row, recorded)
	}
	var away *control.LeftError
	if errors.As(err, &away) {
		a.code = exitInterrupted
		return a.leftToTeam(cmd, away.Row)
	}
	var taken *control.TakenError
	if errors.As(err, &taken) { // it continues, but not here
		name := w.view().Names().Of(context.WithoutCancel(cmd.Context()), taken.Row)
		return view.Advise(err, "follow it with `plait show %s` or `plait logs -f %s`", name, name)
	}
	if err != nil && !errors.Is(err, engine.ErrInterrupted) {
		return err
	}
	if end.ID == "" {
		end = row
	}
	if names := w.view().Names(); end.ID != row.ID && end.ForkedFrom != nil && !a.json {
		ctx := context.WithoutCancel(cmd.Context())
		fmt.Fprintf(a.err, "continued as %s, a fork of %s: a task that is done stays as it is\n", names.Of(ctx, end),
			names.Of(ctx, row))
	}
	d.interrupted = errors.Is(err, engine.ErrInterrupted)
	return a.ended(cmd, w, end, d)
}

// driveLive drives a task under its live view, and prints how it ended.
func (a *app) driveLive(cmd *cobra.Command, w *workplace, row store.Thread, r control.Resume) error {
	end, err := a.live(cmd.Context(), w, row, tui.Run{Resume: r})
	if end.Row.ID == "" {
		end.Row = row
	}
	switch {
	case end.DetachErr != nil:
		return notDetached(end)
	case end.Detached:
		fmt.Fprintln(a.err, a.says("it runs in the background; watch it with: plait task watch ")+end.Row.Short)
		return nil
	case row.Flow == flow.ChatFlow && end.Left && end.Row.Status == store.Blocked:
		return a.leftTalk(end.Row)
	case end.Left:
		end.Err = engine.ErrInterrupted
	case err != nil && end.Err == nil:
		end.Err = err
	}
	return a.driven(cmd, w, row, end.Row, end.Err, driven{})
}

// notDetached reports that a task was stopped for a background process that did not continue it.
func notDetached(end tui.End) error {
	return view.Advise(end.DetachErr, "the task was stopped; continue with: plait resume %s", end.Row.Short)
}

// leftTalk says how to continue a conversation that a person has left.
func (a *app) leftTalk(row store.Thread) error {
	a.aside("continue this conversation with: plait resume " + row.Short)
	return nil
}

// talk holds a conversation that begins with the first line typed.
func (a *app) talk(cmd *cobra.Command, dir, tree string, opts control.Options) error {
	ctx := cmd.Context()
	opts.Offline = scenario(opts.Offline, flow.ChatFlow)
	w, err := a.open(ctx, dir)
	if err != nil {
		return err
	}
	cfg := a.screen(w, a.err)
	cfg.Begin = func(ctx context.Context, name, prompt, _ string) (store.Thread, error) {
		return a.begin(ctx, w, name, prompt, tree, opts)
	}
	end, err := tui.Live(ctx, cfg, tui.Run{Flow: flow.ChatFlow})
	switch {
	case end.DetachErr != nil:
		return notDetached(end)
	case end.Row.ID == "" || end.Row.Status != store.Blocked && err == nil:
		return err
	case end.Err != nil:
		return a.driven(cmd, w, end.Row, end.Row, end.Err, driven{})
	}
	return a.leftTalk(end.Row)
}

// drivePlain drives a task, reports on it line by line and asks what it asks. left reports
// whether the person left the conversation.
func (a *app) drivePlain(ctx context.Context, w *workplace, row store.Thread, r control.Resume,
) (end store.Thread, left bool, err error) {
	p := tui.NewPlain(a.screen(w, a.err))
	stopFollowing := a.follow(w, row, p)
	defer func() { stopFollowing() }()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	if row.Flow != flow.ChatFlow {
		go askPlain(inner, p, row.ID)
	}
	for {
		end, err = w.control.Drive(ctx, row.ID, r)
		if err != nil || end.Status != store.Blocked {
			return end, false, err
		}
		r = control.Resume{Wait: true}
		if end.Flow == flow.ChatFlow {
			stopFollowing()
			if err := a.lastSaid(ctx, w, end, p); err != nil {
				return end, false, err
			}
			said, err := p.Line(ctx, "> ")
			if err != nil {
				return end, errors.Is(err, io.EOF), ctx.Err()
			}
			r.Prompt, r.Source = said, flow.ChatFlow
			stopFollowing = a.follow(w, end, p)
			continue
		}
		if waits, err := w.answered(ctx, end); err != nil || !waits {
			return end, false, err
		}
	}
}

// askPlain puts the questions of a task to the person until ctx ends, and says so if it can no longer.
func askPlain(ctx context.Context, p *tui.Plain, task string) {
	if err := p.Ask(ctx, task, nil); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(p, "questions are no longer asked here: "+text.Safe(err.Error()))
	}
}

// answered waits until a task has no open gates, and reports whether it had any.
func (w *workplace) answered(ctx context.Context, row store.Thread) (bool, error) {
	for was, pos := false, int64(0); ; was = true {
		open, err := w.view().Gates(ctx, view.GateFilter{Task: row.Root, State: store.GateOpen})
		if err != nil || len(open) == 0 {
			return was, err
		}
		if pos, err = w.store.Wait(ctx, pos); err != nil {
			return false, err
		}
	}
}

// lastSaid prints the newest text of a conversation.
func (a *app) lastSaid(ctx context.Context, w *workplace, row store.Thread, out io.Writer) error {
	for s, err := range w.control.Reader().Walk(ctx, row.Head) {
		if err != nil {
			return err
		}
		said, err := w.control.Reader().Said(ctx, s.State)
		if err == nil {
			fmt.Fprintln(out, text.Safe(said))
		}
		return err
	}
	return nil
}
