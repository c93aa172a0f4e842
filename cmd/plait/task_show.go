package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
)

func (a *app) taskShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show [TASK]",
		Short:             "Show a task: its agents, what waits for a person, its threads and reports",
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
			shown, err := task.Show(v)
			if err != nil {
				return err
			}
			return a.print(cmd, shown, func(out io.Writer) { a.writeTask(out, shown) })
		},
	}
}

// writeTask prints a task the way a person reads it.
func (a *app) writeTask(out io.Writer, v *task.Shown) {
	st := a.style(out)
	fmt.Fprintf(out, "%s  %s  %s  %s\n", st.bold(v.Short), safe(v.Flow), v.Display.State, st.dim(v.ID))
	fmt.Fprintf(out, "  title      %s\n", oneLine(v.Title, 100))
	if why := v.Display.Reason; why != "" {
		fmt.Fprintf(out, "  why        %s\n", safe(why))
	}
	if c := v.Controller; c != nil {
		fmt.Fprintf(out, "  controller %s  since %s\n", c, ago(int64(c.Since)))
		if c.Round > 0 {
			fmt.Fprintf(out, "  plan %-5d %s\n", c.Round, oneLine(c.Goal, 200))
		}
	}
	if v.GoOn != "" {
		fmt.Fprintf(out, "  go on with %s\n", v.GoOn)
	}
	fmt.Fprintf(out, "  directory  %s\n", safe(v.Dir))
	fmt.Fprintf(out, "  updated    %s\n", ago(int64(v.UpdatedAt)))
	if u := v.Usage; store.Usage(u).Tokens() > 0 {
		fmt.Fprintf(out, "  tokens     %d in, %d out, %s\n", u.InputTokens, u.OutputTokens, dollars(u.CostMicroUSD))
	}
	table := func(title, head string, n int, row func(i int) []any) {
		if n == 0 {
			return
		}
		fmt.Fprintf(out, "\n%s\n", st.bold(title))
		tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "  "+head)
		for i := range n {
			fields := row(i)
			for j := range fields {
				fields[j] = oneLine(fmt.Sprint(fields[j]), 100)
			}
			fmt.Fprintf(tw, "  %s\n", strings.TrimRight(fmt.Sprintf(strings.Repeat("%s\t", len(fields)), fields...), "\t"))
		}
		tw.Flush()
	}
	open := v.OpenGates()
	table("Waits for a person", "GATE\tKIND\tASKED BY\tQUESTION\tANSWER WITH", len(open), func(i int) []any {
		g := open[i]
		return []any{g.ID, g.Kind, g.AskedBy(), g.Question, g.AnswerWith}
	})
	if v.Controller != nil {
		table("Milestones", "MILESTONE\tSTATE\tAFTER\tTITLE", len(v.Milestones), func(i int) []any {
			m := v.Milestones[i]
			return []any{m.ID, m.State, cmp.Or(strings.Join(m.DependsOn, ", "), "-"), m.Title}
		})
	}
	table("Agents", "AGENT\tSTATE\tDONE BY\tATTEMPTS\tTOKENS", len(v.Roster), func(i int) []any {
		m := v.Roster[i]
		return []any{m.Instance, m.State, m.Agent, m.Attempts, m.Tokens}
	})
	table("Threads", "THREAD\tPATH\tFLOW\tSTATUS\tSTEPS", len(v.Threads), func(i int) []any {
		t := v.Threads[i]
		status, label := string(t.Status), t.Label
		if t.Reason != nil && t.Status == store.Blocked {
			status += "{" + string(t.Reason.Kind) + "}"
		}
		if label == "" {
			label = "-"
		}
		return []any{t.ID, label, t.Flow, status, t.Steps}
	})
	if len(v.Reports) > 0 {
		fmt.Fprintf(out, "\n%s\n", st.bold("Reports"))
		for _, name := range v.Reports {
			fmt.Fprintln(out, "  "+safe(filepath.Join(v.Dir, name)))
		}
	}
}
