package taskdir

import (
	"cmp"
	"fmt"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/advice"
)

// Placeholders in the command lines of files, objects and errors.
const (
	anyText = "TEXT"
	anyStep = "STEP"
)

// Command returns the command line for the option o. text stands for a text that o needs.
func (p Program) Command(o advice.Option, text string) string {
	line := string(o.Verb) + " " + o.Target()
	switch o.Verb {
	case advice.ResumeTeam:
		line = "resume " + o.Target() + " --on team --again"
	case advice.Remove:
		line = "rm " + o.Target()
	case advice.ListAll:
		line = "ls --all"
	case advice.Start:
		line = "run"
	case advice.Record:
		line = "run --record"
	}
	switch {
	case o.Needs == advice.NeedsText && o.Verb == advice.Resume:
		line += " -p " + cmp.Or(o.Value, text)
	case o.Needs == advice.NeedsText:
		line += " -m " + text
	case o.Needs == advice.NeedsLimit:
		line += " --limit " + o.Value
	case o.Needs == advice.NeedsStep && o.Verb == advice.Fork:
		line += "/" + anyStep
	case o.Needs == advice.NeedsStep:
		line += " --from " + anyStep
	}
	return p.Says("plait " + line)
}

// Words returns the words of p for options that are mentioned in a text.
func (p Program) Words() func(advice.Option) string {
	return func(o advice.Option) string { return p.Command(o, anyText) }
}

// Named returns an error that wraps err, whose text names what can be done, and the program, as p does.
func (p Program) Named(err error) error {
	if err == nil {
		return nil
	}
	return &namedError{err, p.Says(advice.ErrorText(err, p.Words()))}
}

type namedError struct {
	err  error
	text string
}

func (e *namedError) Error() string { return e.text }
func (e *namedError) Unwrap() error { return e.err }

// ForkSummary says what was forked, and where a fork of a step inside a path ends.
func ForkSummary(next store.Thread) string {
	said := fmt.Sprintf("forked from %s at step %s", next.ForkedFrom.Thread, next.ForkedFrom.Step.Short())
	if next.Path != nil {
		said += ", inside path " + next.Path.ID + ": the fork ends where the paths join (--rejoin forks the whole task)"
	}
	return said
}

// withCommands returns v with the command lines that let it continue.
func withCommands(p Program, v view.Task) view.Task {
	gates := make([]view.Gate, 0, len(v.Gates))
	for _, g := range v.Gates {
		if len(g.Answers) > 0 {
			g.AnswerWith = p.Command(g.Answers[0], anyText)
		}
		gates = append(gates, g)
	}
	v.Gates = gates
	if v.Next != nil {
		v.GoOn = p.Command(*v.Next, anyText)
	}
	return v
}

// WithCommands fills in the command lines of the rows of a list.
func WithCommands(p Program, rows []view.TaskRow) []view.TaskRow {
	for i, row := range rows {
		rows[i].Waits = make([]string, 0, len(row.Options))
		for _, o := range row.Options {
			rows[i].Waits = append(rows[i].Waits, p.Command(o, anyText))
		}
	}
	return rows
}

// A PrintedTask is a task as it is printed: with command lines, and the location of its files.
type PrintedTask struct {
	view.Task
	Dir     string   `json:"dir"`     // absolute
	Reports []string `json:"reports"` // relative to dir
}

// Show returns the task v as p prints it.
func Show(p Program, v view.Task) (*PrintedTask, error) {
	dir := At(v.Workspace, v.ID)
	reports, err := dir.reports()
	if err != nil {
		return nil, err
	}
	return &PrintedTask{withCommands(p, v), dir.Path(), reports}, nil
}
