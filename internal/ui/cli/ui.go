package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/ui/web"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// uiFlags are the flags of plait ui.
type uiFlags struct {
	addr    string
	open    bool
	only    bool
	offline string
	copied  string
	start   string // the first page to open, "" for the inbox
}

func (a *app) uiCmd() *cobra.Command {
	f := uiFlags{addr: "127.0.0.1:0"}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the inbox and tasks in the browser",
		Long: `Serve a page on this machine that shows what needs you, what runs, and what happened and why.
The printed address works once, for one browser. Tasks that you start, resume or answer on the
page run in this process; they stop when it does, and can be resumed. With --read-only nothing
can be changed.

With --offline, tasks started on the page need no account and no network: the real Codex talks
to a scripted model. --task shows only a copy of a task's directory, such as one from a ZIP
file; no record is needed and nothing is changed.`,
		Example: `  plait ui --open
  plait ui --read-only
  plait ui --task ./k7f2/task`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.servePages(cmd, f)
		},
	}
	cmd.Flags().StringVar(&f.addr, "addr", f.addr, "`address` on this machine to listen on; port 0 is any free one")
	cmd.Flags().BoolVar(&f.open, "open", false, "open the page in a browser")
	cmd.Flags().BoolVar(&f.only, "read-only", false,
		"only show tasks: nothing can be started, answered, resumed or cancelled")
	cmd.Flags().StringVar(&f.copied, "task", "", "show only this copy of a task's `directory`")
	addOffline(cmd, &f.offline, " (default: the flow's own, else work)")
	return cmd
}

// servePages serves the record, or the copy of a task's directory, until the command ends.
func (a *app) servePages(cmd *cobra.Command, f uiFlags) error {
	var s *web.Server
	if cmd.Flags().Changed("task") {
		c, err := taskdir.OpenCopy(f.copied)
		if err != nil {
			return usagef("%w", err)
		}
		defer c.Close()
		s = web.NewCopy(web.CopyConfig{Copy: c, Program: a.named})
	} else {
		offline, err := offlineFlag(f.offline)
		if err != nil {
			return err
		}
		w, err := a.open(cmd.Context(), "")
		if err != nil {
			return err
		}
		s = web.New(web.Config{
			Store: w.store, Control: w.control, Reader: w.control.Reader(), Dirs: w.dirs(), Workspace: w.workspace,
			Home: w.home, ReadOnly: f.only, Person: gate.Person(), Start: f.start, Agents: w.control.Agents(),
			Consent: func(f control.Found) error { return a.agreed(w, f) }, Open: a.controlOf,
			Publish: a.publish, Signing: a.signing(w), Vouches: vouching,
			Offline: func(flow string) string { return scenario(offline, flow) },
			Demo:    &web.Demo{Codex: codexInstalled()}, Hosts: a.program.Exposed != "", Program: a.named,
		})
	}
	l, err := web.Listen(f.addr)
	if err != nil {
		return usagef("%w", err)
	}
	return s.Serve(cmd.Context(), l, func(url string) { a.served(cmd, 0, url, f.open) })
}

// served prints the address of the page, and opens it in a browser if requested. pid is the process that serves it, 0
// for this one.
func (a *app) served(cmd *cobra.Command, pid int, url string, browse bool) error {
	data, note := map[string]any{"url": url}, "Press Ctrl-C to stop."
	if pid != 0 {
		data["pid"], note = pid, a.says(fmt.Sprintf("Served by plait ui, process %d.", pid))
	}
	err := a.print(cmd, data, func(out page) {
		out.line("%s", url)
		if isTerminal(a.err) {
			fmt.Fprintln(a.err, note)
		}
	})
	if browse {
		a.browse(url)
	}
	return err
}

func (a *app) openCmd() *cobra.Command {
	f := uiFlags{addr: "127.0.0.1:0"}
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open [TASK]",
		Short: "Open a task in the browser",
		Long: `Open the page of a task in the browser: the newest task of this workspace, or TASK. The page is
served by the plait ui that runs for this workspace, else by this command until you press
Ctrl-C. The printed address works once.`,
		Example: `  plait open
  plait open k7f2 --print     # print the address, open nothing`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openTask(ctx, newest(args))
			if err != nil {
				return err
			}
			f.start = "/tasks/" + row.ID
			if there := web.FindRunning(ctx, w.home, w.workspace); there != nil && !cmd.Flags().Changed("addr") {
				if at, err := there.URL(ctx, f.start); err == nil {
					return a.served(cmd, there.PID, at, !printOnly)
				}
			}
			f.open = !printOnly
			return a.servePages(cmd, f)
		},
	}
	cmd.Flags().StringVar(&f.addr, "addr", f.addr, "`address` on this machine to listen on; port 0 is any free one")
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the address, but open no browser")
	return cmd
}

// codexInstalled reports whether the default Codex is in PATH.
func codexInstalled() bool {
	_, err := exec.LookPath("codex")
	return err == nil
}

// controlOf returns the controller of a task's own workspace, once the person agreed to the project files that its
// commands are taken from.
func (a *app) controlOf(ctx context.Context, row store.Thread) (*control.Controller, error) {
	there, err := a.open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	return there.control, a.agreed(there, control.Found{})
}

// agreed makes sure, where no one can be asked, that the person agreed to the project files that
// commands of a flow are taken from. As with plait run, the first use counts as consent.
func (a *app) agreed(w *workplace, f control.Found) error {
	now, err := config.Load(config.UserFile(), config.ProjectFile(w.workspace), a.getenv)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, w.settings) {
		return errors.New("the configuration changed since this program was started: restart it")
	}
	t, commands, others, err := w.trust(f)
	if err != nil {
		return err
	}
	if changed := t.Check(commands); len(changed) > 0 {
		allow := "resume TASK --trust"
		if f.Bundle.Name != "" {
			allow = "run " + f.Bundle.Name + " -p PROMPT --trust"
		}
		return fmt.Errorf("%s changed since it was last used; review the change, "+
			"then allow it with: plait %s", changedFiles(changed), allow)
	}
	return t.Consent(both(commands, others))
}

// browse asks the desktop to open a page. It only warns if it cannot: the address was
// printed.
func (a *app) browse(url string) {
	with := "xdg-open"
	if runtime.GOOS == "darwin" {
		with = "open"
	}
	cmd := exec.Command(with, url)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(a.err, "no browser was opened:", err)
		return
	}
	go cmd.Wait() // otherwise it remains as a zombie as long as the server runs
}
