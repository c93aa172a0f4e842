package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) threadCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "thread", Short: "List, show, follow, fork, compare, compact and remove threads"})
	cmd.AddCommand(a.threadListCmd(), a.threadShowCmd(), a.threadLogCmd(), a.threadForkCmd(), a.threadDiffCmd(),
		a.threadCompactCmd(), a.threadRmCmd())
	return cmd
}

func (a *app) threadListCmd() *cobra.Command {
	var all, watch, parts bool
	var status, since, until, before string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List threads of this workspace, newest first",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			f := view.ThreadFilter{All: all, Parts: parts, Status: store.Status(status), Limit: limit}
			if f.Since, f.Until, err = view.Span(since, until, time.Now()); err != nil {
				return badUsage{err}
			}
			if before != "" {
				row, err := w.threadID(ctx, before)
				if err != nil {
					return err
				}
				f.Before = row.ID
			}
			for pos := int64(0); ; {
				lines, next, err := w.view().Threads(ctx, f)
				if err != nil {
					return err
				}
				if watch && isTerminal(a.out) && !a.json {
					fmt.Fprint(a.out, "\x1b[H\x1b[2J")
				}
				if err := a.print(cmd, map[string]any{"threads": lines, "next": next},
					func(out io.Writer) { a.threadTable(out, lines, next) }); err != nil || !watch {
					return err
				}
				if pos, err = w.store.Wait(ctx, pos); err != nil {
					return nil // interrupted by the person watching
				}
			}
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every workspace")
	cmd.Flags().BoolVar(&parts, "parts", false, "paths and called threads too")
	cmd.Flags().BoolVar(&watch, "watch", false, "list again whenever something changes")
	cmd.Flags().StringVar(&status, "status", "", "only with this status")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "at most so many, 0 for all")
	cmd.Flags().StringVar(&since, "since", "", "begun then or later: a date, a time (RFC 3339), or so long ago (36h)")
	cmd.Flags().StringVar(&until, "until", "", "begun before then; a date counts whole")
	cmd.Flags().StringVar(&before, "before", "", "those that come after this thread in the list")
	cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{
		string(store.Pending), string(store.Running), string(store.Blocked), string(view.Interrupted),
		string(store.Completed), string(store.Failed), string(store.Cancelled),
	}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) threadTable(out io.Writer, lines []view.ThreadRow, next string) {
	if len(lines) == 0 {
		fmt.Fprintln(out, "no threads here yet; begin one with: plait run FLOW -p PROMPT")
		return
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "THREAD\tFLOW\tSTATUS\tSTEPS\tHEAD\tUPDATED")
	for _, l := range lines {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, safe(part(l.Thread)), reasoned(l.Status, l.Reason), l.Steps,
			l.Head.Short(), ago(l.UpdatedAt))
	}
	tw.Flush()
	if next != "" {
		fmt.Fprintf(a.err, "there may be more: --before %s\n", next)
	}
}

// part names a thread by its flow, and by its path where it is one.
func part(t store.Thread) string {
	if t.Kind == store.KindPath && t.Path != nil {
		return t.Flow + " [" + t.Path.ID + "]"
	}
	return t.Flow
}

// ago says a time as people do.
func ago(ms int64) string {
	t := time.UnixMilli(ms)
	switch d := time.Since(t); {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.Format("2006-01-02 15:04")
}

func (a *app) threadLogCmd() *cobra.Command {
	var followOn bool
	var after, before int64
	var limit int
	cmd := &cobra.Command{
		Use:   "log [THREAD]",
		Short: "Print what happened to a thread's task, event by event",
		Long: `Print what happened to a thread's task, oldest first. -n N prints the newest N events,
--before POS those before that position: pos of the first event that was printed leads
to the ones before it. With --json and -n the last line is an envelope whose next is that
position, empty when there are no more.`,
		Args:              atMost(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if followOn && (before != 0 || limit != 0) {
				return usagef("--follow waits for what comes: leave out --before and -n")
			}
			w, row, err := a.openThread(ctx, newest(args))
			if err != nil {
				return err
			}
			filter := store.EventFilter{Task: row.Task, Before: before, Limit: limit, Newest: limit > 0}
			tell := newNarrator()
			show := func(ev store.Event) { tell.line(a.out, ev) }
			if a.json {
				a.said = true
				show = func(ev store.Event) { a.line(ev) }
			}
			if followOn {
				return streamEvents(ctx, w.store, filter, after, nil, show)
			}
			events, err := w.store.Events(ctx, after, filter)
			if err != nil {
				return err
			}
			if filter.Newest {
				slices.Reverse(events)
			}
			for _, ev := range events {
				show(ev)
			}
			if !filter.Newest {
				return nil
			}
			if log := control.LogFile(w.home, row); exists(log) && !a.json {
				fmt.Fprintln(a.err, "its detached process wrote "+log)
			}
			next := ""
			if len(events) == limit {
				next = strconv.FormatInt(events[0].Pos, 10)
			}
			return a.print(cmd, map[string]any{"next": next}, func(io.Writer) {
				if next != "" {
					fmt.Fprintf(a.err, "there may be more: --before %s\n", next)
				}
			})
		},
	}
	cmd.Flags().BoolVarP(&followOn, "follow", "f", false, "wait for more")
	cmd.Flags().Int64Var(&after, "after", 0, "only events after this position")
	cmd.Flags().Int64Var(&before, "before", 0, "only events before this position")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "only the newest so many")
	return cmd
}

