package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) threadRmCmd() *cobra.Command {
	var yes bool
	var status, older string
	cmd := &cobra.Command{
		Use:   "rm TASK…",
		Short: "Remove tasks: their record and their files",
		Long: `Remove tasks with all their steps, events, attempts, directories and worktrees, and the Git
branches of merged work. Worktrees that have what could not be merged are named. Forks of the
tasks stay, as do branches of other work, which are named. plait gc then frees the space.
Without a terminal to confirm on, --yes is required.`,
		Example: `  plait rm k7f2
  plait rm --status cancelled --yes
  plait rm --older-than 30d`,
		Args: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (status == "" && older == "") {
				return misused(cmd, "%s takes tasks, or --status and --older-than", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeMany(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := oneOf("status", strings.ReplaceAll(status, " ", "-"), taskStandings...); err != nil {
				return err
			}
			before, _, err := view.Span(older, "", time.Now())
			if err != nil {
				return badUsage{err}
			}
			w, rows, err := a.toRemove(ctx, args, status, before)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return a.print(cmd, map[string]any{"removed": []string{}, "steps": 0},
					func(out page) { out.line("%s", a.nothingHere("tasks", true)) })
			}
			going := make(map[string]removal)
			var ids, lines []string
			for _, row := range rows {
				r, err := w.removal(ctx, row)
				if err != nil {
					return err
				}
				going[row.ID], ids, lines = r, append(ids, row.ID), append(lines, r.warnings()...)
			}
			if err := a.confirmRemoval(ctx, w, rows, lines, yes); err != nil {
				return err
			}
			return w.control.Remove(ctx, ids, func(row store.Thread) error {
				kept, err := w.control.Branches(ctx, row.Workspace, row.ID)
				if err != nil {
					return err
				}
				return a.printRemoved(cmd, row, going[row.ID], kept)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&status, "status", "", "remove all tasks of this workspace with this `status`")
	cmd.Flags().StringVar(&older, "older-than", "",
		"remove all tasks of this workspace that ended before this `time`, or this long ago")
	completeFlag(cmd, "status", taskStandings...)
	return cmd
}

// A removal is what goes with a task that is removed, or is left of it.
type removal struct {
	name   string
	lost   []control.Worktree // that have what could not be merged
	proofs int                // that name the task
}

func (w *workplace) removal(ctx context.Context, row store.Thread) (r removal, err error) {
	r.name = w.view().Names().Of(ctx, row)
	if r.lost, err = w.keptTrees(ctx, row); err == nil {
		r.proofs, err = w.proofs(ctx, row.ID)
	}
	return r, err
}

// warnings returns what to tell a person before.
func (r removal) warnings() (lines []string) {
	for _, t := range r.lost {
		lines = append(lines, worktreeLine(t))
	}
	if r.proofs > 0 {
		lines = append(lines, r.name+": "+r.proven())
	}
	return lines
}

// proven says what becomes of the proofs.
func (r removal) proven() string {
	return text.Count(r.proofs, "proof") + " of it can still be checked, but not made again"
}

// printRemoved says that a task was removed, and which branches stay.
func (a *app) printRemoved(cmd *cobra.Command, row store.Thread, r removal, kept []control.Branch) error {
	data := map[string]any{"removed": row.ID, "steps": row.Steps, "branches": branchNames(kept), "worktrees": r.lost,
		"proofs": r.proofs}
	return a.print(cmd, data, func(out page) {
		out.line(a.says("removed %s; free its space with: plait gc"), r.name)
		for _, t := range r.lost {
			out.line("removed %s", worktreeLine(t))
		}
		if r.proofs > 0 {
			out.line("%s", r.proven())
		}
		for _, b := range kept {
			out.line("kept branch %s, which is %s; remove it with: git branch -D %[1]s", text.Safe(b.Name), branchState(b))
		}
	})
}

// toRemove finds the tasks that were named. If none were, it finds those with a status ("" is any) that ended before a
// time in Unix ms (0 is no limit).
func (a *app) toRemove(
	ctx context.Context, args []string, status string, before int64,
) (*workplace, []store.Thread, error) {
	w, rows, err := a.openThreads(ctx, args)
	if err != nil || len(args) > 0 {
		return w, rows, err
	}
	lines, err := w.view().Tasks(ctx, view.TaskFilter{Word: status})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range lines {
		row, err := w.store.Thread(ctx, l.ID)
		if err != nil {
			return nil, nil, err
		}
		if before == 0 || row.Ended() && row.EndedAt < before {
			rows = append(rows, row)
		}
	}
	return w, rows, nil
}

// keptTrees returns the worktrees of a task that have what could not be merged.
func (w *workplace) keptTrees(ctx context.Context, row store.Thread) ([]control.Worktree, error) {
	list, err := w.control.Worktrees(ctx, row.Workspace, row.ID)
	return slices.DeleteFunc(list, func(t control.Worktree) bool { return len(t.Left) == 0 }), err
}

// confirmRemoval makes sure that a person wants the removal, also of the worktrees in lines.
func (a *app) confirmRemoval(ctx context.Context, w *workplace, rows []store.Thread, lines []string, yes bool) error {
	if yes {
		return nil
	}
	what := fmt.Sprintf("%d tasks and their directories", len(rows))
	if len(rows) == 1 {
		what = fmt.Sprintf("%s (%s, %s) and its directory", w.view().Names().Of(ctx, rows[0]), text.Safe(rows[0].Flow),
			text.Count(rows[0].Steps, "step"))
	}
	if len(lines) > 0 {
		what += ", and what could not be merged:\n  " + strings.Join(lines, "\n  ")
	}
	if !isTerminal(a.in) || !isTerminal(os.Stderr) {
		return view.Advise(usagef("nothing was removed: confirm with --yes"), "this removes %s", what)
	}
	if !a.ask("Remove " + what + "?") {
		return usagef("nothing was removed")
	}
	return nil
}
