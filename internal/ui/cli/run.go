package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// driveFlags are shared by the verbs that make threads continue.
type driveFlags struct {
	prompt string
	agent  string
	sets   []string
	limits []string
	trust  bool
	quiet  bool
	wait   bool
	detach bool

	approve string
	expires time.Duration
	offline string
	merge   string
	agents  positive
	record  bool
	keep    bool

	workspace string // where to continue
	forks     bool   // nothing continues yet

	on    string // who runs the agents
	needs []string
}

func (f *driveFlags) add(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "what to do: text, `@FILE`, or - for stdin")
	cmd.Flags().StringVar(&f.agent, "agent", "", "use this `agent` for every role")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "use an agent for one role: `ROLE.agent=NAME`")
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil,
		"set a limit: `NAME=VALUE`, such as maxRounds=10, timeout=1h or maxTokens=100000")
	cmd.Flags().BoolVar(&f.trust, "trust", false, "run commands from project files even though they changed")
	cmd.Flags().BoolVar(&f.wait, "wait", false,
		"wait for answers when nothing else is left to do (default on a terminal)")
	cmd.Flags().StringVar(&f.approve, "approve", "",
		"approval `policy`: ask (default); never: deny everything; sandboxed: auto-approve inside the sandbox")
	cmd.Flags().DurationVar(&f.expires, "approve-expires", 0,
		"deny automatically after this time (default: wait)")
	cmd.Flags().StringVar(&f.offline, "offline", "",
		"run agents against a scripted model, without an account: the name of a `scenario`, or a file")
	cmd.Flags().Lookup("offline").NoOptDefVal = offlineAuto
	cmd.Flags().StringVar(&f.merge, "merge", "",
		"`how` to merge agents' changes: auto, asking only on conflict (default); ask: always ask; keep: leave them on branches")
	cmd.Flags().BoolVar(&f.record, "record", false, "record agents' requests to their models, and the responses")
	cmd.Flags().BoolVar(&f.keep, "keep-files", false, "keep the files that each step leaves in the record (see plait task pull)")
	cmd.Flags().Var(&f.agents, "max-agents", "run at most `N` agents at once")
	cmd.RegisterFlagCompletionFunc("merge", cobra.FixedCompletions([]string{control.MergeAuto, control.MergeAsk,
		control.MergeKeep}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions([]string{record.ApproveAsk, record.ApproveNever,
		record.ApproveSandboxed}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("offline", completeScenarios)
	cmd.Flags().BoolVarP(&f.detach, "detach", "d", false,
		"run in a separate process, which outlives this terminal and waits for answers (see plait logs)")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress")
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgents)
	cmd.RegisterFlagCompletionFunc("set", a.completeRoles)
	cmd.RegisterFlagCompletionFunc("limit", cobra.FixedCompletions(limitNames,
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// byteOrderMark begins texts of some editors, and is no part of them.
const byteOrderMark = "\uFEFF"

// text returns the prompt that a flag specifies.
func (a *app) text(flag string) (string, error) {
	read := func(data []byte, err error) (string, error) {
		if err != nil {
			return "", usagef("read prompt: %w", err)
		}
		data = bytes.TrimPrefix(data, []byte(byteOrderMark))
		if !store.IsText(string(data)) {
			return "", usagef("read prompt: not UTF-8 text, or it has a NUL")
		}
		return string(data), nil
	}
	if flag == "-" {
		return read(io.ReadAll(a.in))
	}
	if file, ok := strings.CutPrefix(flag, "@"); ok {
		return read(os.ReadFile(file))
	}
	return read([]byte(flag), nil)
}

// goOn reads the flags of a verb that continues a thread, finds the thread, and
// opens the workplace that it belongs to.
func (a *app) goOn(
	ctx context.Context, typed string, f *driveFlags,
) (w *workplace, row store.Thread, prompt string, opts control.Options, err error) {
	if prompt, err = a.text(f.prompt); err != nil {
		return
	}
	if opts, err = f.options(); err != nil {
		return
	}
	if _, row, err = a.openThread(ctx, typed); err != nil {
		return
	}
	if !f.forks && f.on == "" && !control.Team(row) {
		if err = a.noAgents(); err != nil {
			return
		}
	}
	opts.Offline = scenario(opts.Offline, row.Flow)
	if row, err = a.takeOver(ctx, row, f); err != nil {
		return
	}
	w, err = a.open(ctx, row.Workspace)
	return
}

// offlineAuto is --offline without a scenario.
const offlineAuto = "auto"

// scenario resolves the name of a scenario. offlineAuto means the one named
// after the flow, or else the one that suits every flow.
func scenario(name, flowName string) string {
	if name != offlineAuto {
		return name
	}
	if slices.Contains(scripted.Names(), flowName) {
		return flowName
	}
	return "work"
}

// waits reports whether to wait for people's answers when nothing else is left.
func (a *app) waits(f driveFlags) bool {
	return f.wait || !a.json && isTerminal(a.in) && isTerminal(a.err)
}

// runFlags are the flags of run.
type runFlags struct {
	driveFlags
	id, dir, tree string
}

func (f *runFlags) add(cmd *cobra.Command, a *app) {
	f.driveFlags.add(cmd, a)
	cmd.Flags().StringVar(&f.id, "id", "", "`ULID` of the new task (default: generated)")
	cmd.Flags().StringVarP(&f.dir, "dir", "C", "", "run as if started in this `directory`")
	cmd.Flags().StringVar(&f.tree, "worktree", "", "`directory` the agents work in, if not the workspace")
	cmd.MarkFlagDirname("dir")
	f.addOn(cmd, a, "default: this process")
}

// addOn adds the flags of verbs that leave a task to workers. without says who runs it otherwise.
func (f *driveFlags) addOn(cmd *cobra.Command, a *app, without string) {
	if a.program.Team == nil {
		return
	}
	cmd.Flags().StringVar(&f.on, "on", "", "`who` runs the agents: team, the workers of the record; "+without)
	cmd.Flags().StringSliceVar(&f.needs, "needs", nil, "`labels` that a worker has to have")
	cmd.RegisterFlagCompletionFunc("on", cobra.FixedCompletions([]string{control.OnTeam}, cobra.ShellCompDirectiveNoFileComp))
}

// options reads the flags, and refuses those that conflict with each other or with this machine.
func (f *runFlags) options(a *app) (control.Options, error) {
	if err := onFlag(f.on, f.needs); err != nil {
		return control.Options{}, err
	}
	if f.on == "" {
		if err := a.noAgents(); err != nil {
			return control.Options{}, err
		}
	}
	o, err := f.driveFlags.options()
	if err == nil {
		f.tree, err = workingTree(f.tree)
	}
	o.On, o.Needs = f.on, f.needs
	return o, err
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [FLOW] -p PROMPT",
		Short: "Run a flow until it finishes or needs you",
		Long: `Run a flow until it finishes or needs you. FLOW is a file or a name: plait flow list shows
the names. Without FLOW a single agent does the work (solo).

Progress is written to stderr, the result to stdout. With --json, stdout has one event a
line, and the result on the last.

Exit codes: 0 done; 1 failed, or out of attempts; 2 usage; 3 not found; 4 needs you;
5 limit reached (124: time limit); 7 conflict; 130 interrupted.`,
		Example: `  plait run -p "Fix the failing test"
  plait run orchestrate -p @task.md --max-agents 4
  plait run examples/audit.yaml -p "Audit this repository"
  plait run -p "Say hello" --offline      # no account, no network: a scripted model`,
		Args:              atMost(1, "one flow"),
		ValidArgsFunction: a.completeFlows,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			opts, err := f.options(a)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"solo"}
			}
			prompt, err := a.text(f.prompt)
			if err != nil {
				return err
			}
			if args[0] == flow.ChatFlow && prompt == "" && !f.quiet && isTerminal(a.in) && a.moves(a.err) {
				return a.talk(cmd, f.dir, f.tree, opts)
			}
			if strings.TrimSpace(prompt) == "" {
				return usagef("no prompt: say what to do with `plait run %s -p PROMPT`", safe(args[0]))
			}
			w, err := a.open(ctx, f.dir)
			if err != nil {
				return err
			}
			found, err := w.findFlow(ctx, args[0])
			if err != nil {
				return err
			}
			opts.Offline = scenario(opts.Offline, found.Bundle.Name)
			for _, p := range found.Problems {
				fmt.Fprintln(a.err, "warning: "+safe(p.String()))
			}
			if err := a.noteTurns(ctx, w, found, f); err != nil {
				return err
			}
			if err := a.consent(w, found, f.trust); err != nil {
				return err
			}
			if _, err := config.Init(w.workspace, w.home); err != nil {
				return badUsage{err}
			}
			spec := control.Spec{
				Bundle: found.Bundle, Prompt: prompt, Workspace: w.workspace, Tree: f.tree, ID: f.id, Options: opts,
			}
			if f.on != "" {
				if spec.Upload, err = a.upload(ctx, w, cmp.Or(spec.Tree, spec.Workspace)); err != nil {
					return err
				}
			}
			row, err := w.control.Begin(ctx, spec)
			if err != nil {
				return err
			}
			return a.drive(cmd, w, row, control.Resume{}, f.driveFlags)
		},
	}
	f.add(cmd, a)
	return cmd
}

