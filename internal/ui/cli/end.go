package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// driven says how a task was driven here.
type driven struct {
	interrupted bool
	quiet       bool
}

// ended prints the state of a thread, and sets the exit code accordingly.
func (a *app) ended(cmd *cobra.Command, w *workplace, row store.Thread, d driven) error {
	ctx := context.WithoutCancel(cmd.Context())
	if now, err := w.store.Thread(ctx, row.ID); err == nil {
		row = now
	}
	open, below, err := w.waiting(ctx, row)
	if err != nil {
		return err
	}
	res := view.NewStanding(row)
	res.Exit = statusCode(row, below)
	if d.interrupted && !row.Ended() {
		res.Status, res.Exit = view.Interrupted, exitInterrupted
		res.Summary = a.says("interrupted; continue with: " + commandLine(view.ResumeOf(row.ID, nil)))
	}
	a.code = res.Exit
	result, err := w.view().Result(ctx, row)
	if err != nil {
		return err
	}
	said := result.Text
	if row.Ended() {
		res.Summary, res.Result = result.End, result.Text
	}
	if row.Reason != nil {
		for _, g := range open {
			if g.ID == row.Reason.Gate && g.Kind == store.GateInput {
				said = g.Question
			}
		}
	}
	if row.Reason != nil && res.Summary == "" {
		res.Summary = thread.Plainly(row.Reason.Message)
	}
	rec, err := w.view().TaskRecord(ctx, row.Task, !row.Ended() && w.view().Driven(ctx, row.Task))
	if err != nil {
		return err
	}
	res.Display = rec.Task().Displays()[row.ID]
	return a.print(cmd, res, func(out page) {
		if said != "" && (row.Ended() || row.Reason != nil && row.Reason.Kind == store.ReasonInput) {
			out.line("%s", strings.TrimRight(text.Safe(said), "\n"))
			if strings.TrimSpace(said) == res.Summary && isTerminal(a.out) && isTerminal(a.err) {
				res.Summary = "" // it was just said
			}
		}
		w.printEnd(a.page(ctx, a.err), row, rec, res, d.quiet)
		file, ok := findIn(w.dir, row.Workspace, row.Flow)
		if !ok {
			file = "the flow's file"
		}
		for _, next := range nextText(row, a.names().Of(ctx, row), file, open, res.Exit == exitPerson) {
			a.aside("  " + next)
		}
	})
}

// waiting returns the open gates and the blocked threads of the task of a blocked thread.
func (w *workplace) waiting(
	ctx context.Context, row store.Thread,
) (open []store.Gate, below []store.Thread, err error) {
	if row.Status != store.Blocked {
		return nil, nil, nil
	}
	if open, err = w.store.Gates(ctx, store.GateFilter{Task: row.Task, State: store.GateOpen}); err != nil {
		return nil, nil, err
	}
	below, err = w.store.Threads(ctx, store.ThreadFilter{Task: row.Task, Statuses: []store.Status{store.Blocked}})
	return open, below, err
}

// taskOf returns the task of a thread, as people see it.
func (w *workplace) taskOf(ctx context.Context, row store.Thread) (view.Task, error) {
	root, err := w.store.Thread(ctx, row.Task)
	if err != nil {
		return view.Task{}, err
	}
	return w.view().Task(ctx, root)
}

// displays returns the displays of the threads of row's task, by id, as lists of tasks show them.
func (w *workplace) displays(ctx context.Context, row store.Thread) (displays, error) {
	if row.ID == "" { // a step, in whatever thread
		return nil, nil
	}
	task, err := w.taskOf(ctx, row)
	return task.Displays(), err
}

type displays map[string]view.Display

// of returns the word for a thread's state. For a thread of another task it depends on the status alone.
func (s displays) of(thread string, status store.Status) string {
	d, ok := s[thread]
	if !ok {
		d = view.NewDisplay(status, nil, nil)
	}
	return string(d.State)
}

// printEnd prints a thread's state on one line, and below it what it used and which files it changed.
func (w *workplace) printEnd(out page, row store.Thread, rec view.TaskRecord, res view.Standing, quiet bool) {
	why := res.Display.Reason
	if why == "" || res.Status == view.Interrupted {
		why = text.OneLine(res.Summary, 300)
	}
	out.line("%s  %s  %s", out.bold(out.names.Of(out.ctx, row)), out.state(string(res.Display.State)), out.named(why))
	if quiet {
		return
	}
	took, used := rec.Times(time.Now()), store.Usage(rec.Task().Usage)
	facts := []string{text.Took(took.Elapsed) + " elapsed", text.Took(took.Work) + " work"}
	if n := used.Tokens(); n > 0 {
		facts = append(facts, text.Count(int(n), "token"), dollars(used.CostMicroUSD))
	}
	out.line("%s", out.dim("  "+strings.Join(facts, ", ")))
	for _, line := range w.changed(out.ctx, row) {
		out.line("  %s", line)
	}
}

