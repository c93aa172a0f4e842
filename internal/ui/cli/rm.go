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
			names, lost := make(map[string]string), make(map[string][]control.Worktree)
			proofs := make(map[string]int)
			var ids, lines []string
			for _, row := range rows {
				names[row.ID] = w.view().Names().Of(ctx, row)
				ids = append(ids, row.ID)
				if lost[row.ID], err = w.keptTrees(ctx, row); err != nil {
					return err
				}
				for _, t := range lost[row.ID] {
					lines = append(lines, worktreeLine(t))
				}
				if proofs[row.ID], err = w.proofs(ctx, row.ID); err != nil {
					return err
				}
				if n := proofs[row.ID]; n > 0 {
					lines = append(lines, names[row.ID]+": "+provenLine(n))
				}
			}
			if err := a.confirmRemoval(ctx, w, rows, lines, yes); err != nil {
				return err
			}
			return w.control.Remove(ctx, ids, func(row store.Thread) error {
				kept, err := w.control.Branches(ctx, row.Workspace, row.ID)
				if err != nil {
					return err
				}
				removed := map[string]any{"removed": row.ID, "steps": row.Steps, "branches": branchNames(kept),
					"worktrees": lost[row.ID], "proofs": proofs[row.ID]}
				return a.print(cmd, removed, func(out page) {
					out.line(a.says("removed %s; free its space with: plait gc"), names[row.ID])
					for _, t := range lost[row.ID] {
						out.line("removed %s", worktreeLine(t))
					}
					if n := proofs[row.ID]; n > 0 {
						out.line("%s", provenLine(n))
					}
					for _, b := range kept {
						out.line("kept branch %s, which is %s; remove it with: git branch -D %[1]s", text.Safe(b.Name),
							branchState(b))
					}
				})
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

// provenLine says what becomes of proofs of a task that is removed.
func provenLine(n int) string {
	return text.Count(n, "proof") + " of it can still be checked, but not made again"
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