// noteTurns says so if a flow's agents will work one after the other.
func (a *app) noteTurns(ctx context.Context, w *workplace, found control.Found, f runFlags) error {
	note, err := w.control.InTurn(ctx, found.Bundle, cmp.Or(f.tree, w.workspace))
	if err != nil {
		return badUsage{err}
	}
	if note != "" && !f.quiet && !a.json {
		fmt.Fprintln(a.err, "note: "+note)
	}
	return nil
}

// workingTree returns the directory that --worktree names, or "".
func workingTree(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	tree, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(tree)
	switch {
	case err != nil:
		return "", usagef("--worktree %s: %w", safe(dir), err)
	case !info.IsDir():
		return "", usagef("--worktree %s: it is not a directory", safe(dir))
	}
	return tree, nil
}

func (a *app) resumeCmd() *cobra.Command {
	var f driveFlags
	var again bool
	var contextForm string
	cmd := &cobra.Command{
		Use:   "resume TASK [-p MORE]",
		Short: "Continue a task that was interrupted, needs you, or has not begun",
		Long: `Continue a task after its last step. Steps that are done are never run again.

With -p MORE you answer what it asks; a task that is done is continued in a fork, which
has an id of its own. An interrupted attempt is retried automatically if its role only
reads; otherwise --again allows it.

A task of another machine continues in a copy of its directory: name the copy with --workspace. An
imported task runs commands of its flow only with --trust.`,
		Example: `  plait resume k7f2
  plait resume k7f2 -p "v1.2.0"
  plait resume k7f2 --limit maxTokens=200000`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := cmp.Or(oneOf("context", contextForm, control.ContextFull, control.ContextSummary), onFlag(f.on, f.needs)); err != nil {
				return err
			}
			w, row, prompt, opts, err := a.goOn(ctx, args[0], &f)
			if err != nil {
				return err
			}
			if err := a.consent(w, control.Found{}, f.trust); err != nil {
				return err
			}
			opts.Context, opts.On, opts.Needs = contextForm, f.on, f.needs
			r := control.Resume{Prompt: prompt, Again: again, Options: opts,
				Told: func(note string) { fmt.Fprintln(a.err, note) }}
			if f.on != "" {
				if r.Upload, err = a.handOver(ctx, w, row); err != nil {
					return err
				}
			}
			return a.drive(cmd, w, row, r, f)
		},
	}
	f.add(cmd, a)
	f.addWorkspace(cmd)
	f.addOn(cmd, a, "default: whoever ran them before")
	cmd.Flags().BoolVar(&again, "again", false,
		"repeat the attempts that are interrupted now, although they may have changed something")
	cmd.Flags().StringVar(&contextForm, "context", "",
		"what agents are told of the conversation from now on: `full`, without its summaries, or summary")
	return cmd
}

// recorded reports that the process that drives a task will pick up what was added.
func (a *app) recorded(cmd *cobra.Command, row store.Thread, r *control.RecordedError) error {
	v := view.NewStanding(row)
	v.Recorded, v.Summary = true, r.Held.Error()+"; your text is passed to the agent at work if possible, else before the next step"
	return a.print(cmd, v, func(out io.Writer) {
		names := (&view.Reader{Store: a.store}).Names()
		fmt.Fprintln(out, "recorded: "+safe(names.In(cmd.Context(), v.Summary)))
	})
}

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
			w, err := a.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			rows := make([]store.Thread, len(args)) // all are found before the first is cancelled
			for i, name := range args {
				if rows[i], err = w.threadID(cmd.Context(), name); err != nil {
					return err
				}
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
				if err := a.print(cmd, res, func(out io.Writer) {
					fmt.Fprintf(out, "%s  %s\n", w.view().Names().Of(cmd.Context(), row), res.Status)
				}); err != nil {
					return err
				}
			}
			return failed
		},
	}
}
