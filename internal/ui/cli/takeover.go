package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (f *driveFlags) addWorkspace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.workspace, "workspace", "",
		"continue in this `directory`, which the task belongs to from then on (default: its own)")
	cmd.MarkFlagDirname("workspace")
}

// takeOver makes a thread able to continue here: its task belongs to a directory of this machine, and if it
// was imported, the person has said that it may run.
func (a *app) takeOver(ctx context.Context, row store.Thread, f *driveFlags) (store.Thread, error) {
	w, err := a.open(ctx, "")
	if err != nil || f.forks {
		return row, err
	}
	root, err := w.store.Thread(ctx, row.Root)
	if err != nil {
		return row, err
	}
	from, err := control.Imported(root)
	if err != nil {
		return row, err
	}
	name := w.view().Names().Of(ctx, root)
	dir := ""
	if f.workspace != "" {
		if dir, err = a.workspaceHere(w, f.workspace); err != nil {
			return row, err
		}
	} else if a.placed(root.Workspace) {
		dir = root.Workspace
	} else if info, err := os.Stat(root.Workspace); err != nil || !info.IsDir() {
		return row, view.Advise(
			usagef("task %s belongs to %s, which is not on this machine", name, text.Safe(root.Workspace)),
			"continue it in a copy of that directory: --workspace DIR; "+
				"files that agents changed elsewhere are not brought along")
	}
	if from != "" && !f.trust {
		return row, view.Advise(
			usagef("task %s was imported from %s, and has not been continued here", name, text.Safe(from)),
			"look at it with plait show %s and plait flow show %s; plait resume %s --trust runs what its flow says, with the "+
				"options and approvals that it came with", name, root.Bundle.Short(), name)
	}
	if from == "" && (dir == "" || dir == root.Workspace) {
		return row, nil
	}
	if root, err = w.control.Adopt(ctx, root.ID, dir); err != nil {
		return row, err
	}
	fmt.Fprintf(a.err, "task %s continues in %s\n", name, text.Safe(worktree.Of(root)))
	if worktree.Own(root) {
		fmt.Fprintln(a.err, a.says("those are its own files, since yours are others: plait task pull makes a branch of them"))
	}
	return w.store.Thread(ctx, row.ID)
}

// workspaceHere returns the workspace that a directory of this machine belongs to, ready for tasks.
func (a *app) workspaceHere(w *workplace, typed string) (string, error) {
	dir, err := filepath.Abs(typed)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", text.Safe(typed))
	}
	workspace := ""
	if err == nil {
		workspace, err = config.Workspace(dir)
	}
	if err == nil {
		_, err = config.Init(workspace, w.home)
	}
	if err != nil {
		return "", usagef("--workspace: %w", err)
	}
	return cmp.Or(workspace, dir), nil
}
