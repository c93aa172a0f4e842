package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/bisect"
	"github.com/plait-run/plait/internal/sys/text"
)

// A bisectView is the step that broke something.
type bisectView struct {
	Task    string   `json:"task"`
	Command []string `json:"command"`
	bisect.Found
	Fork string `json:"fork"` // the command that forks from the last good step
}

func (a *app) bisectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "bisect TASK -- COMMAND…",
		Short: "Find the step that broke something",
		Long: `Find the step of a task after which a command fails. No model is asked: the command runs on the files
as steps left them, in temporary worktrees and in the sandbox of agents, without network. Without bubblewrap
there is no sandbox, and it says so. If a join broke it, the paths that it merged are searched.

Exit code 0 of the command is good, 125 skips, and any other up to 127 is bad; others and signals end the
search. It has to succeed on the files that the task began with, and to fail on those that it left.

The exit code is 0 if the step is found; 1 if it is one of several, the others of which were skipped, or if
there is none: the command fails on the first files, or succeeds on the last; and 2 if it cannot be run.`,
		Example: `  plait bisect last -- go test ./...
  plait bisect k7f2 -- sh -c 'make || exit 125; ./check'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usagef("bisect takes a task and, after --, a command: %s bisect TASK -- COMMAND…", a.program.Name)
			}
			return nil
		},
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			row, typed, err := w.view().Find(ctx, args[0])
			if err != nil {
				return err
			}
			if typed != "" {
				return usagef("%s is a step: name the task", text.Safe(args[0]))
			}
			host, err := a.agentHost()
			if err != nil {
				return err
			}
			if host.Sandbox.Bwrap == "" {
				fmt.Fprintln(a.err, "no sandbox: bubblewrap (bwrap) is not installed")
			}
			bench := &bisect.Bench{Host: host.Sandbox, Control: w.control, Workspace: w.workspace, Command: args[1:]}
			finder := &bisect.Finder{Reader: w.view(), Try: bench.Try, Tried: func(s bisect.State, t bisect.Trial) {
				fmt.Fprintf(a.err, "%s: %s\n", stateName(s), t.Verdict)
			}}
			found, err := finder.Find(ctx, row)
			if err != nil {
				return err
			}
			if len(found.Between) > 0 {
				a.code = exitFailed
			}
			v := bisectView{Task: row.Task, Command: args[1:], Found: found}
			v.Fork = a.forkOf(v)
			return a.print(cmd, v, func(out page) { writeBisected(out, v) })
		},
	}
}

// forkOf returns the command that tries again from the last good step, with what failed.
func (a *app) forkOf(v bisectView) string {
	asks := fmt.Sprintf("Without this failure, please: %s: exit code %d\n%s", text.Command(v.Command), v.Trial.Exit,
		v.Trial.Output)
	return text.Command([]string{a.program.Name, "fork", v.Good.Step, "-p", text.Safe(strings.TrimSpace(asks))})
}

// stateName says which files are meant.
func stateName(s bisect.State) string {
	if s.ByHand {
		return text.Safe(s.Step) + ", changed by hand"
	}
	return text.Safe(s.Step)
}

func writeBisected(out page, v bisectView) {
	suspects := append(v.Between, v.Bad)
	if len(suspects) > 1 {
		out.line("one of these broke it, the command skips all but the last:")
	}
	for _, s := range suspects {
		about := []string{out.bold(stateName(s))}
		if s.Agent != "" {
			about = append(about, text.Safe(s.Role), strings.TrimSpace(text.Safe(s.Agent+" "+s.Model)))
		}
		if s.Prompt != "" {
			about = append(about, text.FirstLine(s.Prompt, 100))
		}
		out.line("%s", strings.Join(about, "  "))
	}
	out.line("  good before: %s", stateName(v.Good))
	out.line("  exit code %d", v.Trial.Exit)
	for line := range strings.Lines(v.Trial.Output) {
		out.line("  %s", out.dim(text.Safe(strings.TrimRight(line, "\n"))))
	}
	out.line("\ntry again from before it:\n%s", v.Fork)
}