func (a *app) threadForkCmd() *cobra.Command {
	var at, id string
	var rejoin, inPlace bool
	var f driveFlags
	cmd := &cobra.Command{
		Use:   "fork THREAD[/STEP] [--at STEP]",
		Short: "Make a new thread that shares the steps up to one of another",
		Long: `Make a new pending thread whose head is a step of another. Nothing is copied. STEP
is a number along the chain that thread show prints (0 is the start) or a prefix of
a hash; without it, the last step before the end. Go on with plait resume.

A step inside a path keeps its place: the fork ends where the join would be. With
--rejoin the thread that the path belongs to is forked, the other paths are adopted
as they are, and the join is made again.

Where it is known how the step left the files, the fork works in a Git worktree of
its own, below .plait/worktrees; --in-place works in the tree of the thread.`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			from := args[0]
			if name, n, ok := view.CutStep(from); ok && at == "" {
				from, at = name, n
			}
			w, row, prompt, opts, err := a.goOn(ctx, from, &f)
			if err != nil {
				return err
			}
			next, err := w.control.Fork(ctx, control.Fork{
				Thread: row.ID, At: at, ID: id, Prompt: prompt, Options: opts, Rejoin: rejoin, InPlace: inPlace,
			})
			if err != nil {
				return err
			}
			res := view.NewStanding(next)
			res.Summary = fmt.Sprintf("forked from %s at step %s; works %s", next.ForkedFrom.Thread,
				next.ForkedFrom.Step.Short(), workingIn(next))
			return a.print(cmd, res, func(out io.Writer) {
				fmt.Fprintln(out, next.ID)
				fmt.Fprintln(a.err, res.Summary+"\ngo on with: "+commandLine(view.ResumeOf(next.ID, nil)))
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the step to fork at: a number, or a prefix of its hash")
	cmd.Flags().StringVar(&id, "id", "", "id of the new thread, a ULID (default: drawn)")
	cmd.Flags().BoolVar(&rejoin, "rejoin", false, "of a step inside a path: fork the whole, and join again")
	cmd.Flags().BoolVar(&inPlace, "in-place", false, "work in the tree of the thread, not in a worktree")
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "what to add (@FILE, - for standard input)")
	cmd.Flags().StringVar(&f.agent, "agent", "", "agent for every role")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "agent for one role: ROLE.agent=NAME")
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil, "a limit over the flow's: NAME=VALUE")
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgents)
	return cmd
}

// workingIn says where a fork's agents work.
func workingIn(row store.Thread) string {
	switch {
	case strings.Contains(row.Tree, filepath.Join(".plait", "worktrees", row.ID)):
		return "in a worktree of its own, " + row.Tree
	case row.Tree != "":
		return "in place, in " + row.Tree
	}
	return "in place, in " + row.Workspace
}

func (a *app) threadRmCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rm THREAD",
		Short: "Remove a task: its threads, events and directory",
		Long: `Remove a task with all its threads, events, attempts, its directory, and the Git
branches of what was merged; those of other work stay, and are named. Forks by hand
stay. What only the task kept is freed by plait gc.`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openThread(ctx, args[0])
			if err != nil {
				return err
			}
			if !yes && isTerminal(a.in) && isTerminal(os.Stderr) &&
				!a.ask(fmt.Sprintf("Remove %s (%s, %d steps) and its directory?", row.ID, safe(row.Flow), row.Steps)) {
				return usagef("nothing was removed")
			}
			if row, err = w.control.Remove(ctx, row.ID); err != nil {
				return err
			}
			kept, err := w.control.Branches(ctx, row.Workspace, row.ID)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"removed": row.ID, "steps": row.Steps, "branches": names(kept)},
				func(out io.Writer) {
					fmt.Fprintf(out, "removed %s; plait gc frees what only it kept\n", row.ID)
					for _, b := range kept {
						fmt.Fprintf(out, "kept branch %s, which is %s; remove it with: git branch -D %[1]s\n", safe(b.Name),
							branchState(b))
					}
				})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
