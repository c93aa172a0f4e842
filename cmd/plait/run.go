package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/attempt"
	"github.com/plait-run/plait/internal/config"
	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/scripted"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// driveFlags are shared by the verbs that make threads go on.
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
	agents  int
}

func (f *driveFlags) add(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "what is to be done (@FILE reads a file, - reads standard input)")
	cmd.Flags().StringVar(&f.agent, "agent", "", "agent for every role")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "agent for one role: ROLE.agent=NAME")
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil,
		"a limit over the flow's: maxRounds=10, timeout=1h, maxTokens=100000 …")
	cmd.Flags().BoolVar(&f.trust, "trust", false, "run commands from project files though they changed")
	cmd.Flags().BoolVar(&f.wait, "wait", false,
		"wait for answers of people when nothing else is left (default: on a terminal)")
	cmd.Flags().StringVar(&f.approve, "approve", "",
		"what agents ask for: ask a person (default), never, or sandboxed: only what leaves the sandbox is asked")
	cmd.Flags().DurationVar(&f.expires, "approve-expires", 0,
		"after this time without an answer it is a no (default: never)")
	cmd.Flags().StringVar(&f.offline, "offline", "",
		"run Codex agents against a scripted model: a scenario's name, or a file (default: the flow's own, else work)")
	cmd.Flags().Lookup("offline").NoOptDefVal = offlineAuto
	cmd.Flags().StringVar(&f.merge, "merge", "",
		"files that agents change in working trees of their own: "+
			"auto merges them and asks a person only where that cannot be (default), ask, or keep: they stay on branches")
	cmd.Flags().IntVar(&f.agents, "max-agents", 0, "agents that may be at work at once (--limit maxConcurrent=N)")
	cmd.RegisterFlagCompletionFunc("merge", cobra.FixedCompletions([]string{control.MergeAuto, control.MergeAsk,
		control.MergeKeep}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions([]string{attempt.ApproveAsk, attempt.ApproveNever,
		attempt.ApproveSandboxed}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("offline",
		cobra.FixedCompletions(scripted.Described(), cobra.ShellCompDirectiveDefault))
	cmd.Flags().BoolVarP(&f.detach, "detach", "d", false,
		"in a process of its own that outlives this terminal, and waits for answers; see plait logs")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "do not show what happens meanwhile")
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgents)
}

