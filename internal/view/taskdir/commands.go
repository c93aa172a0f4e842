package taskdir

import (
	"cmp"

	"github.com/plait-run/plait/internal/view"
)

// Command returns the command line for the option o. text is used if the command takes one.
func Command(p view.Program, o view.Option, text string) string {
	verb, flag := p.Says("plait "+o.Verb)+" "+cmp.Or(o.Name, o.ID), " -m "
	if o.Verb == view.Resume {
		flag = " -p "
	}
	switch o.Needs {
	case view.NeedsText:
		return verb + flag + text
	case view.NeedsLimit:
		return verb + " --limit " + o.Value
	}
	return verb
}

// anyText is a placeholder for a text in the command lines of files and objects.
const anyText = "TEXT"

// withCommands returns v with the command lines that let it continue.
func withCommands(p view.Program, v view.Task) view.Task {
	gates := make([]view.Gate, 0, len(v.Gates))
	for _, g := range v.Gates {
		if len(g.Answers) > 0 {
			g.AnswerWith = Command(p, g.Answers[0], anyText)
		}
		gates = append(gates, g)
	}
	v.Gates = gates
	if v.Next != nil {
		v.GoOn = Command(p, *v.Next, anyText)
	}
	return v
}

// WithCommands fills in the command lines of the rows of a list.
func WithCommands(p view.Program, rows []view.TaskRow) []view.TaskRow {
	for i, row := range rows {
		rows[i].Waits = make([]string, 0, len(row.Options))
		for _, o := range row.Options {
			rows[i].Waits = append(rows[i].Waits, Command(p, o, anyText))
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
func Show(p view.Program, v view.Task) (*PrintedTask, error) {
	dir := At(v.Workspace, v.ID)
	reports, err := dir.reports()
	if err != nil {
		return nil, err
	}
	return &PrintedTask{withCommands(p, v), dir.Path(), reports}, nil
}
