package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func (a *app) taskCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "task",
		Short: "List, show, watch, cancel and export tasks, with their evidence, branches and worktrees"})
	cmd.AddCommand(a.taskListCmd(), a.taskShowCmd(), a.taskWatchCmd(), a.taskCancelCmd(), a.taskRedrawCmd(),
		a.taskExportCmd(), a.taskEvidenceCmd(), a.taskBranchesCmd(), a.taskWorktreesCmd(),
		a.taskPullCmd())
	return cmd
}

func (w *workplace) dirs() *taskdir.DirWriter {
	return &taskdir.DirWriter{Store: w.store, Reader: w.control.Reader(), Program: w.named}
}

// openTask opens the workplace and finds the task of the thread that was typed.
func (a *app) openTask(ctx context.Context, typed string) (*workplace, store.Thread, error) {
	w, row, err := a.openThread(ctx, typed)
	if err == nil && row.ID != row.Task {
		row, err = w.store.Thread(ctx, row.Task)
	}
	return w, row, err
}

// driven reports whether a process drives a task.
func (w *workplace) driven(ctx context.Context, id string) bool { return w.view().Driven(ctx, id) }

func (a *app) taskListCmd() *cobra.Command {
	var quiet bool
	var since, before string
	f := view.TaskFilter{}
	cmd := &cobra.Command{
		Use:   "list [TEXT]",
		Short: "List the tasks of this workspace, newest first",
		Long: `List the tasks of this workspace, newest first; with TEXT, those whose title contains it.
Below the list are the commands that answer what needs you.`,
		Example: `  plait ls                       # everything here
  plait ls --state needs-you     # what waits for you
  plait ls "failing test"        # by title
  plait ls --since 24h -q        # ids only, for scripts`,
		Args: atMost(1, "one text to search titles for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			err := cmp.Or(oneOf("state", strings.ReplaceAll(f.Word, " ", "-"), taskStandings...), notNegative("limit", f.Limit))
			if err != nil {
				return err
			}
			if f.Since, _, err = view.Span(since, "", time.Now()); err != nil {
				return badUsage{err}
			}
			if len(args) > 0 {
				f.Title = args[0]
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			if before != "" {
				row, err := w.threadID(ctx, before)
				if err != nil {
					return err
				}
				f.After = row.ID
			}
			lines, err := w.view().Tasks(ctx, f)
			if err != nil {
				return err
			}
			lines = taskdir.WithCommands(a.named, lines)
			narrowed := f.Word != "" || f.Flow != "" || f.Title != "" || since != "" || before != ""
			return a.print(cmd, map[string]any{"tasks": lines}, func(out io.Writer) {
				if quiet {
					names(out, shorts(lines))
					return
				}
				a.taskTable(out, lines, narrowed)
			})
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	cmd.Flags().BoolVar(&f.All, "all", false, "in every workspace")
	cmd.Flags().StringVar(&f.Word, "state", "", "only in this `state`: queued, running, needs-you, done, failed, cancelled")
	cmd.Flags().StringVar(&f.Word, "status", "", "the same as --state")
	cmd.Flags().StringVar(&f.Flow, "flow", "", "only of this `flow`")
	cmd.Flags().StringVar(&since, "since", "", "only started since: a date, a `time` (RFC 3339), or a duration ago (24h)")
	cmd.Flags().StringVar(&before, "before", "", "only older than this `task`")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 50, "at most `N` tasks, 0 for all")
	cmd.Flags().MarkHidden("status")
	for _, flag := range []string{"state", "status"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(view.StateWords(), cobra.ShellCompDirectiveNoFileComp))
	}
	cmd.RegisterFlagCompletionFunc("flow", a.completeFlows)
	cmd.RegisterFlagCompletionFunc("before", a.completeThreads())
	return cmd
}

// taskStandings are the words that task list --state accepts.
var taskStandings = view.StateWords(view.Created, view.Working, view.InputRequired, view.Canceled)

// shorts returns what users type for tasks.
func shorts(lines []view.TaskRow) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = cmp.Or(l.Short, l.ID)
	}
	return out
}

// taskTable prints a list of tasks. narrowed says that it was filtered.
func (a *app) taskTable(out io.Writer, lines []view.TaskRow, narrowed bool) {
	if len(lines) == 0 {
		fmt.Fprintln(out, a.nothingHere("tasks", narrowed))
		return
	}
	st := a.style(out)
	t := table{head: []string{"TASK", "STATE", "FLOW", "UPDATED", "TITLE", "REASON"}, elastic: []int{2, 4, 5}}
	for i, l := range lines {
		state := string(l.Display.State)
		if c := l.Controller; c != nil && l.Display.State == view.DisplayRunning {
			state += ", " + c.String()
		}
		t.add(shorts(lines)[i], state, oneLine(l.Flow, 40), ago(int64(l.UpdatedAt)), oneLine(l.Title, 60),
			oneLine(l.Display.Reason, 100))
	}
	t.paint = statePainter(st, 1)
	t.write(out, st, columns(out))
	const most = 5
	said := 0
	for i, l := range lines {
		if l.Display.State != view.DisplayNeedsYou {
			continue
		}
		for _, command := range l.Waits {
			if said++; said > most {
				fmt.Fprintln(out, a.says("  … see the rest with: plait gate list"))
				return
			}
			if said == 1 {
				fmt.Fprintln(out, "\nNeeds you:")
			}
			fmt.Fprintf(out, "  %s  %s\n", shorts(lines)[i], command)
		}
	}
}

// nothingHere says that a list is empty, and why.
func (a *app) nothingHere(what string, narrowed bool) string {
	if narrowed {
		return "no " + what + " match"
	}
	return a.says("no " + what + " here yet; start one with: plait run -p PROMPT")
}

// statePainter colours the column of states by its first word.
func statePainter(st style, column int) func(int, string) string {
	return func(col int, text string) string {
		if col != column {
			return text
		}
		return st.state(text)
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
		Short: "Rebuild the directory of a task from the record",
		Long: `Rebuild the directory of a task, below .plait/tasks, from the record. Notes that people wrote
and raw logs are left as they are.`,
		Example:           "  plait task redraw k7f2",
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
			dir := taskdir.At(row.Workspace, row.ID).Path()
			return a.print(cmd, map[string]any{"task": row.ID, "dir": dir}, func(out io.Writer) { fmt.Fprintln(out, safe(dir)) })
		},
	}
}
