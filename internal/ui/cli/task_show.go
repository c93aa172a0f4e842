package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
			return show(a, cmd, shown, err, func(out page, v *taskdir.PrintedTask) {
				writeTask(out, v, w.changed(ctx, row))
			})
		},
	}
}

// writeTask prints a task for people: its state, what needs a person, its result, and then who did
// what. changed are the files that it changed.
func writeTask(out page, v *taskdir.PrintedTask, changed []string) {
	out.line("%s  %s  %s  %s", out.bold(v.Short), text.Safe(v.Flow), out.state(string(v.Display.State)), out.dim(v.ID))
	line := func(label, s string) {
		if s != "" {
			out.line("  %-10s %s", label, s)
		}
	}
	line("title", text.FirstLine(v.Title, 100))
	line("issue", text.Safe(v.Issue()))
	line("reason", out.named(v.Display.Reason))
	if c := v.Controller; c != nil {
		goal := text.FirstLine(c.Goal, 200)
		if c.Round > 1 {
			goal += fmt.Sprintf(" (plan %d)", c.Round)
		}
		if c.Round > 0 {
			line("goal", goal)
		}
		if c.Total > 0 {
			line("plan", fmt.Sprintf("%d of %s done", c.Done, text.Count(c.Total, "action")))
		}
	}
	line("continue", v.GoOn)
	line("directory", text.Safe(v.Dir))
	line("updated", text.Ago(int64(v.UpdatedAt), time.Now()))
	if u := v.Usage; store.Usage(u).Tokens() > 0 {
		line("tokens", fmt.Sprintf("%d in, %d out, %s", u.InputTokens, u.OutputTokens, dollars(u.CostMicroUSD)))
	}
	for _, g := range v.OpenGates() {
		out.line("\n%s %s from %s", out.bold("Needs you:"), view.KindWord(g.Kind), text.Safe(g.AskedBy()))
		if g.Kind == store.GateApproval && !strings.Contains(g.Headline, view.Question(g.Question)) {
			out.line("  %s", text.FirstLine(g.Headline, 400)) // what would be done
		}
		out.line("  %s\n  %s", text.OneLine(view.Question(g.Question), 400), g.AnswerWith)
	}
	if v.Result != nil && strings.TrimSpace(*v.Result) != "" {
		result := text.Safe(strings.TrimSpace(*v.Result))
		out.line("\n%s\n  %s", out.bold("Result"), strings.ReplaceAll(result, "\n", "\n  "))
	}
	if len(changed) > 0 {
		out.line("\n%s\n  %s", out.bold("Changes"), strings.Join(changed, "\n  "))
	}
	writeParts(out, v)
	writeWorktrees(out, v)
	if len(v.Reports) > 0 {
		out.line("\n%s", out.bold("Reports"))
		for _, name := range v.Reports {
			out.line("  %s", text.Safe(filepath.Join(v.Dir, name)))
		}
	}
}

// writeWorktrees prints which worktrees stay, and why.
func writeWorktrees(out page, v *taskdir.PrintedTask) {
	title := "\n" + out.bold("Worktrees that stay, since they have what cannot be merged") + "\n"
	for _, t := range v.Threads {
		dir := worktree.TreeIn(v.Workspace, t.ID, "")
		if _, err := os.Lstat(dir); err != nil || t.Kept == "" {
			continue // it was removed, or is on another machine
		}
		out.line("%s  %s  %s", title, text.Safe(dir), text.FirstLine(t.Kept, 1000))
		title = ""
	}
}

// writeParts prints who works in a task, and in which parts.
func writeParts(out page, v *taskdir.PrintedTask) {
	section := func(title string, t table) {
		if len(t.rows) > 0 {
			out.line("\n%s", out.bold(title))
			out.table(t)
		}
	}
	if v.Controller != nil {
		states := displays(v.Displays())
		t := table{head: []string{"ACTION", "STATE", "AFTER", "TITLE"}, elastic: []int{2, 3}, state: 1}
		for _, m := range v.Milestones {
			t.add(text.Safe(m.ID), milestoneState(states, m), text.FirstLine(strings.Join(m.DependsOn, ", "), 100),
				text.FirstLine(m.Title, 100))
		}
		section("Plan", t)
	}
	agents := table{head: []string{"AGENT", "STATE", "KIND", "ATTEMPTS", "TOKENS", "COST"}, elastic: []int{0, 2}, state: 1}
	for _, m := range v.Roster {
		state := cmp.Or(string(view.NewDisplay(m.State, nil, nil).State), string(m.State))
		if m.State == store.Blocked { // until a person answers
			state = string(view.DisplayNeedsYou)
		}
		agents.add(text.Safe(m.Instance), state, text.FirstLine(m.Agent, 60), fmt.Sprint(m.Attempts), fmt.Sprint(m.Tokens),
			price(m.CostMicroUSD))
	}
	section("Agents", agents)
	parts := table{head: []string{"PART", "FLOW", "STATE", "STEPS", "REASON"}, elastic: []int{1, 4}, state: 2}
	for _, t := range v.Threads {
		name := v.Short
		if t.Label != "" {
			name += "/" + t.Label
		}
		parts.add(text.Safe(name), text.FirstLine(t.Flow, 60), string(t.Display.State), fmt.Sprint(t.Steps),
			text.FirstLine(out.named(t.Display.Reason), 100))
	}
	if len(v.Threads) > 1 {
		section("Parts", parts)
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