// text returns the prompt that a flag means.
func (a *app) text(flag string) (string, error) {
	read := func(data []byte, err error) (string, error) {
		if err != nil {
			return "", usagef("read prompt: %w", err)
		}
		if !utf8.Valid(data) {
			return "", usagef("read prompt: not UTF-8 text")
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

// goOn reads the flags of a verb by which a thread goes on, finds the thread, and
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
	opts.Offline = scenario(opts.Offline, row.Flow)
	w, err = a.open(ctx, row.Workspace)
	return
}

// offlineAuto is --offline without a scenario.
const offlineAuto = "auto"

// scenario returns the scenario that is meant: without a name the one that is
// called like the flow, else the one that suits every flow.
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

func parseLimits(limits []string) (flow.Limits, error) {
	var text strings.Builder
	for _, l := range limits {
		name, value, ok := strings.Cut(l, "=")
		if !ok || strings.ContainsAny(l, "\n#{}") {
			return flow.Limits{}, usagef("--limit %s: want NAME=VALUE", safe(l))
		}
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text.String()), &doc); err != nil || len(doc.Content) == 0 {
		return flow.Limits{}, usagef("--limit %s: want NAME=VALUE", safe(strings.Join(limits, " ")))
	}
	l, problems := flow.DecodeLimits(doc.Content[0], "--limit")
	if len(problems) > 0 {
		return l, &flow.InvalidError{Problems: problems}
	}
	return l, nil
}

func (a *app) runCmd() *cobra.Command {
	var f driveFlags
	var id, dir, tree string
	cmd := &cobra.Command{
		Use:   "run [FLOW] -p PROMPT",
		Short: "Run a flow to its end",
		Long: `Run a flow until it has ended or waits for a person. FLOW is a file, the name of a
flow in .plait/flows or .workflows, a name in the registry, the hash of a bundle, or one
that comes with Plait. Without FLOW, one agent does it alone: solo.

--offline needs no account and no network: the real Codex works against a scripted model.

What happens meanwhile is shown on standard error, the text of the last step on
standard output. With --json, standard output has one event a line and last the result.

Exit codes: 0 done; 1 failed, or attempts are used up; 2 usage; 3 not found;
4 waits for a person; 5 a limit is reached (124: of time); 7 conflict; 130 interrupted.`,
		Example:           `  plait run examples/audit.yaml -p "Audit this repository"`,
		Args:              atMost(1, "one flow"),
		ValidArgsFunction: a.completeFlows,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 0 {
				args = []string{"solo"}
			}
			prompt, err := a.text(f.prompt)
			if err != nil {
				return err
			}
			if strings.TrimSpace(prompt) == "" {
				return usagef("say what is to be done: plait run %s -p PROMPT", safe(args[0]))
			}
			opts, err := f.options()
			if err != nil {
				return err
			}
			if tree, err = workingTree(tree); err != nil {
				return err
			}
			w, err := a.open(ctx, dir)
			if err != nil {
				return err
			}
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil {
				return err
			}
			opts.Offline = scenario(opts.Offline, found.Bundle.Name)
			for _, p := range found.Problems {
				fmt.Fprintln(a.err, "warning: "+safe(p.String()))
			}
			if err := a.consent(w, commandFiles(found), f.trust); err != nil {
				return err
			}
			if _, err := config.Init(w.workspace, w.home); err != nil {
				return badUsage{err}
			}
			row, err := w.control.Begin(ctx, control.Spec{
				Bundle: found.Bundle, Prompt: prompt, Workspace: w.workspace, Tree: tree, ID: id, Options: opts,
			})
			if err != nil {
				return err
			}
			return a.driveAs(cmd, w, row, control.Resume{}, f)
		},
	}
	f.add(cmd, a)
	cmd.Flags().StringVar(&id, "id", "", "id of the thread, a ULID (default: drawn)")
	cmd.Flags().StringVarP(&dir, "dir", "C", "", "work as if started in this directory")
	cmd.Flags().StringVar(&tree, "worktree", "", "working tree of the agents, when it is not the workspace")
	cmd.MarkFlagDirname("dir")
	return cmd
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
		Use:   "resume THREAD [-p MORE]",
		Short: "Go on with a thread that was interrupted, is blocked, or is new",
		Long: `Go on after the last step. What is committed is never run again.

A completed thread goes on with -p MORE: in a fork from before its end, by the
flow's $START.resume. An attempt that was cut off runs again when its role only
reads; otherwise --again says that it may.`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if contextForm != "" && contextForm != "full" {
				return usagef("--context %s: there is full", safe(contextForm))
			}
			w, row, prompt, opts, err := a.goOn(ctx, args[0], &f)
			if err != nil {
				return err
			}
			if err := a.consent(w, nil, f.trust); err != nil {
				return err
			}
			return a.driveAs(cmd, w, row, control.Resume{Prompt: prompt, Again: again, Full: contextForm == "full",
				Options: opts}, f)
		},
	}
	f.add(cmd, a)
	cmd.Flags().BoolVar(&again, "again", false, "run an attempt again that was cut off and may have acted")
	cmd.Flags().StringVar(&contextForm, "context", "", "full: give agents the conversation past its summaries")
	return cmd
}

// drive drives a thread, showing what happens, and prints how it ended.
func (a *app) drive(cmd *cobra.Command, w *workplace, row store.Thread, r control.Resume, quiet bool) error {
	ctx := cmd.Context()
	var follow *follower
	if !quiet || a.json {
		follow = a.follow(w, row)
	}
	end, err := w.control.Drive(ctx, row.ID, r)
	if follow != nil {
		follow.stop()
	}
	var recorded *control.RecordedError
	if errors.As(err, &recorded) {
		return a.recorded(cmd, row, recorded)
	}
	if err != nil && !errors.Is(err, engine.ErrInterrupted) {
		return err
	}
	if end.ID == "" {
		end = row
	}
	return a.ended(cmd, w, end, errors.Is(err, engine.ErrInterrupted))
}

// recorded says that whoever drives a task takes in what was added.
func (a *app) recorded(cmd *cobra.Command, row store.Thread, r *control.RecordedError) error {
	v := view.NewStanding(row)
	v.Recorded, v.Summary = true, r.Held.Error()+"; what you said is told to the agent at work where it can be, else before the next step"
	return a.print(cmd, v, func(out io.Writer) { fmt.Fprintln(out, "recorded: "+safe(v.Summary)) })
}