// maxChanged is how many changed files are listed.
const maxChanged = 20

// changed lists the files that a thread changed, one a line, as git diff --stat does. It returns
// nothing if the changes are unknown, or outside a repository.
func (w *workplace) changed(ctx context.Context, row store.Thread) []string {
	from, to := "", ""
	for s, err := range w.control.Reader().Walk(ctx, row.Head) {
		if err != nil || row.ForkedFrom != nil && s.Hash == row.ForkedFrom.Step {
			break
		}
		d, err := w.control.Reader().Detail(ctx, s.State.Detail)
		if err != nil || d == nil {
			continue
		}
		before, after := d.Trees()
		to, from = cmp.Or(to, after), cmp.Or(before, from)
	}
	return w.diffStat(ctx, from, to)
}

// diffStat lists the differences between two git trees.
func (w *workplace) diffStat(ctx context.Context, from, to string) []string {
	if from == "" || to == "" || from == to {
		return nil
	}
	repo, err := git.Open(ctx, w.workspace)
	if err != nil {
		return nil
	}
	patch, err := repo.Diff(ctx, from, to)
	if err != nil {
		return nil
	}
	return stat(string(patch))
}

// stat counts what a patch changes in each file.
func stat(patch string) []string {
	files := view.SplitPatch(patch)
	wide := 0
	for _, f := range files {
		wide = max(wide, len([]rune(text.Safe(f.Path))))
	}
	var lines []string
	for i, f := range files {
		if i == maxChanged {
			lines = append(lines, fmt.Sprintf("… and %d more", len(files)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("%-*s | +%d -%d", min(wide, 50), text.Safe(f.Path), f.Added, f.Removed))
	}
	return lines
}

// maxAnswers limits how many open gates are spelled out.
const maxAnswers = 5

// nextText says what a person can do about a thread, called name, that is no longer driven. file is its flow's, open
// are its task's gates; asks says that something below it waits for a person.
func nextText(row store.Thread, name, file string, open []store.Gate, asks bool) []string {
	if row.Ended() {
		return []string{"see it with: plait show " + name}
	}
	if row.Status != store.Blocked {
		return nil
	}
	var kind store.ReasonKind
	if row.Reason != nil {
		kind = row.Reason.Kind
	}
	resume := view.ResumeOf(row.ID, row.Reason)
	resume.Name = name
	with := commandLine(resume)
	switch {
	case len(open) > maxAnswers:
		return []string{"see what is asked with: plait gate list", "then continue with: " + with}
	case kind == store.ReasonInput && len(open) == 0:
		return []string{"answer with: " + with}
	case kind == store.ReasonLimit && len(open) == 0:
		return []string{"continue with: " + with}
	case len(open) > 0 && (kind == store.ReasonInput || kind == store.ReasonLimit || kind == store.ReasonGate ||
		kind == store.ReasonConflict || kind == store.ReasonChild || asks):
		lines := answersText(open)
		switch {
		case kind == store.ReasonLimit:
			return append(lines, "or set the limit yourself with: "+with)
		case open[0].Source == store.SourceInterrupted:
			return append(lines, "or do both at once with: plait resume "+name+" --again")
		case len(open) > 1:
			return append(lines, "then continue with: plait resume "+name)
		}
		return lines
	case row.Reason != nil && row.Reason.Failure == store.FailureRoute:
		return []string{"the task keeps the flow it began with: fix " + text.Safe(file) +
			", then start again with: plait run " + text.Safe(row.Flow)}
	}
	return []string{"try again with: " + with}
}

// answersText says how to answer open gates. If there is only one, answering it continues its task.
func answersText(open []store.Gate) []string {
	then := ""
	if len(open) == 1 {
		then = " --resume"
	}
	var lines []string
	for _, g := range open {
		with := commandLine(view.AnswersOf(g)[0]) + then
		if g.Kind == store.GateApproval {
			lines = append(lines, "look at it with: plait gate show "+g.ID)
			with += " (or deny)"
		}
		lines = append(lines, "answer with: "+with)
	}
	return lines
}
