package web

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// tabs are the parts of a task beside its timeline, those of its menu last; stepTabs are those of a chosen step.
var (
	tabs     = []string{"overview", "changes", "prompt", "evidence", "reports", "sessions", "events"}
	stepTabs = []string{"changes", "log", "prompt", "output", "evidence"}
)

// tabWords are the names of tabs that are not called as in the address.
var tabWords = map[string]string{"overview": "result", "reports": "files", "sessions": "agents"}

// shownTabs is how many of the tabs of a task are always shown; its menu has the others.
const shownTabs = 4

// A taskBody is the page of a task: its head, its questions, its timeline, and beside it a tab of the task or of
// what is chosen.
type taskBody struct {
	Task         *view.Task
	Bundle       string
	Gates        []gateCard
	Over, Driven bool
	Ours         bool     // this server drives it
	Said         string   // why this server stopped driving it
	InTurn       string   // why agents that change files run one at a time, "" if they do not
	Left         []string // what remains of its limits
	Prompt       string
	lasting
	forking
	progress
	Changes *changes // nil if they are not known yet
	Strip   timelineSVG
	Chosen  *selection // nil for a tab of the task
	Gate    *gateCard  // it is chosen, and open
	tabContent
}

// A tabContent is the tabs, and what one of a task shows.
type tabContent struct {
	Here      address
	Tabs      []tabLink
	Tab       string
	Result    *output
	Evidence  proofs
	Events    []eventLine // newest first
	Dir       string
	Documents documents
	Sessions  []session
}

// A tabLink is a link to a tab.
type tabLink struct {
	Text, Link string
	N          int // of what it has, 0 if that is not said
	Changes    *diffView
	Current    bool
}

// Asks reports whether words for the task would be the answer to a question of it.
func (b taskBody) Asks() bool {
	return slices.ContainsFunc(b.Gates, func(g gateCard) bool { return g.G.Kind == store.GateInput })
}

// A progress is how many of a task's actions, or of its paths and calls, are done.
type progress struct {
	Done, Total int
	Of          string
}

// newProgress counts milestones: the actions if there are any.
func newProgress(list []view.Milestone) progress {
	p := progress{Of: "actions"}
	if !slices.ContainsFunc(list, func(m view.Milestone) bool { return m.Action }) {
		p.Of = "parts"
	}
	for _, m := range list {
		if m.Action == (p.Of == "actions") {
			p.Total++
			if m.State == view.MilestoneDone {
				p.Done++
			}
		}
	}
	return p
}

// A forking says what can be done with a task that has stopped, and how it is forked.
type forking struct {
	Publishes bool   // its changes can be committed, and a pull request opened
	Retries   bool   // it can be retried: it has failed, is cancelled, or is blocked by a failure
	Dismisses bool   // nobody need be told any more that it has stopped
	Fork      string // the step that a fork continues from, "" for none
	Inside    string // the path that it is a fork of
}

// A lasting is how long a task took.
type lasting struct {
	Elapsed string
	Work    string // of that, while agents worked
}

func (s *Server) taskPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	ctx, q := r.Context(), r.URL.Query()
	rec, err := s.views.Record(ctx, row)
	if err != nil {
		return err
	}
	v, now := rec.Task(), time.Now()
	var body taskBody
	body.Task, body.Bundle = &v, row.Bundle.String()
	body.Over, body.Driven, body.Ours = row.Ended(), s.views.Driven(ctx, row.ID), s.work.drives(row.ID)
	took := rec.Times(now)
	body.Elapsed, body.Work = text.Took(took.Elapsed), text.Took(took.Work)
	body.Said, body.progress = s.stopped(row.ID), newProgress(v.Milestones)
	if body.Gates, err = s.openQuestions(ctx, row.ID); err != nil {
		return err
	}
	if err := s.fillHead(ctx, &body, rec, now); err != nil {
		return err
	}
	body.Here = address{row.ID, q.Get("at"), q.Get("tab"), q.Get("state")}
	if err := s.fillBody(ctx, &body, rec); err != nil {
		return err
	}
	p := page{Title: line(60, v.Title), Nav: "tasks", Follow: row.ID, Types: allEvents, Body: body}
	return s.show(w, r, http.StatusOK, "task", p)
}

