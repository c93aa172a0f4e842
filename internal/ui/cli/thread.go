package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func (a *app) threadCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "thread", Short: "List, show, follow, fork, compare, compact and remove threads"})
	cmd.AddCommand(a.threadListCmd(), a.threadShowCmd(), a.threadLogCmd(), a.threadForkCmd(), a.threadDiffCmd(),
		a.threadCompactCmd(), a.threadRmCmd())
	return cmd
}

func (a *app) threadListCmd() *cobra.Command {
	var watch, quiet bool
	var since, until, before string
	f := view.ThreadFilter{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the threads of this workspace, newest first",
		Long: `List the threads of this workspace, newest first: tasks, or with --parts also their paths,
actions and sub-flows. For tasks alone, plait ls says more.`,
		Example: `  plait thread list --parts --flow audit
  plait thread list --status interrupted -q`,
		Args: exactly(0, "no arguments"),
		PreRunE: func(*cobra.Command, []string) (err error) {
			err = cmp.Or(oneOf("status", strings.ReplaceAll(f.Status, " ", "-"), view.StateWords()...),
				notNegative("limit", f.Limit))
			if err != nil {
				return err
			}
			if f.Since, f.Until, err = view.Span(since, until, time.Now()); err != nil {
				return badUsage{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			if before != "" {
				row, err := w.threadID(ctx, before)
				if err != nil {
					return err
				}
				f.Before = row.ID
			}
			narrowed := f.Status != "" || f.Flow != "" || since != "" || until != "" || before != ""
			for pos := int64(0); ; {
				lines, next, err := w.view().Threads(ctx, f)
				if err != nil {
					return err
				}
				if watch && isTerminal(a.out) && !a.json {
					fmt.Fprint(a.out, "\x1b[H\x1b[2J")
				}
				err = a.print(cmd, map[string]any{"threads": lines, "next": next}, func(out page) {
					a.threadTable(out, lines, next, narrowed, quiet)
				})
				if err != nil || !watch {
					return err
				}
				if pos, err = w.store.Wait(ctx, pos); ctx.Err() != nil {
					return nil // interrupted by the person watching
				}
				if err != nil {
					return err
				}
			}
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	cmd.Flags().BoolVar(&f.All, "all", false, "in every workspace")
	cmd.Flags().BoolVar(&f.Parts, "parts", false, "also paths, actions and sub-flows")
	cmd.Flags().BoolVar(&watch, "watch", false, "list again whenever something changes")
	cmd.Flags().StringVar(&f.Status, "status", "", "only with this `status`")
	cmd.Flags().StringVar(&f.Status, "state", "", "the same as --status")
	cmd.Flags().StringVar(&f.Flow, "flow", "", "only of this `flow`")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 50, "at most `N` threads, 0 for all")
	cmd.Flags().StringVar(&since, "since", "", "only started since: a date, a `time` (RFC 3339), or a duration ago (36h)")
	cmd.Flags().StringVar(&until, "until", "", "only started before this `time`; a date includes that day")
	cmd.Flags().StringVar(&before, "before", "", "only older than this `thread`")
	cmd.Flags().MarkHidden("state")
	completeFlag(cmd, "state", view.StateWords()...)
	completeFlag(cmd, "status", view.StateWords()...)
	cmd.RegisterFlagCompletionFunc("flow", a.completeFlows)
	return cmd
}

// threadTable prints a list of threads. narrowed says that it was filtered.
func (a *app) threadTable(out page, lines []view.ThreadLine, next string, narrowed, quiet bool) {
	if len(lines) == 0 && !quiet {
		out.line("%s", a.nothingHere("threads", narrowed))
		return
	}
	t := table{head: []string{"THREAD", "FLOW", "STATE", "STEPS", "UPDATED", "TITLE", "REASON"},
		elastic: []int{0, 1, 5, 6}, state: 2}
	for _, l := range lines {
		t.add(text.Safe(l.Name), text.Safe(part(l.Thread)), string(l.Display.State), strconv.Itoa(l.Steps),
			text.Ago(l.UpdatedAt, time.Now()), text.FirstLine(l.Title, 60), text.FirstLine(l.Display.Reason, 100))
	}
	out.list(t, quiet)
	if next != "" && !quiet {
		fmt.Fprintf(a.err, "there may be more: --before %s\n", lines[len(lines)-1].Name)
	}
}

// part names a thread by its flow, and by its path if it is one.
func part(t store.Thread) string {
	if t.Kind == store.KindPath && t.Path != nil {
		return t.Flow + " [" + t.Path.ID + "]"
	}
	return t.Flow
}

func (a *app) threadLogCmd() *cobra.Command {
	var followOn bool
	var after, before int64
	var limit int
	cmd := &cobra.Command{
		Use:   "log [THREAD]",
		Short: "Print the events of a task",
		Long: `Print the events of a task, oldest first. -n N prints the newest N, and --before POSITION those
before a position. With --json and -n the last line is an envelope whose next field is the
position to continue from, empty at the beginning of the task.`,
		Example: `  plait logs
  plait logs k7f2 -f
  plait logs -n 20`,
		Args:              atMost(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if followOn && (before != 0 || limit != 0) {
				return usagef("--follow cannot be used with --before or -n")
			}
			if err := cmp.Or(notNegative("limit", limit), notNegative("before", before),
				notNegative("after", after)); err != nil {
				return err
			}
			w, row, err := a.openThread(ctx, newest(args))
			if err != nil {
				return err
			}
			filter := store.EventFilter{Task: row.Task, Before: before, Limit: limit, Newest: limit > 0}
			a.said = a.json
			show := a.eventPrinter(w.narrator(), a.out, a.json)
			if followOn {
				return streamEvents(ctx, w.store, filter, after, show)
			}
			var events []store.Event
			if filter.Newest {
				if events, err = w.store.Events(ctx, after, filter); err != nil {
					return err
				}
				slices.Reverse(events)
				for _, ev := range events {
					if err := show(ev); err != nil {
						return err
					}
				}
			} else if err := event.Each(ctx, w.store, filter, &after, show); err != nil {
				return err
			}
			if log := control.LogFile(w.home, row); exists(log) && !a.json {
				fmt.Fprintln(a.err, "its detached process wrote "+log)
			}
			if !filter.Newest {
				return nil
			}
			next := ""
			if len(events) == limit {
				next = strconv.FormatInt(events[0].Pos, 10)
			}
			return a.print(cmd, map[string]any{"next": next}, func(page) {
				if next != "" {
					fmt.Fprintf(a.err, "there may be more: --before %s\n", next)
				}
			})
		},
	}
	cmd.Flags().BoolVarP(&followOn, "follow", "f", false, "keep printing events as they come")
	cmd.Flags().Int64Var(&after, "after", 0, "only events after this `position`")
	cmd.Flags().Int64Var(&before, "before", 0, "only events before this `position`")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "only the newest `N`")
	return cmd
}

func (a *app) threadForkCmd() *cobra.Command {
	var at, id string
	var rejoin, inPlace bool
	f := driveFlags{forks: true}
	cmd := &cobra.Command{
		Use:   "fork THREAD[/STEP] [--at STEP]",
		Short: "Start a new task from a step of another",
		Long: `Start a new task that shares the steps of another up to STEP; the original is unchanged.
STEP is a number as plait thread show prints it (0 is the start) or the beginning of a
hash; without it, the last step before the end. Run it with plait resume.

A step inside a path keeps its place: the fork ends where the join would be. With
--rejoin the thread above the path is forked: it reuses the other paths as they are, and joins
again.

If Plait has a snapshot of the files after that step, the fork gets its own Git worktree,
below .plait/worktrees; with --in-place it works where the original did.`,
		Example: `  plait fork k7f2/3 -p "Try it without a cache"
  plait resume last`,
		Args:              exactly(1, "one thread"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			from := args[0]
			if name, n, ok := view.CutStep(from); ok && at == "" {
				from, at = name, n
			}
			w, row, prompt, opts, err := a.openToContinue(ctx, from, &f)
			if err != nil {
				return err
			}
			next, err := w.control.Fork(ctx, control.Fork{
				Thread: row.ID, At: at, ID: id, Prompt: prompt, About: f.comment, Options: opts, Rejoin: rejoin,
				InPlace: inPlace,
			})
			if err != nil {
				return err
			}
			res := view.NewStanding(next)
			res.Summary = taskdir.ForkSummary(next) + "; works " + workingIn(next)
			return a.print(cmd, res, func(out page) {
				name := out.names.Of(ctx, next)
				out.line("%s", name)
				fmt.Fprintln(a.err, out.names.In(ctx, res.Summary)+a.says("\ncontinue with: plait resume ")+name)
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the `step` to fork at: a number, or the beginning of its hash")
	cmd.Flags().StringVar(&id, "id", "", "`ULID` of the new task (default: generated)")
	cmd.Flags().BoolVar(&rejoin, "rejoin", false, "for a step inside a path: fork the thread above it, and join again")
	cmd.Flags().BoolVar(&inPlace, "in-place", false, "work where the original did, not in a new worktree")
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "what to add: text, `@FILE`, or - for stdin")
	f.addAbout(cmd)
	f.addAgent(cmd, a, "use this `agent` for every role")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "use an agent for one role: `ROLE.agent=NAME`")
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil, "set a limit: `NAME=VALUE`")
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
