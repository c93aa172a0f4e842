package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// An accepted is what proof accept prints.
type accepted struct {
	Accepted []history.Acceptance `json:"accepted"`
}

func (a *app) proofAcceptCmd() *cobra.Command {
	var reason, key string
	var isCopy bool
	cmd := &cobra.Command{
		Use:   "accept [FILE...]",
		Short: "Accept that the log is not as it was seen, or that the record is a copy",
		Long: `Say with your SSH key why the log does not continue what was seen of it: a backup was restored, or a
server took over that lacked the last commits. The log keeps who said so, why, and which head was given
up. From then on plait verify passes and tells it, and workers take work again.

What counts is what this machine and the witnesses of your configuration have seen, and the checkpoints
in the FILEs: one that was kept elsewhere, or that a worker names that is out of service.

With --copy the log gets another origin instead: a copy of a record that is worked on from now on must
not look like the original with another history.`,
		Example: `  plait proof accept --reason "restored the backup of 3 May: the disk was lost"
  plait proof accept --copy --reason "staging"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if reason == "" || len(reason) > event.MaxText {
				return usagef("say why with --reason TEXT, in %d bytes at most", event.MaxText)
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			known, witnesses, err := a.sightings(ctx, w, args)
			if err != nil {
				return err
			}
			seen, head := seenOf(known, witnesses), history.Checkpoint{Origin: known.Log, Size: known.Size, Root: known.Root}
			report, err := verify.Entries(ctx, verify.Config{Store: w.store, Seen: seen, Accepts: a.accepting})
			if err != nil {
				return err
			}
			// A copy may lack what its original has filed since.
			if len(report.Problems) > len(report.Diverged) || isCopy && slices.ContainsFunc(report.Diverged,
				func(s verify.Seen) bool { return s.Size <= head.Size }) {
				return fmt.Errorf("nothing was accepted: %s: %w", report.Problems[0].What, store.ErrCorrupt)
			}
			sign, origin := diverged(head, seen, report.Diverged), store.NewOrigin(w.store.Now())
			if isCopy {
				sign = []history.Acceptance{{Copy: history.Origin(origin), Kept: head.Size, Origin: head.Origin, Root: head.Root,
					Size: head.Size}}
			}
			if len(sign) == 0 {
				return usagef("there is nothing to accept: the log continues what was seen of it")
			}
			if err := a.accept(ctx, w, sign, reason, key); err != nil {
				return err
			}
			if isCopy {
				if err := a.setOrigin(ctx, w, origin); err != nil {
					return err
				}
			}
			return a.print(cmd, accepted{sign}, func(out page) {
				for _, x := range sign {
					if x.Copy != "" {
						out.line("the log is %s from now on, a copy of the first %d events of %s", x.Copy, x.Size, x.Origin)
						continue
					}
					out.line("accepted: what %s has seen beyond the first %d events, up to %d", text.Safe(x.By), x.Kept, x.Size)
				}
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, a `text` that the log keeps")
	cmd.Flags().BoolVar(&isCopy, "copy", false, "the record is a copy, and a log of its own from now on")
	cmd.Flags().StringVar(&key, "key", "", "your SSH key: its `file`, or the public one if an agent has it")
	return cmd
}

// sightings returns what is known of the log here, and what the witnesses have seen of it, with the checkpoints in files.
func (a *app) sightings(ctx context.Context, w *workplace, files []string) (view.History, []testimony, error) {
	known, err := w.view().History(ctx, a.keptOf(w.store, w.home))
	if err != nil {
		return known, nil, err
	}
	witnesses, err := a.witnessed(ctx, w)
	if err != nil {
		return known, nil, err
	}
	for _, file := range files {
		c, err := w.namedCheckpoint(ctx, file)
		if err != nil {
			return known, nil, err
		}
		witnesses = append(witnesses, testimony{text.Safe(file), c})
	}
	return known, witnesses, nil
}

// diverged returns what is to be accepted of the heads that were seen and that the log does not continue: the longest
// of them, and what that does not cover. What of the log is as it was seen stays so.
func diverged(head history.Checkpoint, seen, from []verify.Seen) (all []history.Acceptance) {
	from = slices.SortedFunc(slices.Values(from), func(a, b verify.Seen) int { return cmp.Compare(b.Size, a.Size) })
	for _, s := range from {
		if slices.ContainsFunc(all, func(x history.Acceptance) bool { return x.Covers(s.Size, s.Root) }) {
			continue
		}
		kept := head.Size
		if kept >= s.Size { // it has been continued, from nobody knows where
			kept = 0
			for _, fits := range seen {
				if fits.Size < s.Size && !slices.Contains(from, fits) {
					kept = max(kept, fits.Size)
				}
			}
		}
		all = append(all, history.Acceptance{By: s.By, Kept: kept, Origin: head.Origin, Root: s.Root, Size: s.Size})
	}
	return all
}

// accept has the person sign acceptances for a reason, and files them.
func (a *app) accept(ctx context.Context, w *workplace, all []history.Acceptance, reason, key string) error {
	place, err := a.keyPlace(ctx, key)
	if err != nil {
		return err
	}
	person, err := place.Open(ctx)
	if err != nil {
		return badUsage{err}
	}
	defer person.Close()
	var b store.Batch
	if err := a.accepting(person.Signer.PublicKey(), w.store.Now()); err != nil {
		return badUsage{fmt.Errorf("nothing was accepted, since your word would not count: %w", err)}
	}
	for i := range all {
		all[i].At, all[i].Reason = w.store.Now().UnixMilli(), reason
		ev, err := all[i].Sign(person.Signer, gate.Person())
		if err != nil {
			return err
		}
		b.Events = append(b.Events, ev)
	}
	if err := w.store.Commit(ctx, b); err != nil {
		return fmt.Errorf("accept history: %w", err)
	}
	return nil
}

// setOrigin gives the log of a copy its own origin. What this machine has seen of the original is not of it.
func (a *app) setOrigin(ctx context.Context, w *workplace, origin string) error {
	if err := w.store.SetOrigin(ctx, origin); err != nil {
		return err
	}
	if err := os.Remove(a.keptOf(w.store, w.home).File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget checkpoint: %w", err)
	}
	return nil
}
