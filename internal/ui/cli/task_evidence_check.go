package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func (a *app) evidenceCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check [TASK]",
		Short: "Check that the evidence of a task is complete and still true",
		Long: `Check the evidence of a task: hash its content again, compare files with the working tree and
tool calls with the transcripts, and look up every citation (evidence:ID) in the reports,
contracts, decisions and final.json files of the task.

The exit code is 6 if content is damaged, or if a citation names missing evidence, or a command
or tool call that was declined or interrupted; 1 if a file has changed or is gone; and 0 otherwise.`,
		Example: `  plait task evidence check
  plait task evidence check k7f2`,
		Args: atMost(1, "one task"), ValidArgsFunction: a.completeThreads(),
		RunE: readTask(a, func(ctx context.Context, w *workplace, row store.Thread) (c taskdir.EvidenceCheck, err error) {
			entries, err := w.dirs().Evidence(ctx, row.ID)
			if err != nil {
				return c, err
			}
			c, err = w.dirs().CheckEvidence(ctx, row, entries)
			switch {
			case c.Damaged():
				a.code = exitVerify
			case c.Outdated():
				a.code = exitFailed
			}
			return c, err
		}, writeChecked),
	}
}

func writeChecked(out page, c taskdir.EvidenceCheck) {
	counts := map[string]int{}
	var t table
	for _, e := range c.Evidence {
		state := e.State
		switch {
		case len(e.Broken) > 0:
			state = "broken"
		case state == taskdir.Unknown:
			state = "not checkable"
		}
		counts[state]++
		title := text.FirstLine(e.Title, 80)
		for _, s := range e.Sources {
			if s.State == taskdir.Moved {
				title += fmt.Sprintf(" (now at lines %d-%d)", s.StartLine, s.EndLine)
			}
		}
		t.add(state, text.FirstLine(cmp.Or(e.ID, e.Node.Short()), 100), title)
		for _, b := range e.Broken {
			t.add("", "  "+text.FirstLine(b, 300))
		}
	}
	out.table(t)
	for _, ci := range c.Dangling {
		out.line("%s cites evidence:%s, which does not exist", text.FirstLine(ci.File, 200), ci.ID)
	}
	for _, ci := range c.Unproven {
		out.line("%s cites evidence:%s, which was declined or interrupted and proves nothing",
			text.FirstLine(ci.File, 200), ci.ID)
	}
	var parts []string
	for _, state := range []string{"broken", taskdir.Unfinished, taskdir.Gone, taskdir.Stale, taskdir.Moved, taskdir.Fresh,
		"not checkable"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	total := fmt.Sprintf("%d entries%s; %d citations, %d of them to evidence that does not exist", len(c.Evidence),
		strings.TrimSuffix(": "+strings.Join(parts, ", "), ": "), c.Citations, len(c.Dangling))
	if n := len(c.Unproven); n > 0 {
		total += fmt.Sprintf(", %d unproven", n)
	}
	out.line("%s", total)
}
