package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/codex"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/web"
	"github.com/plait-run/plait/internal/view"
)

// demoFiles are the demo's project, and the programs that act as its agents without Codex.
//
//go:embed demo
var demoFiles embed.FS

// demoPrompt is the prompt of the demo's task.
const demoPrompt = "Find and fix the failing test, and say in the README what tally prints without numbers"

// demoAnswer is the answer that --yes gives.
const demoAnswer = "0"

// demoFlags are the flags of plait demo.
type demoFlags struct {
	yes, keep, noBrowser bool
}

func (a *app) demoCmd() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three agents fix a test, offline, and answer their questions",
		Long: `Run a task in a small project made for it: a planner starts three agents, one asks a
question, one asks for approval, and their changes are merged. It needs no account and no
network. Without Codex, programs play the agents.

On a terminal the page opens on the task; answer and approve there. Elsewhere, and with
--json, the demo ends when it needs you (exit code 4); with --yes it answers and approves itself.

The demo has a record of its own, so yours is not touched. Both the project and the record
are removed at the end. --keep keeps them.`,
		Example: `  plait demo                  # in a browser
  plait demo --yes | less     # without one`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd, f) },
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "answer the question and give the approval automatically")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the project and its record")
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the address of the page, but open no browser")
	return cmd
}

// demo makes a project, runs the demo's task in it, and removes it.
func (a *app) demo(cmd *cobra.Command, f demoFlags) (err error) {
	if a.getenv("PLAIT_CONTEXT") != "" || a.getenv("PLAIT_TASK") != "" {
		return errInside
	}
	d := &demo{app: a, cmd: cmd, demoFlags: f, watched: !a.json && isTerminal(a.in) && isTerminal(a.err)}
	if err := d.make(cmd.Context()); err != nil {
		return fmt.Errorf("make the demo's project: %w", err)
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	found, err := d.w.control.Find(cmd.Context(), d.w.dir, "orchestrate")
	if err != nil {
		return err
	}
	task, err := d.w.control.Begin(cmd.Context(), control.Spec{Bundle: found.Bundle, Prompt: demoPrompt,
		Workspace: d.w.workspace, Options: d.options()})
	if err != nil {
		return err
	}
	if d.watched {
		return d.onPage(task)
	}
	if !a.json {
		fmt.Fprintln(a.err, "Three agents fix a failing test. The agents are "+d.agents()+".")
	}
	return d.drive(cmd.Context(), task)
}

// A demo is one run of plait demo.
type demo struct {
	*app
	demoFlags
	cmd     *cobra.Command
	root    string // contains all its files
	w       *workplace
	codex   bool // Codex is installed
	watched bool // by a person, on a terminal and on the page
}

// options choose who does the work: Codex with a scripted model or, without it, programs. Programs
// cannot ask before they act, so then the merge needs approval instead.
func (d *demo) options() control.Options {
	if d.codex {
		return control.Options{Agent: "codex", Offline: "demo"}
	}
	return control.Options{Merge: control.MergeAsk}
}

func (d *demo) agents() string {
	if d.codex {
		return "Codex with a scripted model: no account, no network"
	}
	return "programs, because Codex is not installed (npm install -g @openai/codex@" + codex.Version + ")"
}

// onPage shows the task on the page until the person leaves.
func (d *demo) onPage(row store.Thread) error {
	l, err := web.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(d.cmd.Context())
	defer stop()
	page := d.page(row)
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() { served <- page.Serve(ctx, l, func(url string) { ready <- url }) }()
	var url string
	select {
	case url = <-ready:
	case err := <-served:
		return err
	}
	fmt.Fprintf(d.err, demoText, d.agents(), d.w.workspace, url)
	if !d.noBrowser {
		d.browse(url)
	}
	err = d.drive(ctx, row)
	if err == nil && ctx.Err() == nil {
		fmt.Fprintln(d.err, "\nThe page stays open. Press Ctrl-C here to end the demo.")
		select {
		case err = <-served:
			return err
		case <-ctx.Done():
		}
	}
	stop()
	d.code = exitDone // leaving is how a demo ends
	return errors.Join(err, <-served)
}

const demoText = `Three agents fix a failing test in a small project. Two of them need you.

  agents   %s
  project  %s

This page shows them; the address works once:

  %s

  1. One agent asks a question: type anything, and press Answer.
  2. One wants your approval: look at what it would do, and press Approve.

Without a browser, answer in a second terminal: cd there, then plait --home ../home gate list
Ctrl-C here ends the demo and removes its files.

`

// page is the page of plait ui on the demo's record. It may run only the demo.
func (d *demo) page(row store.Thread) *web.Server {
	v := d.w.view()
	return web.New(web.Config{
		Store: d.w.store, Control: d.w.control, Reader: v.Nodes, Dirs: d.w.dirs(), Workspace: d.w.workspace,
		Home: d.w.home, Person: gate.Person(), Agents: d.w.control.Agents(), Start: "/tasks/" + row.ID,
		Signing: d.signing(d.w), Vouches: vouching,
		Offline: func(flow string) string { return scenario(offlineAuto, flow) },
	})
}

// drive runs the task to its end, or until it waits for a person who is not there, and meanwhile
// reports what needs the person.
func (d *demo) drive(ctx context.Context, row store.Thread) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reported := make(chan error, 1)
	go func() { reported <- d.report(ctx, row) }()
	end, err := d.w.control.Drive(ctx, row.ID, control.Resume{Wait: d.watched || d.yes})
	stop()
	if reportErr := <-reported; err == nil && !errors.Is(reportErr, context.Canceled) {
		err = reportErr
	}
	if errors.Is(err, engine.ErrInterrupted) {
		d.code = exitInterrupted
		return nil
	}
	if err != nil {
		return err
	}
	return d.ended(context.WithoutCancel(ctx), end)
}

