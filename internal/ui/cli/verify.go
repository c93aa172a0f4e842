package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/cli/heap"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) verifyCmd() *cobra.Command {
	var policy, repo string
	cmd := &cobra.Command{
		Use:   "verify [THREAD|HASH|FILE --policy FILE]",
		Short: "Verify that no step was altered and nothing is missing",
		Long: `Hash every object again, follow every reference, and check that steps, threads and flows agree
with each other, and with what people answered. Without an argument the whole record is checked, with
its database, its log and the task directories. There are three verdicts: integrity (nothing was
altered), completeness (nothing is missing) and history (the log has only been appended to). The exit
code is 6 if one of them fails.

The signature of an answer is checked too, and with approvals: {sign: ssh} in your configuration,
that its key is one that counts.

The log is checked against the tree that the record keeps of it. Someone who can write to the record
can rewrite both: only a state of the log that is kept elsewhere shows that, such as the checkpoint
that this machine signs by itself and keeps.

With --policy, check a bundle of plait attest instead. That needs neither a record nor a network. The exit
code is 6 if the bundle is not what was signed, or does not prove what the policy asks for.`,
		Example: `  plait verify
  plait verify k7f2
  plait verify change.plait --policy policy.txt --repo .`,
		Args:              atMost(1, "one thread, object or file"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			switch {
			case policy != "" && len(args) == 1:
				return a.verifyBundle(cmd, args[0], policy, repo)
			case policy != "" || repo != "":
				return misused(cmd, "--policy takes the file of a bundle, and --repo takes --policy")
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			cfg := verify.Config{Store: w.store, Home: w.home, Progress: a.progress("verified"),
				Accepts: a.accepting}
			if s := a.signing(w); s != nil {
				cfg.Counts = s.Counts
			}
			known, witnesses, err := a.sightings(ctx, w, nil)
			if err != nil {
				return err
			}
			cfg.Seen = seenOf(known, witnesses)
			heap.UseDefaults()
			report, err := w.verified(ctx, cfg, args)
			if err != nil {
				return err
			}
			if !report.OK() {
				a.code = exitVerify
			}
			return a.print(cmd, report, func(out page) { writeReport(out, report, known, witnesses) })
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "check a bundle against this `file`")
	cmd.Flags().StringVar(&repo, "repo", "", "the bundle must be of HEAD in this `directory`")
	cmd.MarkFlagDirname("repo")
	return cmd
}

// verified verifies the thread or object that was named, or else the whole record.
func (w *workplace) verified(ctx context.Context, cfg verify.Config, args []string) (verify.Report, error) {
	if len(args) == 0 {
		return verify.All(ctx, cfg)
	}
	row, threadErr := w.threadID(ctx, args[0])
	switch {
	case threadErr == nil:
		return verify.Thread(ctx, cfg, row.ID)
	case !errors.Is(threadErr, store.ErrNotFound):
		return verify.Report{}, threadErr
	}
	h, err := findObject(ctx, w.store, args[0])
	switch {
	case err == nil:
		return verify.Object(ctx, cfg, h)
	case errors.Is(err, control.ErrUsage) && len(args[0]) >= dag.MinPrefix:
		return verify.Report{}, threadErr // not a hash: an id was meant
	}
	return verify.Report{}, err
}

// writeReport prints what verify found. known and the checkpoints of witnesses are what the log was compared with.
func writeReport(out page, report verify.Report, known view.History, witnesses []testimony) {
	for _, p := range report.Problems {
		out.line("%s  %s", cmp.Or(p.Hash.String(), "-"), text.Safe(p.What))
	}
	out.line("integrity %s, completeness %s, %s", report.Integrity, report.Completeness,
		text.Count(report.Objects, "object"))
	if l := report.Log; l != nil {
		known.Size = l.Size
		says := known.Says(time.Now())
		if report.History != verify.OK {
			says = text.Count(int(l.Size), "event")
		}
		out.line("history %s: %s", l.Verdict, says)
		for _, w := range witnesses {
			out.line("%s has seen the first %d events, %s", w.Witness, w.Size, w.Signatures())
		}
		for _, x := range report.Accepted {
			what := fmt.Sprintf("gives up what %s had seen beyond the first %d events, up to %d", text.Safe(x.By), x.Kept, x.Size)
			if x.Copy != "" {
				what = fmt.Sprintf("makes this record a copy of the first %d events of %s", x.Size, text.Safe(x.Origin))
			}
			out.line("entry %d %s: %s, %s, %q", x.Pos, what, x.Key, time.UnixMilli(x.At).UTC().Format(time.DateTime), x.Reason)
			if x.Doubt != "" {
				out.line("  their word does not count here: %s", text.Safe(x.Doubt))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(report.Signed)) {
		out.line("%s signed by %s", text.Count(report.Signed[key], "answer"), key)
	}
	if n := report.Redacted; n > 0 {
		out.line("%d objects and answers were redacted: what they said cannot be checked", n)
	}
	if n := report.Unproven; n > 0 {
		out.line("%d of them were redacted before it was proven what is kept instead: it may be anything", n)
	}
	if n := report.Unchecked; n > 0 {
		out.line("%d steps of older versions do not record their path: how they were reached is unchecked", n)
	}
}