// fillHead reads the top of a task's page.
func (s *Server) fillHead(ctx context.Context, body *taskBody, rec view.TaskRecord, now time.Time) error {
	row := rec.Root
	body.Dir = taskdir.At(row.Workspace, row.ID).Path()
	body.Retries = row.Status == store.Failed || row.Status == store.Cancelled ||
		!body.Driven && body.Task.Display.State == view.DisplayFailed
	body.Dismisses = !body.Task.Dismissed && len(body.Gates) == 0 && (row.Status == store.Failed ||
		!body.Driven && (row.Status == store.Blocked || body.Task.Status == view.Interrupted))
	if row.Steps > 0 {
		body.Fork = row.Head.String()
	}
	body.Publishes = s.cfg.Publish != nil && row.Status == store.Completed
	if row.Path != nil {
		body.Inside = row.Path.ID
	}
	if body.Driven {
		b, err := s.cfg.Reader.Bundle(ctx, row.Bundle)
		if err != nil {
			return err
		}
		body.InTurn, _ = s.cfg.Control.InTurn(ctx, *b, cmp.Or(row.Tree, row.Workspace))
	}
	body.Prompt = rec.Prompt
	allowed := rec.Allowances(now)
	left := func(a view.Allowance, format func(int64) string, of string) {
		if a.Max > 0 {
			body.Left = append(body.Left, fmt.Sprintf("%s of %s%s left", format(max(0, a.Max-a.Used)), format(a.Max), of))
		}
	}
	left(allowed.Tokens, text.Number, " tokens")
	left(allowed.Cost, text.Dollars, "")
	left(allowed.Time, text.Took, " of work")
	return nil
}

// fillBody reads the timeline, and what is beside it: the chosen item, or else a tab.
func (s *Server) fillBody(ctx context.Context, body *taskBody, rec view.TaskRecord) error {
	at, tab := body.Here.at, body.Here.tab
	tl, err := s.views.Timeline(ctx, rec, time.Now())
	if err != nil {
		return err
	}
	if at == "" && tab == "" && !body.Over {
		at = defaultSelection(tl, body.Gates)
	}
	if !body.Driven || tab == "changes" && at == "" {
		if body.Changes, err = s.changes(ctx, rec, tl); err != nil {
			return err
		}
	}
	switch {
	case at != "":
		err = s.fillChosen(ctx, body, rec, tl, at, tab)
	case tab != "" && !slices.Contains(tabs, tab):
		err = badRequest("a task's page has no part %q", tab)
	default:
		body.Tab = cmp.Or(tab, tabs[0])
		err = s.fillTab(ctx, body, rec)
	}
	if err != nil {
		return err
	}
	lanes := laneTexts{titles: map[string]string{}}
	for _, m := range body.Task.Roster {
		lanes.titles[m.Thread] = m.Title
	}
	if tl.Live {
		if lanes.doing, err = s.doing(ctx, tl.Task); err != nil {
			return err
		}
	}
	body.Strip, err = drawTimeline(tl, lanes, body.Here, at)
	return err
}

// fillChosen reads what is chosen, with its tab.
func (s *Server) fillChosen(ctx context.Context, body *taskBody, rec view.TaskRecord, tl view.Timeline,
	at, tab string) error {
	if tab != "" && !slices.Contains(stepTabs, tab) {
		return badRequest("what is chosen has no part %q", tab)
	}
	if i := slices.IndexFunc(body.Gates, func(g gateCard) bool { return g.G.ID == at }); i >= 0 {
		body.Gate = &body.Gates[i]
		if err := s.soFar(ctx, body.Gate, rec, tl); err != nil {
			return err
		}
	}
	c, err := s.selectItem(ctx, rec, tl, body.Driven, at)
	if err != nil {
		return err
	}
	c.Here = body.Here
	body.Chosen, body.Tab = c, cmp.Or(tab, c.tab())
	if c.Gate != nil {
		return nil
	}
	here := body.Here
	here.at = at
	for _, name := range stepTabs {
		here.tab = name
		link := tabLink{Text: name, Link: here.String(), Current: name == body.Tab}
		switch name {
		case "changes":
			link.Changes = c.Diff
		case "log":
			link.N = len(c.Items) + c.Omitted
		case "evidence":
			link.N = len(c.Evidence)
		}
		body.Tabs = append(body.Tabs, link)
	}
	return nil
}

