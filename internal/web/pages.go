package web

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// states are those that tasks are listed by; "" for all.
var states = []string{"", view.Working, view.InputRequired, view.Completed, view.Failed, view.Canceled}

// shownTasks is how many tasks a page has.
const shownTasks = 100

func (s *Server) tasksPage(w http.ResponseWriter, r *http.Request) error {
	f, err := taskFilter(r)
	if err != nil {
		return err
	}
	body := struct {
		State, Query, After string
		States              []string
		All                 bool
		List                listed
		Next                template.URL // of the page after this one
	}{State: f.State, Query: f.Title, After: f.After, States: states, All: f.All, List: listed{Now: time.Now()}}
	f.Limit = shownTasks + 1
	if body.List.Tasks, err = s.views.Tasks(r.Context(), f); err != nil {
		return err
	}
	if len(body.List.Tasks) > shownTasks {
		body.List.Tasks = body.List.Tasks[:shownTasks]
		q := url.Values{"after": {body.List.Tasks[shownTasks-1].ID}}
		for name, v := range map[string]string{"state": f.State, "q": f.Title} {
			if v != "" {
				q.Set(name, v)
			}
		}
		if f.All {
			q.Set("all", "true")
		}
		body.Next = template.URL("/tasks?" + q.Encode())
	}
	return s.show(w, r, http.StatusOK, "tasks", page{Title: "Tasks", Nav: "tasks", Search: f.Title, Types: moves,
		Body: body})
}

// tabs are the parts of a task's page.
var tabs = []string{"overview", "graph", "threads", "reports", "sessions", "evidence", "events"}

// shownEvents is how many of a task's events its page has.
const shownEvents = 200

// A taskBody is the page of a task, with what its tab shows.
type taskBody struct {
	Task         *view.Task
	Tabs         []string
	Tab          string
	Gates        []asked
	Over, Driven bool
	Ours         bool   // this server is at work
	Said         string // what went wrong when this server drove it
	Doing        map[string]string
	Report       string
	Prompt       string
	Graph        drawing
	Evidence     proofs
	Events       []store.Event
	Dir          string
	Map          []branch
	More         int // threads that are not in Map
	Documents    documents
	Sessions     []session
}

func (s *Server) taskPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	row, err := s.taskRow(r)
	if err != nil {
		return err
	}
	v, err := s.views.Task(ctx, row)
	if err != nil {
		return err
	}
	var body taskBody
	body.Task, body.Tabs, body.Tab = &v, tabs, r.URL.Query().Get("tab")
	if body.Tab == "" {
		body.Tab = tabs[0]
	}
	if !slices.Contains(tabs, body.Tab) {
		return badRequest("a task's page has no part %q", body.Tab)
	}
	body.Over, body.Driven, body.Ours = row.Ended(), s.views.Driven(ctx, row.ID), s.work.drives(row.ID)
	body.Said = s.work.said(row.ID)
	if body.Gates, err = s.asks(ctx, row.ID, v.Title); err != nil {
		return err
	}
	if err := s.fillTab(ctx, &body, row); err != nil {
		return err
	}
	p := page{Title: line(60, v.Title), Nav: "tasks", Follow: row.ID, Types: moves, Body: body}
	if body.Tab == "overview" || body.Tab == "events" {
		p.Types = follows // they show what agents do meanwhile
	}
	p.Crumbs = []crumb{{"Tasks", "/tasks"}, {p.Title, ""}}
	return s.show(w, r, http.StatusOK, "task", p)
}

// fillTab reads what the tab of a task's page shows.
func (s *Server) fillTab(ctx context.Context, body *taskBody, row store.Thread) error {
	dir := task.At(row.Workspace, row.ID)
	body.Dir = dir.Path()
	var err error
	switch body.Tab {
	case "overview":
		if body.Prompt, err = s.views.ThreadPrompt(ctx, row); err != nil {
			return err
		}
		if body.Doing, err = s.doing(ctx, row.ID); err != nil {
			return err
		}
		if body.Report, err = s.report(ctx, row); err != nil {
			return err
		}
	case "graph":
		if body.Graph, err = s.taskDrawing(ctx, row); err != nil {
			return err
		}
	case "threads":
		if body.Map, body.More, err = s.branches(ctx, row); err != nil {
			return err
		}
	case "evidence":
		list, err := s.cfg.Dirs.Evidence(ctx, row.ID)
		if err != nil {
			return err
		}
		if body.Evidence, err = s.proved(ctx, list, row.Workspace); err != nil {
			return err
		}
	case "events":
		if body.Events, err = s.newest(ctx, store.EventFilter{Task: row.ID}); err != nil {
			return err
		}
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

// report is what a task came to: the text of its last routed step.
func (s *Server) report(ctx context.Context, row store.Thread) (string, error) {
	if !row.Ended() {
		return "", nil
	}
	for st, err := range s.cfg.Reader.Walk(ctx, row.Head) {
		if err != nil {
			return "", err
		}
		if thread.Routed(st.State.Role) {
			return s.cfg.Reader.Text(ctx, st.State.Content)
		}
	}
	return "", nil
}

// A doneItem is one thing that an agent did, as a step's page shows it.
type doneItem struct {
	agent.Event
	N    int
	Long bool
}

func (s *Server) stepPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	h, err := hash(r)
	if err != nil {
		return err
	}
	v, err := s.views.Step(ctx, h, false)
	if err != nil {
		return err
	}
	body := struct {
		V      *view.WholeStep
		Thread string // that a fork goes on from, "" when none is known
		Task   string
		By     string // the instance that made it
		Status string
		Prompt *view.Prompt
		Items  []doneItem
		Untold int // that came before Items
	}{V: v, Status: view.Outcome(v.Role, v.Meta)}
	if v.Detail != nil && !v.Detail.Prompt.IsZero() {
		if body.Prompt, err = s.views.Prompt(ctx, h, h.String()); err != nil {
			return err
		}
		items, err := s.views.Attempted(ctx, v.Detail.Attempt)
		if err != nil {
			return err
		}
		body.Items = doneItems(items)
		body.Untold = max(0, len(body.Items)-shownDone)
		body.Items = body.Items[body.Untold:]
	}
	var row store.Thread
	if id := r.URL.Query().Get("thread"); id != "" {
		if id, err = thread.ParseID(id); err != nil {
			return badRequest("%v", err)
		}
		row, err = s.cfg.Store.Thread(ctx, id)
	} else {
		row, err = s.views.ThreadOf(ctx, h)
	}
	if err != nil {
		return err
	}
	p := page{Title: v.Role, Nav: "tasks", Follow: "-"}
	body.Thread, body.Task, body.By = row.ID, row.Task, speaker(row)
	if row.ID != "" {
		if p.Crumbs, err = s.way(ctx, row); err != nil {
			return err
		}
		p.Crumbs[len(p.Crumbs)-1].Link = stepLink(row.ID, v.N)
		p.Crumbs = append(p.Crumbs, crumb{"step " + strconv.Itoa(v.N), ""})
	}
	p.Body = body
	return s.show(w, r, http.StatusOK, "step", p)
}

// shownDone is how much of what an agent did in a step its page has: what it did last.
const shownDone = 500

// doneItems sets out what an agent did, but for what it only began.
func doneItems(items []agent.Event) []doneItem {
	var out []doneItem
	for _, it := range items {
		if it.Phase != "started" && it.Phase != "updated" && it.Kind != agent.EventUsage {
			out = append(out, doneItem{it, len(out), len(it.Text)+len(it.Output) > 2000})
		}
	}
	return out
}