// ended prints where a thread stands, and sets the exit code from it.
func (a *app) ended(cmd *cobra.Command, w *workplace, row store.Thread, interrupted bool) error {
	ctx := context.WithoutCancel(cmd.Context())
	if now, err := w.store.Thread(ctx, row.ID); err == nil {
		row = now
	}
	var below []store.Thread
	var open []store.Gate
	if row.Status == store.Blocked {
		var err error
		if open, err = w.store.Gates(ctx, store.GateFilter{Task: row.Task, State: store.GateOpen}); err != nil {
			return err
		}
		if below, err = w.store.Threads(ctx, store.ThreadFilter{Task: row.Task,
			Statuses: []store.Status{store.Blocked}}); err != nil {
			return err
		}
	}
	res := view.NewStanding(row)
	res.Exit = statusCode(row, below)
	if interrupted && !row.Ended() {
		res.Status, res.Exit = view.Interrupted, exitInterrupted
		res.Summary = "stopped; go on with: " + commandLine(view.ResumeOf(row.ID, nil))
	}
	a.code = res.Exit
	text := ""
	for s, err := range w.control.Reader().Walk(ctx, row.Head) {
		if err != nil {
			return err
		}
		if s.State.Role == thread.RoleEnd {
			if res.Summary, err = w.control.Reader().Text(ctx, s.State.Content); err != nil {
				return err
			}
			continue
		}
		if thread.Routed(s.State.Role) {
			if text, err = w.control.Reader().Text(ctx, s.State.Content); err != nil {
				return err
			}
			break
		}
	}
	if row.Reason != nil {
		for _, g := range open {
			if g.ID == row.Reason.Gate && g.Kind == store.GateInput {
				text = g.Question
			}
		}
	}
	if row.Reason != nil && res.Summary == "" {
		res.Summary = row.Reason.Message
	}
	return a.print(cmd, res, func(out io.Writer) {
		if text != "" && (row.Ended() || row.Reason != nil && row.Reason.Kind == store.ReasonInput) {
			fmt.Fprintln(out, strings.TrimRight(safe(text), "\n"))
		}
		st := a.style(a.err)
		status := st.status(string(res.Status))
		if row.Status == store.Blocked && row.Reason != nil {
			status += " (" + string(row.Reason.Kind) + ")"
		}
		fmt.Fprintf(a.err, "%s  %s  %s\n", st.bold(row.ID), status, oneLine(res.Summary, 300))
		for _, next := range nextText(row, open, res.Exit == exitPerson) {
			fmt.Fprintln(a.err, st.dim(next))
		}
	})
}

// maxAnswers bounds how many open gates are spelled out.
const maxAnswers = 5

// nextText says what a person can do about a thread that is not driven any more. open are the gates
// of its task; asks says that somebody below it waits for one.
func nextText(row store.Thread, open []store.Gate, asks bool) []string {
	if row.Ended() {
		return []string{"look at it with: plait thread show " + row.ID}
	}
	if row.Status != store.Blocked {
		return nil
	}
	var kind store.ReasonKind
	if row.Reason != nil {
		kind = row.Reason.Kind
	}
	with := commandLine(view.ResumeOf(row.ID, row.Reason))
	switch {
	case kind == store.ReasonInput:
		return []string{"answer with: " + with}
	case kind == store.ReasonLimit:
		return []string{"go on with: " + with}
	case len(open) > maxAnswers:
		return []string{"look at what is asked with: plait gate list; then go on with: " + with}
	case len(open) > 0 && (kind == store.ReasonGate || kind == store.ReasonConflict || asks):
		var lines []string
		for _, g := range open {
			line := "answer with: " + commandLine(view.AnswersOf(g)[0])
			if g.Kind == store.GateApproval {
				line += " (or deny; look first with: plait gate show " + g.ID + ")"
			}
			lines = append(lines, line)
			if g.Source == store.SourceInterrupted {
				with += " (or at once with: plait resume " + row.ID + " --again)"
			}
		}
		return append(lines, "then go on with: "+with)
	}
	return []string{"try again with: " + with}
}

func (a *app) cancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "cancel THREAD",
		Short:             "End a task as cancelled, wherever it runs",
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(store.Pending, store.Running, store.Blocked),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, row, err := a.openThread(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if row, err = w.control.Cancel(cmd.Context(), row.ID); err != nil {
				return err
			}
			res := view.NewStanding(row)
			if row.Wanted == store.WantCancel && !row.Ended() {
				res.Status = "cancelling"
			}
			return a.print(cmd, res, func(out io.Writer) { fmt.Fprintf(out, "%s  %s\n", row.ID, res.Status) })
		},
	}
}
