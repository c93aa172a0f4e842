package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/advice"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// where names the thread of a gate, after its task if that is another thread.

// commandLine returns the command line that does what o says.
func commandLine(o advice.Option) string { return taskdir.Program{}.Command(o, `"…"`) }

// wrongKind says how a gate must be answered.
func wrongKind(g store.Gate) string {
	with := commandLine(view.AnswersOf(g)[0])
	if g.Kind == store.GateInput {
		return "is a question; answer it with: " + with
	}
	return "is an approval; answer it with: " + with + ", or deny"
}

// whatNext says what happens after an answer, and reports whether a process drives the task.
func (w *workplace) whatNext(ctx context.Context, g store.Gate) (string, bool) {
	row, err := w.store.Thread(ctx, g.Thread)
	if err != nil {
		return "", false
	}
	if row.Ended() {
		return fmt.Sprintf("%s is already %s: the answer has no effect", w.view().Names().Of(ctx, row),
			view.NewDisplay(row.Status, nil, nil).State), false
	}
	task := w.view().Names().ByID(ctx, row.Root)
	if w.view().Driven(ctx, row.Root) {
		return "task " + task + " continues", true
	}
	return "continue with: plait resume " + task, false
}

// closed says on one line how a gate stopped waiting.
func closed(g store.Gate) string {
	how := string(g.State)
	if g.By != "" {
		how += " by " + text.FirstLine(g.By, 40)
	}
	if g.Via != "" {
		how += " via " + text.FirstLine(string(g.Via), 20)
	}
	if g.Text != "" {
		how += ": " + text.FirstLine(g.Text, 120)
	}
	return how
}

// asks returns what a gate asks, in lines of up to most characters: the question,
// and for an approval exactly what would be done.
func asks(g store.Gate, most int) []string {
	var lines []string
	add := func(label, s string) {
		if s = text.FirstLine(s, most-len(label)); s != "" {
			lines = append(lines, label+s)
		}
	}
	add("", view.Question(g.Question))
	var act gate.Action
	if unmarshal(g.Action, &act) && g.Kind == store.GateApproval {
		add("command: ", act.Command)
		add("tool: ", act.Tool)
		if act.Diff != "" {
			add("diff: ", diffSummary(act.Diff))
		}
		if len(lines) == 0 {
			add("", act.Type)
		}
	}
	for i, option := range g.Options {
		if g.Kind == store.GateInput && i < 9 {
			add("- ", option)
		}
	}
	return lines
}

// diffSummary counts the changes in a unified diff.
func diffSummary(diff string) string {
	added, removed := 0, 0
	var files []string
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ "):
			files = append(files, strings.TrimPrefix(strings.TrimSpace(line[4:]), "b/"))
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	summary := fmt.Sprintf("+%d -%d lines", added, removed)
	if len(files) > 0 {
		summary += " in " + strings.Join(files, ", ")
	}
	return summary
}
