package web

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// displays are the display states, in the order in which the filter lists them.
var displays = []view.DisplayState{view.DisplayNeedsYou, view.DisplayRunning, view.DisplayQueued, view.DisplayDone,
	view.DisplayFailed, view.DisplayCancelled}

// states are the older state names, which requests may still use.
var states = []string{"", view.Created, view.Working, view.InputRequired, view.Completed, view.Failed, view.Canceled}

// Sizes of a page of tasks.
const (
	shownTasks = 100
	maxTasks   = 1000
)

// taskTable is a table of tasks.
type taskTable struct {
	Tasks []view.TaskRow
	Now   time.Time
}

// taskFilter reads the filter of a request.
func taskFilter(r *http.Request) (f view.TaskFilter, err error) {
	q := r.URL.Query()
	f = view.TaskFilter{Title: q.Get("q"), Flow: q.Get("flow")}
	state := q.Get("state")
	switch {
	case slices.Contains(displays, view.DisplayState(state)):
		f.Word = state
	case slices.Contains(states, state):
		f.State = state
	default:
		return f, badRequest("invalid state %q: use needs you, running, queued, done, failed or cancelled", state)
	}
	if f.After = cmp.Or(q.Get("before"), q.Get("after")); f.After != "" {
		if f.After, err = thread.ParseID(f.After); err != nil {
			return f, badRequest("%v", err)
		}
	}
	if f.Limit, err = number(r, "limit", shownTasks, 1, maxTasks); err != nil {
		return f, err
	}
	if f.Limit, err = number(r, "n", f.Limit, 1, maxTasks); err != nil {
		return f, err
	}
	f.All, err = boolParam(r, "all")
	return f, err
}

// pageOfTasks reads one page of a list. next is the id after which the next page begins, "" for none.
func (s *Server) pageOfTasks(ctx context.Context, f view.TaskFilter) (rows []view.TaskRow, next string, err error) {
	n := f.Limit
	f.Limit++
	if rows, err = s.views.Tasks(ctx, f); err == nil && len(rows) > n {
		rows = rows[:n]
		next = rows[n-1].ID
	}
	return rows, next, err
}

// A choice is one of several views of a list.
type choice struct {
	Text, Link string
	Here       bool
}

func (s *Server) tasksPage(w http.ResponseWriter, r *http.Request) error {
	f, err := taskFilter(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	link := func(set ...string) string {
		to := url.Values{}
		for _, name := range []string{"state", "flow", "q", "all", "n"} {
			if v := q.Get(name); v != "" {
				to.Set(name, v)
			}
		}
		for i := 0; i < len(set); i += 2 {
			to.Set(set[i], set[i+1])
			if set[i+1] == "" {
				to.Del(set[i])
			}
		}
		if len(to) == 0 {
			return "/tasks"
		}
		return "/tasks?" + to.Encode()
	}
	body := struct {
		State, Flow, Query, Newest string
		All, Filtered, First       bool
		States                     []choice
		Flows                      []string
		Everywhere                 string // URL of the tasks of all workspaces, or back
		List                       taskTable
		Next                       template.URL // URL of the next page
	}{State: q.Get("state"), Flow: f.Flow, Query: f.Title, All: f.All, List: taskTable{Now: time.Now()}}
	if f.After != "" {
		body.Newest = link()
	}
	body.Filtered = body.State != "" || f.Flow != "" || f.Title != ""
	body.States = []choice{{"all", link("state", ""), body.State == ""}}
	for _, d := range displays {
		body.States = append(body.States, choice{string(d), link("state", string(d)), f.Word == string(d)})
	}
	body.Everywhere = link("all", "true")
	if f.All {
		body.Everywhere = link("all", "")
	}
	var next string
	if body.List.Tasks, next, err = s.pageOfTasks(r.Context(), f); err != nil {
		return err
	}
	if next != "" {
		body.Next = template.URL(link("before", next))
	}
	known, err := s.knownFlows(r.Context())
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, l := range known {
		names[l.Name] = true
	}
	for _, t := range body.List.Tasks {
		names[t.Flow] = true
	}
	if f.Flow != "" {
		names[f.Flow] = true
	}
	body.Flows = slices.Sorted(maps.Keys(names))
	return s.show(w, r, http.StatusOK, "tasks", page{Title: "Tasks", Nav: "tasks", Search: f.Title, Types: stateEvents,
		Body: body})
}
