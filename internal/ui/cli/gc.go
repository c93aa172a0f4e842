package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/cli/heap"
)

func (a *app) gcCmd() *cobra.Command {
	var dry bool
	var why string
	var grace string
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete objects that nothing refers to",
		Long: `Delete objects that no task, question or registered flow refers to, if they are older than
the grace period. It is safe while tasks run. It stops without deleting anything if an object
that is referred to is missing.

With retention: {days: N} in your own configuration, it first removes tasks that ended longer
ago, in all workspaces, but for those with work that could not be merged.`,
		Example: `  plait gc --dry-run
  plait gc --grace 24h
  plait gc --why 9008c3d1`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cfg := gc.Config{Grace: -1}
			if grace != "" {
				d, err := time.ParseDuration(grace)
				if grace == "0" {
					d, err = 0, nil
				}
				if err != nil || d < 0 {
					return usagef("invalid value %q for --grace: want a duration such as 30m, or 0", text.Safe(grace))
				}
				cfg.Grace = d
			}
			s, err := a.openStore(ctx)
			if err != nil {
				return err
			}
			cfg.Store = s
			if why != "" {
				return a.showWhy(cmd, cfg, why)
			}
			heap.UseDefaults()
			swept, err := a.sweep(ctx, s, dry)
			if err != nil {
				return err
			}
			do := gc.Run
			if dry {
				do = gc.Plan
			} else {
				cfg.Progress = a.progress("marked")
			}
			swept.Result, err = do(ctx, cfg)
			res := swept.Result
			var missing *gc.MissingError
			if errors.As(err, &missing) {
				return fmt.Errorf("nothing was deleted: %w: %w", store.ErrCorrupt, err)
			}
			if err != nil {
				return err
			}
			return a.print(cmd, swept, func(out page) {
				verb, remove := "deleted", "removed"
				if dry {
					verb, remove = "would delete", "would remove"
				}
				if n := len(swept.Removed); n > 0 || swept.Left > 0 {
					out.line("%s %s that ended more than %s ago; kept %d with work that could not be merged", remove,
						text.Count(n, "task"), text.Count(swept.days, "day"), swept.Left)
				}
				out.line("%s, %d reachable; %s %d (%s); kept %d recent or pinned",
					text.Count(res.Scanned, "object"), res.Reachable, verb, res.Deleted, text.Size(res.Bytes), res.Kept)
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be deleted, and delete nothing")
	cmd.Flags().StringVar(&why, "why", "", "explain why the object with this `hash` is kept")
	cmd.Flags().StringVar(&grace, "grace", "", "keep objects stored within this `duration` (default 1h)")
	return cmd
}

// A swept record is one that was collected.
type swept struct {
	gc.Result
	Removed []string `json:"removed"` // tasks whose time has passed
	Left    int      `json:"left"`    // those that have work that could not be merged
	days    int
}

// sweep removes the tasks that the configuration does not keep any longer, and what removals left undone.
func (a *app) sweep(ctx context.Context, s store.Store, dry bool) (out swept, err error) {
	out.Removed = []string{}
	home, err := a.findHome()
	if err != nil {
		return out, err
	}
	settings, err := config.Load(config.UserFile(), "", a.getenv)
	if err != nil {
		return out, err
	}
	c := control.New(control.Config{Store: s, Home: home, Scratch: config.ScratchDir(), Settings: settings, Log: a.log})
	if out.days = settings.Retention.V; out.days > 0 {
		gone, left, err := c.Expire(ctx, time.Now().AddDate(0, 0, -out.days).UnixMilli(), dry)
		if out.Removed, out.Left = append(out.Removed, gone...), left; err != nil {
			return out, err
		}
	}
	if dry {
		return out, nil
	}
	return out, c.Tidy(ctx)
}

func (a *app) showWhy(cmd *cobra.Command, cfg gc.Config, typed string) error {
	h, err := findObject(cmd.Context(), cfg.Store, typed)
	if err != nil {
		return err
	}
	why, err := gc.Why(cmd.Context(), cfg, h)
	return show(a, cmd, why, err, func(out page, why gc.Reason) {
		for i, l := range why.Links {
			if i == 0 {
				out.line("%s\n  %s", text.Safe(l.What), l.Hash)
				continue
			}
			out.line("  → %s  %s", l.Hash, text.Safe(l.What))
		}
		if len(why.Links) == 0 {
			out.line("nothing refers to it")
		}
		if why.Grace != "" {
			out.line("%s", why.Grace)
		}
	})
}

// progress shows the progress of long work on a terminal.
func (a *app) progress(what string) func(done, total int) {
	if a.json || !isTerminal(a.err) {
		return nil
	}
	last := time.Now()
	return func(done, total int) {
		switch {
		case done == total:
			fmt.Fprint(a.err, "\r\x1b[K")
		case time.Since(last) > 100*time.Millisecond:
			last = time.Now()
			fmt.Fprintf(a.err, "\r\x1b[K%d of %d %s", done, total, what)
		}
	}
}