// fillTab reads the content of a tab of the task.
func (s *Server) fillTab(ctx context.Context, body *taskBody, rec view.TaskRecord) error {
	row := rec.Root
	for i, name := range tabs {
		if i < shownTabs || name == body.Tab {
			link := tabLink{Text: cmp.Or(tabWords[name], name), Link: body.Here.Tab(name), Current: name == body.Tab}
			if name == "changes" && body.Changes != nil {
				link.Changes = body.Changes.Diff
			}
			body.Tabs = append(body.Tabs, link)
		}
	}
	dir := taskdir.At(row.Workspace, row.ID)
	var err error
	switch body.Tab {
	case "overview":
		if body.Over {
			body.Result, err = s.result(ctx, row)
		}
	case "evidence":
		list, err := s.cfg.Dirs.Evidence(ctx, row.ID)
		if err != nil {
			return err
		}
		trees := taskdir.NewTrees(s.cfg.Store, row)
		defer trees.Close()
		if body.Evidence, err = s.evidenceCards(ctx, list, trees); err != nil {
			return err
		}
	case "events":
		events, err := s.newest(ctx, store.EventFilter{Task: row.ID})
		if err != nil {
			return err
		}
		names := s.views.Names()
		slices.Reverse(events)
		body.Events = eventLines(events, *body.Task, func(text string) string { return names.In(ctx, text) })
		slices.Reverse(body.Events)
	case "sessions":
		body.Sessions, err = listSessions(dir, "/tasks/"+row.ID)
	case "reports":
		body.Documents, err = listDocuments(dir, "/tasks/"+row.ID)
	}
	return err
}

// defaultSelection returns what is chosen at first in a task that has not ended: the first approval that it waits for,
// else the first running attempt, or the last one to end.
func defaultSelection(tl view.Timeline, open []gateCard) string {
	for _, g := range open {
		if g.G.Kind == store.GateApproval {
			return g.G.ID
		}
	}
	best, at := "", int64(-1)
	for _, l := range tl.Lanes {
		for _, b := range l.Bars {
			key, t := b.Attempt, b.To
			if !b.Step.IsZero() {
				key = b.Step.String()
			}
			if b.Status == store.AttemptRunning && !b.Lost {
				t = tl.To + 1 - b.From + tl.From // of those running, the one that began first is selected
			}
			if t >= at {
				best, at = key, t
			}
		}
	}
	return best
}

// result returns the result of a task, formatted for display.
func (s *Server) result(ctx context.Context, row store.Thread) (*output, error) {
	r, err := s.views.Result(ctx, row)
	if err != nil || r.Text == "" && r.Step == nil {
		return nil, err
	}
	if r.Own {
		return newOutput(r.Text, []byte("{}"), row.Task, speaker(row), false, false)
	}
	text, plain, err := s.cfg.Reader.Shown(ctx, r.Step, view.Plain)
	if err != nil {
		return nil, err
	}
	return newOutput(text, r.Step.Meta, row.Task, speaker(row), plain, false)
}

// exportTask serves a task as a ZIP file, which it completes before it sends anything.
func (s *Server) exportTask(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	f, err := os.CreateTemp("", "plait-export-*")
	if err != nil {
		return fmt.Errorf("export task %s: %w", row.ID, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := taskdir.Export(r.Context(), s.cfg.Store, f, row.ID); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("export task %s: %w", row.ID, err)
	}
	return hand(w, "plait-"+callName(row)+".zip", size, f)
}
