package cli

import (
	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) threadCompactCmd() *cobra.Command {
	var f driveFlags
	cmd := &cobra.Command{
		Use:   "compact THREAD [--agent A]",
		Short: "Summarize a conversation with an agent",
		Long: `Let an agent summarize the conversation so far. The summary becomes a step; later prompts
contain the task, the summary and the output of pinned roles. Nothing is lost: plait thread
show --expand prints the summarized steps, plait resume --context full ignores the summary,
and a fork from before it undoes it.`,
		Example: `  plait thread compact k7f2
  plait thread compact k7f2 --agent codex`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, _, opts, err := a.openToContinue(ctx, args[0], &f)
			if err != nil {
				return err
			}
			stop := a.followUnless(a.json, w, row)
			row, err = w.control.Compact(ctx, control.Compaction{Thread: row.ID, Agent: opts.Agent, Offline: opts.Offline})
			stop()
			if err != nil {
				return err
			}
			s, err := w.control.Reader().State(ctx, row.Head)
			if err != nil {
				return err
			}
			said, err := w.control.Reader().Text(ctx, s.Content)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"thread": row.ID, "head": row.Head, "meta": s.Meta, "summary": said},
				func(out page) { out.line("%s", text.Safe(said)) })
		},
	}
	f.addAgent(cmd, a, "the `agent` that writes the summary (default: the task's)")
	f.addTrust(cmd)
	addOffline(cmd, &f.offline, "")
	return cmd
}
