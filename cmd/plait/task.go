package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
)

func (a *app) taskCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "task", Short: "List, show, watch, cancel, redraw and export tasks, and their evidence"})
	cmd.AddCommand(a.taskListCmd(), a.taskShowCmd(), a.taskWatchCmd(), a.taskCancelCmd(), a.taskRedrawCmd(), a.taskExportCmd(), a.taskEvidenceCmd())
	return cmd
}

func (w *workplace) board() *task.Board {
	return &task.Board{Store: w.store, Reader: w.control.Reader()}
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

// driven tells whether a process drives a task.
func (w *workplace) driven(ctx context.Context, id string) bool {
	lease, err := w.store.Acquire(ctx, id)
	if err != nil {
		var held *store.HeldError
		return errors.As(err, &held)
	}
	lease.Release()
	return false
}

// look reads a task as people see it. Only of one that runs it matters who drives it.
func (w *workplace) look(ctx context.Context, row store.Thread) (task.View, error) {
	return w.board().Look(ctx, row.ID, !row.Ended() && w.driven(ctx, row.ID))
}

var taskStates = []string{task.Created, task.Working, task.InputRequired, task.Completed, task.Failed, task.Canceled}

// A taskLine is a task in task list.
type taskLine struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Controller is how far a model's plan has come, null when no model plans.
	Controller *task.Controller `json:"controller"`
	Title      string           `json:"title"`
	Flow       string           `json:"flow"`
	Status     string           `json:"status"`
	Head       string           `json:"head"`
	Steps      int              `json:"steps"`
	Agents     int              `json:"agents"` // at work
	Gates      int              `json:"gates"`  // that wait for a person
	Usage      store.Usage      `json:"usage"`
	Workspace  string           `json:"workspace"`
	CreatedAt  task.Time        `json:"createdAt"`
	UpdatedAt  task.Time        `json:"updatedAt"`
	// Waits are the commands that answer what waits for a person, or go on.
	Waits []string `json:"waits"`
}

func newTaskLine(v task.View) taskLine {
	l := taskLine{
		ID: v.ID, State: v.State, Title: v.Title, Flow: v.Flow, Status: v.Status, Head: v.Head, Steps: v.Steps, Gates: len(v.OpenGates()),
		Usage: store.Usage(v.Usage), Workspace: v.Workspace, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		Controller: v.Controller, Waits: []string{},
	}
	for _, g := range v.OpenGates() {
		l.Waits = append(l.Waits, g.AnswerWith)
	}
	if v.GoOn != "" {
		l.Waits = append(l.Waits, v.GoOn)
	}
	for _, m := range v.Roster {
		if m.State == store.Running || m.State == store.Blocked && v.Status == store.Running {
			l.Agents++
		}
	}
	return l
}

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
			f := store.ThreadFilter{Kind: store.KindRoot, Newest: true, Workspace: w.workspace}
			if all {
				f.Workspace = ""
			}
			if state == "" {
				f.Limit = limit
			}
			rows, err := w.store.Threads(ctx, f)
			if err != nil {
				return err
			}
			lines := []taskLine{}
			for _, row := range rows {
				v, err := w.look(ctx, row)
				if errors.Is(err, store.ErrNotFound) {
					continue // removed meanwhile
				}
				if err != nil {
					return err
				}
				if state == "" || v.State == state {
					lines = append(lines, newTaskLine(v))
				}
				if limit > 0 && len(lines) == limit {
					break
				}
			}
			return a.print(cmd, map[string]any{"tasks": lines}, func(out io.Writer) { taskTable(out, lines) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every workspace")
	cmd.Flags().StringVar(&state, "state", "", "only in this state")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "at most so many, 0 for all")
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(taskStates, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func taskTable(out io.Writer, lines []taskLine) {
	if len(lines) == 0 {
		fmt.Fprintln(out, "no such tasks here; begin one with: plait run FLOW -p PROMPT")
		return
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "TASK\tSTATE\tFLOW\tAGENTS\tGATES\tUPDATED\tTITLE")
	for _, l := range lines {
		state := l.State
		if c := l.Controller; c != nil && (state == task.Working || state == task.InputRequired) {
			state += ", " + c.String()
		}
		if l.Status == task.Interrupted {
			state += " (interrupted)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.ID, state, oneLine(l.Flow, 40), l.Agents, l.Gates, ago(int64(l.UpdatedAt)), oneLine(l.Title, 60))
	}
	tw.Flush()
	most, said := 5, false
	for _, l := range lines {
		for _, command := range l.Waits {
			if !said {
				fmt.Fprintln(out, "\nwaiting for you:")
				said = true
			}
			if most--; most < 0 {
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
