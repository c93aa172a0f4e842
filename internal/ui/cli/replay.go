package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) replayCmd() *cobra.Command {
	var f driveFlags
	var from, model string
	var programs bool
	cmd := &cobra.Command{
		Use:   "replay TASK",
		Short: "Run a recorded task again without its models, and compare the outcome",
		Long: `Run a task again. Its agents run for real, but nothing reaches a model: each request is answered
with what was recorded (plait run --record). What programs printed and people answered comes
from the record too. The agents work in a copy of the files that the task began with, so your
own files stay as they are. It needs bubblewrap, no account, and costs nothing.

The replay is a task of its own. At the end its outcome digest is compared with the recorded
one; the exit code is 6 if they differ. A request that differs from the recorded ones is
reported: it gets the next answer of its conversation, or is refused if there is none.

With --from STEP --model MODEL another model is asked from that step on, for real: a fork.`,
		Example: `  plait replay k7f2
  plait replay k7f2 --run-commands            # run programs such as tests again
  plait replay k7f2 --from 3 --model other    # what would another model have done?`,
		Args:              exactly(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (from == "") != (model == "") {
				return usagef("use --from and --model together: the step to start at, and the model to ask from there on")
			}
			if from != "" && programs {
				return usagef("--run-commands has no effect with --from: programs are run")
			}
			ctx := cmd.Context()
			w, row, _, _, err := a.openToContinue(ctx, args[0], &f)
			if err != nil {
				return err
			}
			if from != "" {
				next, err := w.control.WhatIf(ctx, row.ID, from, model)
				if err != nil {
					return err
				}
				if !a.json {
					fmt.Fprintln(a.err, text.Safe(next.Note)+", "+text.Safe(workingIn(next.Row)))
				}
				return a.drive(cmd, w, next.Row, control.Resume{}, f)
			}
			r, err := w.control.Replay(ctx, row.ID, programs)
			if err != nil {
				return err
			}
			return a.replay(cmd, w, r, f.quiet)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "with --model: the first `step` to run again, its number or hash")
	cmd.Flags().StringVar(&model, "model", "", "with --from: the `model` to ask from that step on")
	cmd.Flags().BoolVar(&programs, "run-commands", false, "run programs again instead of using what they printed")
	f.addTrust(cmd)
	f.addQuiet(cmd)
	return cmd
}

// replay drives a replay, and prints its result.
func (a *app) replay(cmd *cobra.Command, w *workplace, r *control.Replay, quiet bool) error {
	names := w.view().Names()
	ctx := context.WithoutCancel(cmd.Context())
	if !quiet && !a.json {
		fmt.Fprintf(a.err, "%s replays %s\n", names.Of(ctx, r.Row), names.Of(ctx, r.Of))
		if r.Note != "" {
			fmt.Fprintln(a.err, "  "+r.Note)
		}
	}
	stop := a.followUnless(quiet && !a.streams(), w, r.Row)
	done, err := r.Drive(cmd.Context())
	stop()
	if err != nil {
		return err
	}
	v := view.NewReplayed(done.Row, r.Of)
	v.Same, v.Digest, v.Then, v.Step, v.Why = done.Same(), done.Digest, done.Then, done.Step, done.Why
	for _, d := range done.Drifts {
		v.Drifts = append(v.Drifts, view.ReplayDrift{Role: d.Role, Step: d.Step, Call: d.Call, Where: d.Where,
			Then: d.Then, Now: d.Now})
	}
	v.Summary = done.String()
	if !v.Same {
		a.code = exitVerify
	}
	v.Exit = a.code
	return a.print(cmd, v, func(out page) {
		for i, d := range done.Drifts {
			if i > 0 && d.Like(done.Drifts[i-1]) {
				continue // the same drift occurs in all requests of a conversation
			}
			fmt.Fprintf(a.err, "drift: step %d (%s), %s\n", d.Step, text.Safe(d.Role), text.Safe(d.String()))
		}
		out.line("%s", text.Safe(names.In(ctx, v.Summary)))
	})
}
