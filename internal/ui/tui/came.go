package tui

import (
	"cmp"
	"slices"

	"github.com/charmbracelet/x/ansi"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// stepsFrom is the width of a pane from which it lists steps; shownSteps is how many, the newest.
const (
	stepsFrom  = 90
	shownSteps = 200
)

// A doneStep is a step in a list.
type doneStep struct {
	who, said string
	failed    bool
	took, at  int64
}

// finished returns the steps of a task in the order in which they ended, and what came of the last one of each agent
// that works no more.
func finished(rec view.TaskRecord, members []view.Member, tl view.Timeline) (steps []doneStep, came map[string]string) {
	came = map[string]string{}
	instances, works := map[string]string{}, map[string]bool{}
	for _, a := range rec.Attempts {
		instances[a.ID] = a.Instance
	}
	for _, m := range members {
		works[m.Instance] = m.State == store.Running
	}
	for _, lane := range tl.Lanes {
		for _, b := range lane.Bars {
			if b.Step.IsZero() {
				continue
			}
			who := lane.Name
			if who != b.Role {
				who += "/" + b.Role
			}
			if by := instances[b.Attempt]; b.Said != "" && !works[by] {
				came[by] = b.Said
			}
			steps = append(steps, doneStep{who, cmp.Or(b.Said, b.Outcome), b.State == view.DisplayFailed, b.To - b.From, b.To})
		}
	}
	slices.SortStableFunc(steps, func(a, b doneStep) int { return cmp.Compare(a.at, b.at) })
	return steps[max(len(steps)-shownSteps, 0):], came
}

// stepLines renders steps on lines of n columns.
func stepLines(steps []doneStep, n int) []string {
	names := 0
	for _, s := range steps {
		names = max(names, ansi.StringWidth(s.who))
	}
	names = min(names, n/4)
	out := []string{"", bold.Render("STEPS")}
	for _, s := range steps {
		state := view.DisplayDone
		if s.failed {
			state = view.DisplayFailed
		}
		took := elapsed(s.took)
		room := n - names - len(took) - 7
		out = append(out, "  "+mark(state)+" "+pad(text.OneLine(s.who, names), names)+"  "+pad(line(s.said, room), room)+" "+
			dim.Render(took))
	}
	return out
}
