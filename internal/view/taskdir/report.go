package taskdir

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// Places where the results of a planned task are drawn.
const (
	reportsDir   = "shared/reports"
	contractsDir = "shared/contracts"
	decisionsDir = "shared/decisions"
)

// reports is the state of drawing plans and reports.
type reports struct {
	stale bool                // an event may have changed them
	said  map[string]dag.Hash // what was drawn, by file
}

// add records an event of the task.
func (p *reports) add(ev store.Event) {
	switch event.Read(ev).(type) {
	case event.AttemptCompleted, event.AttemptFailed, event.ThreadForked, event.ThreadJoined, event.ThreadEnded,
		event.EvidenceAdded:
		p.stale = true
	}
}

// draw draws plans, contracts, summaries of actions, and reports of planners. It uses the record only, so it draws the
// same each time.
func (p *reports) draw(ctx context.Context, d drawing, evidence func() []Entry) error {
	r := d.record
	if !d.all && !p.stale || len(r.Rounds)+len(r.Ends) == 0 {
		return nil
	}
	if d.all || p.said == nil {
		p.said = make(map[string]dag.Hash)
	}
	var errs error
	own := func(dir, name, place, ext string, data []byte, err error) {
		name, sum := file(dir, name, place, ext), dag.Sum(data)
		if err == nil && p.said[name] != sum {
			err = drawOwn(d.root, name, data)
		}
		if err != nil {
			errs = errors.Join(errs, err)
			return
		}
		p.said[name] = sum
	}
	draw := func(dir, name, place, template string, values any) {
		data, err := page(template, values)
		own(dir, name, place, ".md", data, err)
	}
	m := material{d.nodes, r, make(map[string]Entry)}
	for _, e := range evidence() {
		if e.Broken == "" {
			m.entries[e.ID] = e
		}
	}
	newest := make(map[string]int) // joined round of a thread
	for _, at := range r.Rounds {
		if at.Join != nil {
			newest[at.Thread] = at.N
		}
	}
	for _, at := range r.Rounds {
		place := placeOf(r.Root.ID, at.Thread, at.Label)
		v := plan{at, r.Root.ID, m.qualify(at.Plan.SessionGoal, at.By)}
		draw(decisionsDir, fmt.Sprintf("plan-%d", at.N), place, "plan.md", v)
		for _, a := range at.Plan.Actions {
			brief := m.qualify(at.Plan.Brief(a.ID), at.By)
			draw(contractsDir, a.ID, place, "contract.md", contract{v, a, brief})
		}
		if at.Join == nil {
			continue
		}
		name := "joined-summary"
		if at.N != newest[at.Thread] {
			name = fmt.Sprintf("joined-summary-%d", at.N)
		}
		s, err := m.summary(ctx, at)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		data, err := pretty(s)
		own(reportsDir, name, place, ".json", data, err)
		draw(reportsDir, name, place, "summary.md", s)
	}
	for _, f := range r.Ends {
		f.Report = m.qualify(f.Report, f.By)
		draw(reportsDir, "report", placeOf(r.Root.ID, f.Thread, f.Label), "report.md",
			report{f, r.Root.ID, m.cited(f.Report)})
	}
	p.stale = errs != nil
	return errs
}

// A plan is a file in shared/decisions.
type plan struct {
	view.Round
	Task string
	Goal string
}

// A contract is what an action was asked to do.
type contract struct {
	plan
	Action flow.Action
	Brief  string
}

// A report is a planner's own.
type report struct {
	view.Finish
	Task     string
	Evidence []Cited
}

// placeOf returns a name for a thread that is unique in the task and safe in a file name:
// lower-case letters, digits and dashes.
func placeOf(task, id, label string) string {
	if id == task {
		return ""
	}
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text.Shorten(label, 80))
	if slug = strings.Trim(slug, "-"); slug != "" {
		slug += "-"
	}
	return slug + strings.ToLower(id[max(len(id)-8, 0):])
}

// file returns the name of a drawn file about a thread.
func file(dir, name, place, ext string) string {
	if place != "" {
		name += "." + place
	}
	return dir + "/" + name + ext
}
