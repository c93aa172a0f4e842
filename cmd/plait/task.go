package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) taskCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "task",
		Short: "List, show, watch, cancel, redraw and export tasks, their evidence and branches"})
	cmd.AddCommand(a.taskListCmd(), a.taskShowCmd(), a.taskWatchCmd(), a.taskCancelCmd(), a.taskRedrawCmd(),
		a.taskExportCmd(), a.taskEvidenceCmd(), a.taskBranchesCmd())
	return cmd
}

func (w *workplace) dirs() *task.DirWriter {
	return &task.DirWriter{Store: w.store, Reader: w.control.Reader()}
}

// openTask opens the workplace and finds the task that a thread, as it was typed,
// belongs to.
func (a *app) openTask(ctx context.Context, typed string) (*workplace, store.Thread, error) {
	w, row, err := a.openThread(ctx, typed)
	if err == nil && row.ID != row.Task {
		row, err = w.store.Thread(ctx, row.Task)
	}
	return w, row, err
}

// driven reports whether a process drives a task.
func (w *workplace) driven(ctx context.Context, id string) bool { return w.view().Driven(ctx, id) }

var taskStates = []string{view.Created, view.Working, view.InputRequired, view.Completed, view.Failed, view.Canceled}

func (a *app) taskListCmd() *cobra.Command {
	var all bool
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks of this workspace, newest first",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if state != "" && !slices.Contains(taskStates, state) {
				return usagef("--state %s: there are %s", safe(state), strings.Join(taskStates, ", "))
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			lines, err := w.view().Tasks(ctx, view.TaskFilter{All: all, State: state, Limit: limit})
			if err != nil {
				return err
			}
			lines = task.WithCommands(lines)
			return a.print(cmd, map[string]any{"tasks": lines}, func(out io.Writer) { taskTable(out, lines) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every workspace")
	cmd.Flags().StringVar(&state, "state", "", "only in this state")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "at most so many, 0 for all")
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(taskStates, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func taskTable(out io.Writer, lines []view.TaskRow) {
	if len(lines) == 0 {
		fmt.Fprintln(out, "no such tasks here; begin one with: plait run FLOW -p PROMPT")
		return
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "TASK\tSTATE\tFLOW\tAGENTS\tGATES\tUPDATED\tTITLE")
	for _, l := range lines {
		state := string(l.Display.State)
		if c := l.Controller; c != nil && l.Display.State == view.DisplayRunning {
			state += ", " + c.String()
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Short, state, oneLine(l.Flow, 40), l.Agents, l.Gates,
			ago(int64(l.UpdatedAt)), oneLine(l.Title, 60))
	}
	tw.Flush()
	most, said := 5, false
	for _, l := range lines {
		for _, command := range l.Waits {
			if !said {
				fmt.Fprintln(out, "\nwaiting for you:")
				said = true
			}
			most--
			if most < 0 {
				fmt.Fprintln(out, "  … plait gate list shows the rest")
				return
			}
			fmt.Fprintf(out, "  %s  %s\n", command, oneLine(l.Title, 40))
		}
	}
}

func (a *app) taskCancelCmd() *cobra.Command {
	cmd := a.cancelCmd()
	cmd.Use = "cancel TASK"
	return cmd
}

func (a *app) taskRedrawCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "redraw TASK",
		Short: "Draw the directory of a task anew from the record",
		Long: `Draw the directory of a task anew from the record. Notes of people and raw logs stay
as they are.`,
		Args:              exactly(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, row, err := a.openTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := w.control.Redraw(cmd.Context(), row.ID); err != nil {
				return err
			}
			dir := task.At(row.Workspace, row.ID).Path()
			return a.print(cmd, map[string]any{"task": row.ID, "dir": dir}, func(out io.Writer) { fmt.Fprintln(out, safe(dir)) })
		},
	}
}
