package cli

import (
	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) taskBranchesCmd() *cobra.Command {
	var prune, force bool
	cmd := &cobra.Command{
		Use:   "branches [TASK]",
		Short: "List or remove the Git branches with agents' changes",
		Long: `List the Git branches below plait/ in this workspace, or of one task. Each has the changes of
one agent. Plait removes a branch once it has merged it, so those listed were not merged by
Plait.

--prune removes the branches that are merged: by Plait, or because another branch contains the
commit. With --force it removes the others too. A branch that is checked out, or whose task has
not ended, is never removed.`,
		Example: `  plait task branches
  plait task branches --prune`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if force && !prune {
				return usagef("--force needs --prune")
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			workspace, task, err := w.scope(ctx, args)
			if err != nil {
				return err
			}
			if !prune {
				list, err := w.control.Branches(ctx, workspace, task.ID)
				return show(a, cmd, branchList{listed(list)}, err, branchTable)
			}
			gone, kept, err := w.control.PruneBranches(ctx, workspace, task.ID, force)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"removed": branchNames(gone), "kept": listed(kept)}, func(out page) {
				for _, b := range gone {
					out.line("removed %s (was %s)", text.Safe(b.Name), shortCommit(b))
				}
				for _, b := range kept {
					out.line("kept    %s: %s", text.Safe(b.Name), whyKept(b, force))
				}
				if len(gone)+len(kept) == 0 {
					out.line("no branches")
				}
			})
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "remove merged branches")
	cmd.Flags().BoolVar(&force, "force", false, "with --prune: also remove branches that are not merged")
	return cmd
}

// A branchList is what task branches prints.
type branchList struct {
	Branches []control.Branch `json:"branches"`
}

func branchTable(out page, v branchList) {
	if len(v.Branches) == 0 {
		out.line("no branches")
		return
	}
	t := table{head: []string{"BRANCH", "COMMIT", "STATE"}}
	for _, b := range v.Branches {
		t.add(text.Safe(b.Name), shortCommit(b), branchState(b))
	}
	out.table(t)
}

func branchState(b control.Branch) string {
	state := "not merged"
	if b.Merged {
		state = "merged"
	}
	if b.CheckedOut {
		state += ", checked out"
	}
	return state
}

// shortCommit returns enough of a commit's name for git.
func shortCommit(b control.Branch) string { return b.Commit[:min(len(b.Commit), 12)] }

// whyKept says why a branch was not removed.
func whyKept(b control.Branch, force bool) string {
	switch {
	case b.CheckedOut:
		return "it is checked out"
	case b.Merged || force:
		return "its task is not finished, or it has moved"
	}
	return "it is not merged; look at it with git log " + text.Safe(b.Name) + ", remove it with --force"
}

// branchNames returns the names of branches, for JSON.
func branchNames(list []control.Branch) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = b.Name
	}
	return out
}

// listed returns a list that JSON never shows as null.
func listed(list []control.Branch) []control.Branch { return append([]control.Branch{}, list...) }
