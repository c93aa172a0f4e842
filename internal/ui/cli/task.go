package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func (a *app) taskCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "task",
		Short: "List, show, watch, cancel, dismiss, commit and export tasks, with their evidence and branches"})
	cmd.AddCommand(a.taskListCmd(), a.taskShowCmd(), a.taskWatchCmd(), named("cancel TASK", a.cancelCmd()), a.taskDismissCmd(),
		a.taskRedrawCmd(),
		a.taskExportCmd(), a.taskEvidenceCmd(), a.taskBranchesCmd(), a.taskWorktreesCmd(),
		a.taskPullCmd(), a.taskCommitCmd(), a.taskPRCmd())
	return cmd
}

func (w *workplace) dirs() *taskdir.DirWriter {
	return &taskdir.DirWriter{Store: w.store, Reader: w.control.Reader(), Program: w.named}
}

// openTask opens the workplace and finds the task of the thread that was typed.
func (a *app) openTask(ctx context.Context, typed string) (w *workplace, row store.Thread, err error) {
	if w, err = a.open(ctx, ""); err == nil {
		row, err = w.task(ctx, typed)
	}
	return w, row, err
}

// task finds the task of the thread that was typed.
func (w *workplace) task(ctx context.Context, typed string) (store.Thread, error) {
	row, err := w.threadID(ctx, typed)
	if err == nil && row.ID != row.Task {
		row, err = w.store.Thread(ctx, row.Task)
	}
	return row, err
}

// scope returns the workspace of the task that was typed, and the task; or else the current workspace.
func (w *workplace) scope(ctx context.Context, args []string) (workspace string, task store.Thread, err error) {
	if len(args) == 0 {
		return w.workspace, task, nil
	}
	task, err = w.task(ctx, args[0])
	return task.Workspace, task, err
}

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
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			f.Title = strings.Join(args, "")
			err = cmp.Or(oneOf("state", strings.ReplaceAll(f.Word, " ", "-"), taskStandings...),
				notNegative("limit", f.Limit))
			if err != nil {
				return err
			}
			if f.Since, _, err = view.Span(since, "", time.Now()); err != nil {
				return badUsage{err}
			}
			return nil
		},
		RunE: read(a, func(ctx context.Context, w *workplace, _ []string) (v taskList, err error) {
			if before != "" {
				row, err := w.threadID(ctx, before)
				if err != nil {
					return v, err
				}
				f.After = row.ID
			}
			v.Tasks, err = w.view().Tasks(ctx, f)
			v.Tasks = taskdir.WithCommands(a.named, v.Tasks)
			if err == nil {
				v.unable, err = a.unable(ctx, w)
			}
			return v, err
		}, func(out page, v taskList) {
			narrowed := f.Word != "" || f.Flow != "" || f.Title != "" || since != "" || before != ""
			a.taskTable(out, v.Tasks, narrowed, quiet)
			if quiet {
				return
			}
			for _, w := range v.unable {
				out.line("worker %s: %s", w.Name, text.FirstLine(w.Unable, 200))
			}
		}),
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	cmd.Flags().BoolVar(&f.All, "all", false, "in every workspace")
	cmd.Flags().StringVar(&f.Word, "state", "",
		"only in this `state`: queued, running, needs-you, done, failed, cancelled")
	cmd.Flags().StringVar(&f.Word, "status", "", "the same as --state")
	cmd.Flags().StringVar(&f.Flow, "flow", "", "only of this `flow`")
	cmd.Flags().StringVar(&since, "since", "", "only started since: a date, a `time` (RFC 3339), or a duration ago (24h)")
	cmd.Flags().StringVar(&before, "before", "", "only older than this `task`")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 50, "at most `N` tasks, 0 for all")
	cmd.Flags().MarkHidden("status")
	completeFlag(cmd, "state", view.StateWords()...)
	completeFlag(cmd, "status", view.StateWords()...)
	cmd.RegisterFlagCompletionFunc("flow", a.completeFlows)
	cmd.RegisterFlagCompletionFunc("before", a.completeThreads())
	return cmd
}

// unable returns the workers of a team that cannot work now.
func (a *app) unable(ctx context.Context, w *workplace) ([]view.Worker, error) {
	if a.program.Team == nil {
		return nil, nil
	}
	workers, err := w.view().Workers(ctx)
	return slices.DeleteFunc(workers, func(w view.Worker) bool { return w.Unable == "" }), err
}

// taskStandings are the words that task list --state accepts.
var taskStandings = view.StateWords(view.Created, view.Working, view.InputRequired, view.Canceled)

// A taskList is what task list prints.
type taskList struct {
	Tasks  []view.TaskRow `json:"tasks"`
	unable []view.Worker  // those of a team that cannot work
}

// taskTable prints a list of tasks. narrowed says that it was filtered.
func (a *app) taskTable(out page, lines []view.TaskRow, narrowed, quiet bool) {
	if len(lines) == 0 && !quiet {
		out.line("%s", a.nothingHere("tasks", narrowed))
		return
	}
	t := table{head: []string{"TASK", "STATE", "FLOW", "UPDATED", "TITLE", "REASON"}, elastic: []int{2, 4, 5}, state: 1}
	for _, l := range lines {
		state := string(l.Display.State)
		if c := l.Controller; c != nil && l.Display.State == view.DisplayRunning {
			state += ", " + c.String()
		}
		t.add(cmp.Or(l.Short, l.ID), state, text.FirstLine(l.Flow, 40), text.Ago(int64(l.UpdatedAt), time.Now()),
			text.FirstLine(l.Title, 60), text.FirstLine(l.Display.Reason, 100))
	}
	out.list(t, quiet)
	if !quiet {
		a.writeNeeds(out, lines)
	}
}

// writeNeeds prints the commands that answer what tasks ask.
func (a *app) writeNeeds(out page, lines []view.TaskRow) {
	const most = 5
	said := 0
	for _, l := range lines {
		if l.Display.State != view.DisplayNeedsYou {
			continue
		}
		for _, command := range l.Waits {
			if said++; said > most {
				out.line("%s", a.says("  … see the rest with: plait gate list"))
				return
			}
			if said == 1 {
				out.line("\nNeeds you:")
			}
			out.line("  %s  %s", cmp.Or(l.Short, l.ID), command)
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

func (a *app) taskRedrawCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "redraw TASK",
		Short: "Rebuild the directory of a task from the record",
		Long: `Rebuild the directory of a task, below .plait/tasks, from the record. Notes that people wrote
and raw logs are left as they are.`,
		Example:           "  plait task redraw k7f2",
		Args:              exactly(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: readTask(a, func(ctx context.Context, w *workplace, row store.Thread) (map[string]string, error) {
			return map[string]string{"task": row.ID, "dir": taskdir.At(row.Workspace, row.ID).Path()},
				w.control.Redraw(ctx, row.ID)
		}, func(out page, v map[string]string) { out.line("%s", text.Safe(v["dir"])) }),
	}
}
