package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func (a *app) taskShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show [TASK]",
		Short:             "Show a task: what needs you, its result, agents, parts and reports",
		Example:           "  plait task show k7f2\n  plait show last~1",
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openTask(ctx, newest(args))
			if err != nil {
				return err
			}
			v, err := w.view().Task(ctx, row)
			if err != nil {
				return err
			}
			shown, err := taskdir.Show(a.named, v)
			if err != nil {
				return err
			}
			changed := w.changed(ctx, row)
			names := w.view().Names()
			return a.print(cmd, shown, func(out io.Writer) {
				a.writeTask(out, shown, changed, func(s string) string { return names.In(ctx, s) })
			})
		},
	}
}

// writeTask prints a task for people: its state, what needs a person, its result, and then who did
// what. changed are the files that it changed.
func (a *app) writeTask(out io.Writer, v *taskdir.PrintedTask, changed []string, named func(string) string) {
	st := a.style(out)
	fmt.Fprintf(out, "%s  %s  %s  %s\n", st.bold(v.Short), safe(v.Flow), st.state(string(v.Display.State)), st.dim(v.ID))
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(out, "  %-10s %s\n", label, text)
		}
	}
	line("title", oneLine(v.Title, 100))
	line("reason", safe(named(v.Display.Reason)))
	if c := v.Controller; c != nil {
		switch {
		case c.Round > 1:
			line("goal", fmt.Sprintf("%s (plan %d)", oneLine(c.Goal, 200), c.Round))
		case c.Round > 0:
			line("goal", oneLine(c.Goal, 200))
		}
		if c.Total > 0 {
			line("plan", fmt.Sprintf("%d of %s done", c.Done, text.Count(c.Total, "action")))
		}
	}
	line("continue", v.GoOn)
	line("directory", safe(v.Dir))
	line("updated", ago(int64(v.UpdatedAt)))
	if u := v.Usage; store.Usage(u).Tokens() > 0 {
		line("tokens", fmt.Sprintf("%d in, %d out, %s", u.InputTokens, u.OutputTokens, dollars(u.CostMicroUSD)))
	}
	for _, g := range v.OpenGates() {
		fmt.Fprintf(out, "\n%s %s from %s\n", st.bold("Needs you:"), view.KindWord(g.Kind), safe(g.AskedBy()))
		if g.Kind == store.GateApproval && !strings.Contains(g.Headline, view.Question(g.Question)) {
			fmt.Fprintf(out, "  %s\n", oneLine(g.Headline, 400)) // what would be done
		}
		fmt.Fprintf(out, "  %s\n  %s\n", questionLine(g.Question, 400), g.AnswerWith)
	}
	if v.Result != nil && strings.TrimSpace(*v.Result) != "" {
		text := safe(strings.TrimSpace(*v.Result))
		fmt.Fprintf(out, "\n%s\n  %s\n", st.bold("Result"), strings.ReplaceAll(text, "\n", "\n  "))
	}
	if len(changed) > 0 {
		fmt.Fprintf(out, "\n%s\n  %s\n", st.bold("Changes"), strings.Join(changed, "\n  "))
	}
	a.writeParts(out, v, named)
	writeWorktrees(out, st, v)
	if len(v.Reports) > 0 {
		fmt.Fprintf(out, "\n%s\n", st.bold("Reports"))
		for _, name := range v.Reports {
			fmt.Fprintln(out, "  "+safe(filepath.Join(v.Dir, name)))
		}
	}
}

// writeWorktrees prints which worktrees stay, and why.
func writeWorktrees(out io.Writer, st style, v *taskdir.PrintedTask) {
	title := "\n" + st.bold("Worktrees that stay, since they have what cannot be merged") + "\n"
	for _, t := range v.Threads {
		dir := worktree.TreeIn(v.Workspace, t.ID, "")
		if _, err := os.Lstat(dir); err != nil || t.Kept == "" {
			continue // it was removed, or is on another machine
		}
		fmt.Fprintf(out, "%s  %s  %s\n", title, safe(dir), oneLine(t.Kept, 1000))
		title = ""
	}
}

// writeParts prints who works in a task, and in which parts.
func (a *app) writeParts(out io.Writer, v *taskdir.PrintedTask, named func(string) string) {
	st := a.style(out)
	section := func(title string, t table, state int) {
		if len(t.rows) == 0 {
			return
		}
		fmt.Fprintf(out, "\n%s\n", st.bold(title))
		t.paint = statePainter(st, state)
		t.write(out, st, columns(out))
	}
	if v.Controller != nil {
		states := displays(v.Displays())
		t := table{head: []string{"ACTION", "STATE", "AFTER", "TITLE"}, elastic: []int{2, 3}}
		for _, m := range v.Milestones {
			t.add(safe(m.ID), milestoneState(states, m), oneLine(strings.Join(m.DependsOn, ", "), 100), oneLine(m.Title, 100))
		}
		section("Plan", t, 1)
	}
	agents := table{head: []string{"AGENT", "STATE", "KIND", "ATTEMPTS", "TOKENS", "COST"}, elastic: []int{0, 2}}
	for _, m := range v.Roster {
		state := cmp.Or(string(view.NewDisplay(m.State, nil, nil).State), string(m.State))
		if m.State == store.Blocked { // until a person answers
			state = string(view.DisplayNeedsYou)
		}
		agents.add(safe(m.Instance), state, oneLine(m.Agent, 60), fmt.Sprint(m.Attempts), fmt.Sprint(m.Tokens), price(m.CostMicroUSD))
	}
	section("Agents", agents, 1)
	parts := table{head: []string{"PART", "FLOW", "STATE", "STEPS", "REASON"}, elastic: []int{1, 4}}
	for _, t := range v.Threads {
		name := v.Short
		if t.Label != "" {
			name += "/" + t.Label
		}
		parts.add(safe(name), oneLine(t.Flow, 60), string(t.Display.State), fmt.Sprint(t.Steps),
			oneLine(named(t.Display.Reason), 100))
	}
	if len(v.Threads) > 1 {
		section("Parts", parts, 2)
	}
}

// milestoneState returns the word for the state of an action: that of its part, if one was begun.
func milestoneState(states displays, m view.Milestone) string {
	statuses := map[view.MilestoneState]store.Status{
		view.MilestonePending: store.Pending, view.MilestoneWorking: store.Running, view.MilestoneBlocked: store.Blocked,
		view.MilestoneDone: store.Completed, view.MilestoneFailed: store.Failed, view.MilestoneCancelled: store.Cancelled,
	}
	return states.of(m.Thread, statuses[m.State])
}
