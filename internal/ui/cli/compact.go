package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
)

func (a *app) threadCompactCmd() *cobra.Command {
	var f driveFlags
	cmd := &cobra.Command{
		Use:   "compact THREAD [--agent A]",
		Short: "Summarise a conversation with an agent",
		Long: `Let an agent summarise the conversation so far. The summary becomes a step; later prompts
contain the task, the summary and the output of pinned roles. Nothing is lost: plait thread
show --expand prints the summarised steps, plait resume --context full ignores the summary,
and a fork from before it undoes it.`,
		Example: `  plait thread compact k7f2
  plait thread compact k7f2 --agent codex`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, _, opts, err := a.goOn(ctx, args[0], &f)
			if err != nil {
				return err
			}
			if err := a.consent(w, control.Found{}, f.trust); err != nil {
				return err
			}
			var follow *follower
			if !a.json {
				follow = a.follow(w, row, a.err)
			}
			row, err = w.control.Compact(ctx, control.Compaction{Thread: row.ID, Agent: opts.Agent, Offline: opts.Offline})
			if follow != nil {
				follow.stop()
			}
			if err != nil {
				return err
			}
			s, err := w.control.Reader().State(ctx, row.Head)
			if err != nil {
				return err
			}
			text, err := w.control.Reader().Text(ctx, s.Content)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"thread": row.ID, "head": row.Head, "meta": s.Meta, "summary": text},
				func(out io.Writer) {
					fmt.Fprintln(out, safe(text))
				})
		},
	}
	cmd.Flags().StringVar(&f.agent, "agent", "", "the `agent` that writes the summary (default: the task's)")
	cmd.Flags().BoolVar(&f.trust, "trust", false, "run commands from project files even though they changed")
	cmd.Flags().StringVar(&f.offline, "offline", "",
		"run agents against a scripted model, without an account: the name of a `scenario`, or a file")
	cmd.Flags().Lookup("offline").NoOptDefVal = offlineAuto
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgents)
	cmd.RegisterFlagCompletionFunc("offline", completeScenarios)
	return cmd
}
