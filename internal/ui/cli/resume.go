package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

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
  plait resume k7f2 --about sum.go:12 -p "Say why"
  plait resume k7f2 --limit maxTokens=200000`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			err := cmp.Or(oneOf("context", contextForm, control.ContextFull, control.ContextSummary),
				onFlag(f.on, f.needs))
			if err != nil {
				return err
			}
			w, row, prompt, opts, err := a.openToContinue(ctx, args[0], &f)
			if err != nil {
				return err
			}
			opts.Context, opts.On, opts.Needs = contextForm, f.on, f.needs
			r := control.Resume{Prompt: prompt, About: f.comment, Again: again, Options: opts,
				Note: func(note string) { fmt.Fprintln(a.err, note) }}
			if f.on != "" {
				if r.Upload, err = a.handOver(ctx, w, row); err != nil {
					return err
				}
			}
			return a.drive(cmd, w, row, r, f)
		},
	}
	f.add(cmd, a)
	f.addAbout(cmd)
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
	v.Recorded = true
	v.Summary = r.Held.Error() + "; your text is passed to the agent at work if possible, else before the next step"
	return a.print(cmd, v, func(out page) { out.line("recorded: %s", out.named(v.Summary)) })
}

// openToContinue reads the flags of a verb that continues a thread, finds the thread, and opens the workplace that it
// belongs to. Unless the verb only forks, it makes sure that the person agreed to its commands.
func (a *app) openToContinue(
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
	if w, err = a.open(ctx, row.Workspace); err == nil && !f.forks {
		err = a.consent(w, control.Found{}, f.trust)
	}
	if err == nil && f.about != "" {
		prompt, f.comment, err = w.control.About(ctx, row, f.about, "", prompt)
	}
	return
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
			w, rows, err := a.openThreads(cmd.Context(), args) // all are found before the first is cancelled
			if err != nil {
				return err
			}
			var failed error
			for _, row := range rows {
				row, err := w.control.Cancel(cmd.Context(), row.ID)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				res := view.NewStanding(row)
				if row.Intent == store.IntentCancel && !row.Ended() {
					res.Status = "cancelling"
				}
				err = a.print(cmd, res, func(out page) { out.line("%s  %s", out.names.Of(out.ctx, row), res.Status) })
				if err != nil {
					return err
				}
			}
			return failed
		},
	}
}
