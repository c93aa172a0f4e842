package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/tui"
	"github.com/plait-run/plait/internal/view"
)

// redraws reports whether output to a terminal may be redrawn.
func (a *app) redraws(out io.Writer) bool {
	return !a.json && !a.plain && isTerminal(out) && a.getenv("TERM") != "dumb"
}

// screen returns what the terminal shows of a workplace, and what can be done there.
func (a *app) screen(w *workplace, out io.Writer) tui.Config {
	shown := a.err
	if a.redraws(out) {
		shown = nil // what is on the screen is what is signed
	}
	cfg := tui.Config{
		Store: w.store, Views: w.view(), Book: a.book(w, "", shown), Control: w.control, Workspace: w.workspace,
		Person: gate.Person(), Out: out, Program: a.named,
		Scenarios: append([]string{offlineAuto + "\tthe scenario of the flow, else work"}, scripted.Described()...),
		Drive:     a.driveElsewhere,
		Begin: func(ctx context.Context, name, prompt, offline string) (store.Thread, error) {
			return a.begin(ctx, w, name, prompt, "", control.Options{Offline: offline})
		},
	}
	if isTerminal(a.in) {
		cfg.In = a.in
	}
	cfg.Detach = func(ctx context.Context, task string) error { return w.detach(ctx, task, a.unsafe) }
	cfg.Flows, _ = w.control.Flows(context.Background(), w.dir) // without a list, only solo is offered
	return cfg
}

// driveElsewhere drives a task in its own workspace, whose commands were agreed to. It asks no one.
func (a *app) driveElsewhere(ctx context.Context, row store.Thread, how control.Resume) (store.Thread, error) {
	c, err := a.controlOf(ctx, row)
	if err != nil {
		return row, err
	}
	return c.Drive(ctx, row.ID, how)
}

// detach has a separate process continue a task.
func (w *workplace) detach(ctx context.Context, task string, unsafe bool) error {
	bin, err := os.Executable()
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	args := []string{"--home", w.home, "resume", "-d", task}
	if unsafe {
		args = append(args, "--unsafe-agents")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), bin, args...)
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("detach: %w: %s", err, text.FirstLine(string(out), 300))
	}
	return nil
}

// begin makes a task of a flow whose commands were agreed to. It asks no one.
func (a *app) begin(ctx context.Context, w *workplace, name, prompt, tree string, o control.Options,
) (store.Thread, error) {
	found, err := w.control.Find(ctx, w.dir, name)
	if err != nil {
		return store.Thread{}, err
	}
	o.Offline = scenario(o.Offline, found.Bundle.Name)
	if err := a.agreed(w, found); err != nil {
		return store.Thread{}, err
	}
	if _, err := config.Init(w.workspace, w.home); err != nil {
		return store.Thread{}, err
	}
	return w.control.Begin(ctx, control.Spec{Bundle: found.Bundle, Prompt: prompt, Workspace: w.workspace, Tree: tree,
		Options: o})
}

// day is plait without arguments: one screen on a terminal, questions line by line on a simpler
// terminal, and otherwise the help.
func (a *app) day(cmd *cobra.Command) error {
	if a.json || !isTerminal(a.in) || !isTerminal(a.out) {
		return cmd.Help()
	}
	w, err := a.open(cmd.Context(), "")
	if err != nil {
		return err
	}
	return a.showInbox(cmd, w, "", false)
}

