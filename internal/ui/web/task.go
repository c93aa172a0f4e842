package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// tabs are the tabs of a task's page.
var tabs = []string{"overview", "reports", "sessions", "evidence", "events"}

// shownEvents limits the events on a task's page.
const shownEvents = 200

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
	Fork   string // the step that a fork continues from, "" for none
	Inside string // the path that it is a fork of
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
	Strip   strip
	Chosen  *selection
}

// A runningAgent is a running agent.
type runningAgent struct {
	Name, Link, Since, Text string
	Asks                    bool
}

func (s *Server) taskPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	row, err := s.taskRow(r)
	if err != nil {
		return err
	}
	rec, err := s.views.TaskRecord(ctx, row.ID, !row.Ended() && s.views.Driven(ctx, row.ID))
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
	if err := s.fillHead(ctx, &body, row, now); err != nil {
		return err
	}
	if err := s.fillTab(ctx, &body, row, r.URL.Query().Get("at")); err != nil {
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
func (s *Server) fillHead(ctx context.Context, body *taskBody, row store.Thread, now time.Time) error {
	if row.Steps > 0 {
		body.Fork = row.Head.String()
	}
	if row.Path != nil {
		body.Inside = row.Path.ID
	}
	b, err := s.cfg.Control.Reader().Bundle(ctx, row.Bundle)
	if err != nil {
		return err
	}
	if body.Driven {
		body.InTurn, _ = s.cfg.Control.InTurn(ctx, *b, cmp.Or(row.Tree, row.Workspace))
	}
	if body.Prompt, err = s.views.ThreadPrompt(ctx, row); err != nil {
		return err
	}
	allowed, err := s.views.Allowances(ctx, row, now)
	if err != nil {
		return err
	}
	if a := allowed.Tokens; a.Max > 0 {
		left := text.Number(max(0, a.Max-a.Used))
		body.Left = append(body.Left, fmt.Sprintf("%s of %s tokens left", left, text.Number(a.Max)))
	}
	if a := allowed.Cost; a.Max > 0 {
		body.Left = append(body.Left, fmt.Sprintf("%s of %s left", text.Dollars(max(0, a.Max-a.Used)), text.Dollars(a.Max)))
	}
	if a := allowed.Time; a.Max > 0 {
		body.Left = append(body.Left, fmt.Sprintf("%s of %s of work left", text.Took(max(0, a.Max-a.Used)), text.Took(a.Max)))
	}
	return nil
}

// fillTab reads the content of a tab. at is the selected item of the timeline.
func (s *Server) fillTab(ctx context.Context, body *taskBody, row store.Thread, at string) error {
	dir := taskdir.At(row.Workspace, row.ID)
	body.Dir = dir.Path()
	var err error
	switch body.Tab {
	case "overview":
		return s.fillOverview(ctx, body, row, at)
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

func (s *Server) fillOverview(ctx context.Context, body *taskBody, row store.Thread, at string) error {
	tl, err := s.views.Timeline(ctx, row, time.Now())
	if err != nil {
		return err
	}
	if body.Over {
		if body.Result, err = s.result(ctx, row); err != nil {
			return err
		}
	}
	if !body.Driven {
		if body.Changes, err = s.changes(ctx, row, tl); err != nil {
			return err
		}
		if !body.Over && len(body.Changes.Files)+len(body.Changes.Apart)+len(body.Changes.Kept) == 0 {
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
		if body.Chosen, err = s.selectItem(ctx, row, at); err != nil {
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

// An output is the output of a step or a task, formatted for display.
type output struct {
	Prose  template.HTML
	Fields []outputField
	Plan   *planCard
	Raw    string // what could not be formatted
	Cut    bool
}

// maxSaid limits the text of a result or a step, in bytes.
const maxSaid = 256 << 10

// newOutput formats the text and the fields of a step. by is the instance that made it; plain says that the text is
// not Markdown. Unless whole is set, the text is shortened.
func newOutput(text string, meta []byte, task, by string, plain, whole bool) (*output, error) {
	o := &output{Fields: outputFields(meta, "$status", view.FormatField)}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		trimmed = strings.TrimSpace(string(meta))
	}
	if o.Plan = parsePlan(trimmed); o.Plan != nil {
		o.Fields = nil
		return o, nil
	}
	if set := pretty(trimmed); set == pretty(string(meta)) {
		if len(o.Fields) == 0 && len(outputFields(meta)) == 0 && len(meta) > 2 {
			o.Raw = pretty(string(meta))
		}
		return o, nil
	}
	if o.Cut = !whole && len(text) > maxSaid; o.Cut {
		text = strings.ToValidUTF8(text[:maxSaid], "")
	}
	if fields := outputFields([]byte(trimmed), "$status"); len(fields) > 0 {
		o.Fields = fields
		return o, nil
	}
	var err error
	o.Prose, err = utterance(text, task, by, plain)
	return o, err
}

// A planCard is a planner's output, formatted for display.
type planCard struct {
	SessionGoal string
	Actions     []struct {
		ID, Title, Prompt, Access, Agent string
		DependsOn                        []string
	}
}

// parsePlan parses a plan. It returns nil if the text is not one.
func parsePlan(text string) *planCard {
	var p planCard
	if len(text) > maxPretty || !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &p) != nil {
		return nil
	}
	if len(p.Actions) == 0 || p.Actions[0].ID == "" {
		return nil
	}
	return &p
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
func (s *Server) exportTask(w http.ResponseWriter, r *http.Request) error {
	row, err := s.taskRow(r)
	if err != nil {
		return err
	}
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

// callName returns the short id of a task, or the full id if there is none.
func callName(row store.Thread) string {
	if row.Short != "" {
		return row.Short
	}
	return row.ID
}