// report reports what needs the person, as it comes up. With --yes it answers immediately.
func (d *demo) report(ctx context.Context, row store.Thread) error {
	feed := d.w.view().GateFeed(view.GateFilter{Task: row.ID})
	return eachGate(ctx, feed, false, func(g store.Gate) error {
		if g.State == store.GateOpen && d.yes {
			if _, err := d.book(d.w, "", nil).Answer(ctx, g.ID, demoAnswerTo(g)); err != nil {
				return err
			}
		}
		if !d.json {
			fmt.Fprintln(d.err, d.line(g))
		}
		return nil
	})
}

func demoAnswerTo(g store.Gate) gate.Answer {
	ans := gate.Answer{By: "--yes", Via: store.ViaCLI}
	if g.Kind == store.GateInput {
		ans.Text = demoAnswer
	} else {
		ans.Approve = true
	}
	return ans
}

// line is the line printed for a gate.
func (d *demo) line(g store.Gate) string {
	if g.State != store.GateOpen {
		return "            " + closed(g)
	}
	what := "question from "
	if g.Kind == store.GateApproval {
		what = "approval for "
	}
	return "needs you:  " + what + text.Safe(g.Node) + ": " + strings.Join(asks(g, 200), " ")
}

// ended prints the result of the task and what changed, or what it waits for.
func (d *demo) ended(ctx context.Context, row store.Thread) error {
	open, below, err := d.w.waiting(ctx, row)
	if err != nil {
		return err
	}
	v := demoEnd{Standing: view.NewStanding(row), Workspace: d.w.workspace, Home: d.w.home}
	v.Exit = statusCode(row, below)
	d.code = v.Exit
	for _, g := range open {
		v.NeedsYou = append(v.NeedsYou, view.About(g))
	}
	if row.Ended() {
		r, err := d.w.view().Result(ctx, row)
		if err != nil {
			return err
		}
		v.Text, v.Summary = r.Text, r.End
	}
	if v.Diff, err = d.git(ctx, "diff", "--no-color", "--no-ext-diff"); err != nil {
		return err
	}
	return d.print(d.cmd, v, func(out page) {
		if v.Exit == exitPerson {
			fmt.Fprintln(d.err, "The demo needs you, but there is no terminal. Run plait demo on a terminal, "+
				"or plait demo --yes, which answers automatically.")
			return
		}
		fmt.Fprintf(out, "\n%s\n\n%s", strings.TrimSpace(text.Safe(v.Text)), text.Safe(v.Diff))
	})
}

// demoEnd is what plait demo --json prints.
type demoEnd struct {
	view.Standing
	Workspace string   `json:"workspace"`
	Home      string   `json:"home"`
	Text      string   `json:"text"`
	Diff      string   `json:"diff"`
	NeedsYou  []string `json:"needsYou,omitempty"`
}

// remove removes what the demo made, or says where it is.
func (d *demo) remove() error {
	if d.store != nil {
		d.store.Close()
		d.store = nil
	}
	if !d.keep {
		return os.RemoveAll(d.root)
	}
	if !d.json {
		fmt.Fprintf(d.err, "kept in %s; see it with: plait --home %s show\n", d.w.workspace, d.w.home)
	}
	return nil
}

// demoDir is where demos are made: not below the temporary directory, where agents can write.
func demoDir() string { return filepath.Join(xdg.CacheHome, "plait", "demo") }