// showInbox shows what needs a person: in the named task, or in a whole workspace.
func (a *app) showInbox(cmd *cobra.Command, w *workplace, task string, all bool) error {
	ctx := cmd.Context()
	cfg := a.screen(w, a.out)
	cfg.All = all
	if a.redraws(a.out) {
		return tui.Screen(ctx, cfg, task)
	}
	p := tui.NewPlain(cfg)
	drives := answerResumer{w: w, drive: cfg.Drive, out: p}
	inner, stop := context.WithCancel(ctx)
	defer drives.running.Wait()
	defer stop()
	open, err := cfg.Views.Gates(ctx, view.GateFilter{All: all, Task: task, State: store.GateOpen})
	if err != nil {
		return err
	}
	fmt.Fprintf(p, "%d open. Ctrl-D ends.\n", len(open))
	err = p.Ask(ctx, task, func(g store.Gate) { drives.resume(inner, g) })
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// catchUp has a narrator observe what has happened to a task, and sets pos to the position of the last event.
func (w *workplace) catchUp(ctx context.Context, task string, n *narrator, pos *int64) error {
	return event.Each(ctx, w.store, store.EventFilter{Task: task}, pos, func(ev store.Event) error {
		n.Observe(ev)
		return nil
	})
}

// live shows a task on a terminal, and puts its questions to the person.
func (a *app) live(ctx context.Context, w *workplace, row store.Thread, r tui.Run) (tui.End, error) {
	cfg := a.screen(w, a.err)
	n := w.narrator()
	if row.ID != "" {
		if err := w.catchUp(ctx, row.Task, n, &r.After); err != nil {
			return tui.End{}, err
		}
	}
	r.Task, r.Flow, r.Silent = row.Task, row.Flow, cfg.In == nil || !r.Watch && !r.Resume.Wait
	cfg.Say = func(ev store.Event) string { return n.stays(ev) }
	return tui.Live(ctx, cfg, r)
}

// stays returns the lines of an event that stay on the screen once the live part is gone, "" for none.
func (n *narrator) stays(ev store.Event) string {
	n.Observe(ev)
	switch p := event.Read(ev).(type) {
	case event.TaskCreated, event.AttemptStarted, event.AgentItems, event.ControllerChanged, event.ThreadBlocked:
		return "" // the tree shows it
	case event.AgentEnded:
		if p.Child == "" {
			return ""
		}
	case event.ThreadEnded:
		return "" // its last step or the end of the command reports it
	case event.GateChanged:
		if p.Change == event.GateBlocked {
			return "" // it is asked below
		}
	}
	return strings.TrimRight(n.describe(ev), " ")
}

// streams reports whether events are printed as JSON.
func (a *app) streams() bool { return a.json && a.jq == nil }

// follow begins to print the future events of row's task, one a line: JSON, or text. stop prints what is left and ends.
func (a *app) follow(w *workplace, row store.Thread, out io.Writer) (stop func() error) {
	ctx := context.Background()
	n := w.narrator()
	n.ends = true
	var after int64
	w.catchUp(ctx, row.Task, n, &after) // without it less is told, and the stream reports what is wrong
	return streamUntil(ctx, w.store, row.Task, after, a.eventPrinter(n, out, a.streams()))
}

// eventPrinter returns a function that prints an event: as JSON, or as text.
func (a *app) eventPrinter(n *narrator, out io.Writer, asJSON bool) func(store.Event) error {
	if asJSON {
		return func(ev store.Event) error { return a.line(ev) }
	}
	return func(ev store.Event) error { return n.line(out, ev) }
}

// followUnless follows row's task on standard error, unless that is not wanted.
func (a *app) followUnless(unwanted bool, w *workplace, row store.Thread) (stop func() error) {
	if unwanted {
		return func() error { return nil }
	}
	return a.follow(w, row, a.err)
}

// streamUntil passes on events of a task after pos until stop is called, and then those that already exist. stop
// returns the error that ended it earlier, if any.
func streamUntil(
	ctx context.Context, s store.Store, task string, pos int64, show func(store.Event) error,
) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	var err error
	done.Go(func() { err = streamEvents(ctx, s, store.EventFilter{Task: task}, pos, show) })
	return func() error {
		cancel()
		done.Wait()
		return err
	}
}

// streamEvents passes on events after pos until ctx ends, and then those that
// already exist. It ends with an error of show.
func streamEvents(ctx context.Context, s store.Store, filter store.EventFilter, pos int64,
	show func(store.Event) error) error {
	for seen := pos; ; {
		if err := event.Each(context.WithoutCancel(ctx), s, filter, &pos, show); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if last, err := s.Wait(ctx, max(seen, pos)); err == nil {
			seen, pos = last, min(pos, last) // beyond other tasks' events, so as not to wake for them again
		}
	}
}

// narrator returns a narrator that can look up what events do not contain.
func (w *workplace) narrator() *narrator {
	n := &narrator{Narrator: view.NewNarrator(nil), program: w.named}
	n.Merged = func(step dag.Hash) string {
		s, err := w.control.Reader().State(context.Background(), step)
		if err != nil {
			return "" // what cannot be read is omitted; verify reports it
		}
		d, err := w.control.Reader().Detail(context.Background(), s.Detail)
		if err != nil || d == nil || d.Merge == nil {
			return ""
		}
		return strings.Join(append([]string{d.Merge.String()},
			w.diffStat(context.Background(), d.Merge.From, d.Merge.To)...), "\n  ")
	}
	n.Named = func(s string) string { return w.view().Names().In(context.Background(), s) } // parts are added
	return n
}
