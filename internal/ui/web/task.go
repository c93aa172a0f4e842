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

// tabs are the tabs of a task's page.
var tabs = []string{"overview", "reports", "sessions", "evidence", "events"}

// A taskBody is the page of a task with its current tab.
type taskBody struct {
	Task         *view.Task
	Bundle       string
	Tabs         []string
	Tab          string
	Gates        []gateCard
	Over, Driven bool
	Ours         bool     // this server drives it
	Said         string   // why this server stopped driving it
	InTurn       string   // why agents that change files run one at a time, "" if they do not
	Left         []string // what remains of its limits
	Prompt       string
	lasting
	forking
	overview
	Evidence  proofs
	Events    []eventLine // newest first
	Dir       string
	Documents documents
	Sessions  []session
}

// A forking says how a task is forked.
type forking struct {
	Retries bool   // it failed or was cancelled, so it can be retried
	Fork    string // the step that a fork continues from, "" for none
	Inside  string // the path that it is a fork of
}

// A lasting is how long a task took.
type lasting struct {
	Elapsed string
	Work    string // of that, while agents worked
}

// An overview is the content of the first tab.
type overview struct {
	Result  *output
	Changes *changes
	Running []runningAgent
	Strip   timelineSVG
	Chosen  *selection
}

// A runningAgent is a running agent.
type runningAgent struct {
	Name, Link, Since, Text string
	Asks                    bool
}

func (s *Server) taskPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	ctx := r.Context()
	rec, err := s.views.Record(ctx, row)
	if err != nil {
		return err
	}
	v, now := rec.Task(), time.Now()
	var body taskBody
	body.Task, body.Tabs, body.Tab, body.Bundle = &v, tabs, r.URL.Query().Get("tab"), row.Bundle.String()
	if body.Tab == "" {
		body.Tab = tabs[0]
	}
	if !slices.Contains(tabs, body.Tab) {
		return badRequest("a task's page has no part %q", body.Tab)
	}
	body.Over, body.Driven, body.Ours = row.Ended(), s.views.Driven(ctx, row.ID), s.work.drives(row.ID)
	took := rec.Times(now)
	body.Elapsed, body.Work = text.Took(took.Elapsed), text.Took(took.Work)
	body.Said = s.stopped(row.ID)
	if body.Gates, err = s.openQuestions(ctx, row.ID); err != nil {
		return err
	}
	if err := s.fillHead(ctx, &body, rec, now); err != nil {
		return err
	}
	if err := s.fillTab(ctx, &body, rec, r.URL.Query().Get("at")); err != nil {
		return err
	}
	p := page{Title: line(60, v.Title), Nav: "tasks", Follow: row.ID, Types: stateEvents, Body: body}
	if body.Tab == "overview" || body.Tab == "events" {
		p.Types = allEvents // these tabs show agents' activity
	}
	p.Crumbs = []crumb{{"Tasks", "/tasks"}, {p.Title, ""}}
	return s.show(w, r, http.StatusOK, "task", p)
}

// fillHead reads the top of a task's page, the same for all tabs.
func (s *Server) fillHead(ctx context.Context, body *taskBody, rec view.TaskRecord, now time.Time) error {
	row := rec.Root
	body.Retries = row.Status == store.Failed || row.Status == store.Cancelled
	if row.Steps > 0 {
		body.Fork = row.Head.String()
	}
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

// fillTab reads the content of a tab. at is the selected item of the timeline.
func (s *Server) fillTab(ctx context.Context, body *taskBody, rec view.TaskRecord, at string) error {
	row := rec.Root
	dir := taskdir.At(row.Workspace, row.ID)
	body.Dir = dir.Path()
	var err error
	switch body.Tab {
	case "overview":
		return s.fillOverview(ctx, body, rec, at)
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
		if body.Sessions, err = listSessions(dir, "/tasks/"+row.ID); err != nil {
			return err
		}
	case "reports":
		if body.Documents, err = listDocuments(dir, "/tasks/"+row.ID); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) fillOverview(ctx context.Context, body *taskBody, rec view.TaskRecord, at string) error {
	tl, err := s.views.Timeline(ctx, rec, time.Now())
	if err != nil {
		return err
	}
	if body.Over {
		if body.Result, err = s.result(ctx, rec.Root); err != nil {
			return err
		}
	}
	if !body.Driven {
		if body.Changes, err = s.changes(ctx, rec, tl); err != nil {
			return err
		}
		if !body.Over && body.Changes.Diff == nil && len(body.Changes.Apart)+len(body.Changes.Kept) == 0 {
			body.Changes = nil // in an unfinished task, no changes mean nothing yet
		}
	}
	if body.Running, err = s.running(ctx, tl); err != nil {
		return err
	}
	if at == "" {
		at = defaultSelection(tl)
	}
	if at != "" {
		if body.Chosen, err = s.selectItem(ctx, rec, body.Driven, at); err != nil {
			return err
		}
	}
	titles := map[string]string{}
	for _, m := range body.Task.Roster {
		titles[m.Thread] = m.Title
	}
	body.Strip = drawTimeline(tl, titles, at)
	return nil
}

// running returns the running agents.
func (s *Server) running(ctx context.Context, tl view.Timeline) ([]runningAgent, error) {
	if !tl.Live {
		return nil, nil
	}
	said, err := s.doing(ctx, tl.Task)
	if err != nil {
		return nil, err
	}
	var out []runningAgent
	for _, l := range tl.Lanes {
		for _, b := range l.Bars {
			if b.Status == store.AttemptRunning {
				link := "/tasks/" + tl.Task + "?at=" + b.Attempt + "#chosen"
				out = append(out, runningAgent{l.Name, link, text.Took(b.To - b.From), said[l.Instance], waits(b)})
			}
		}
	}
	return out, nil
}

// defaultSelection returns the default selection in a timeline: the first running attempt, or the last one to end.
func defaultSelection(tl view.Timeline) string {
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
