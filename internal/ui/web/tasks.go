package web

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	Columns []taskColumn
	Groups  []taskGroup
	Here    string // the address, to which its form returns
	Sorted  bool   // not by age
	Now     time.Time
}

// A taskGroup is the tasks of one day, or all of them.
type taskGroup struct {
	Day   string
	Tasks []view.TaskRow
}

// A taskColumn is the head of a column.
type taskColumn struct {
	Text, Link, Class string
	Sorted            string // for aria-sort
}

// taskOrders are the orders of a page of tasks; with a minus in front it is the other way round.
var taskOrders = map[string]func(a, b view.TaskRow) int{
	"state": func(a, b view.TaskRow) int {
		return place(displays, a.Display.State) - place(displays, b.Display.State)
	},
	"title":  func(a, b view.TaskRow) int { return cmp.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title)) },
	"flow":   func(a, b view.TaskRow) int { return cmp.Compare(a.Flow, b.Flow) },
	"agents": func(a, b view.TaskRow) int { return b.Agents - a.Agents },
	"cost": func(a, b view.TaskRow) int {
		return cmp.Or(cmp.Compare(b.Usage.CostMicroUSD, a.Usage.CostMicroUSD), cmp.Compare(b.Usage.Tokens(), a.Usage.Tokens()))
	},
	"began": func(a, b view.TaskRow) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) },
}

func place[T comparable](list []T, one T) int { return slices.Index(list, one) }

// newTaskTable sorts one page of tasks. link returns the address of another order.
func newTaskTable(rows []view.TaskRow, sort string, now time.Time, link func(sort string) string) taskTable {
	by, back := strings.CutPrefix(sort, "-")
	t := taskTable{Now: now, Sorted: by != "began"}
	slices.SortStableFunc(rows, func(a, b view.TaskRow) int {
		if back {
			a, b = b, a
		}
		return taskOrders[by](a, b)
	})
	for _, c := range []taskColumn{{Text: "State"}, {Text: "Task", Link: "title"}, {Text: "Flow"},
		{Text: "Agents", Class: "n"}, {Text: "Cost", Class: "n"}, {Text: "Began", Class: "n"}} {
		name := cmp.Or(c.Link, strings.ToLower(c.Text))
		if c.Link = link(name); name == by {
			c.Sorted = "ascending"
			if back != slices.Contains([]string{"agents", "cost", "began"}, by) { // the most and the newest come first
				c.Sorted = "descending"
			}
			if !back {
				c.Link = link("-" + name)
			}
		}
		t.Columns = append(t.Columns, c)
	}
	for _, row := range rows {
		day := ""
		if !t.Sorted {
			day = dayOf(time.UnixMilli(int64(row.CreatedAt)), now)
		}
		if n := len(t.Groups); n == 0 || t.Groups[n-1].Day != day {
			t.Groups = append(t.Groups, taskGroup{Day: day})
		}
		last := &t.Groups[len(t.Groups)-1]
		last.Tasks = append(last.Tasks, row)
	}
	return t
}

// dayOf returns what people call the day of a time.
func dayOf(at, now time.Time) string {
	const day = "2006-01-02"
	switch at.Format(day) {
	case now.Format(day):
		return "Today"
	case now.AddDate(0, 0, -1).Format(day):
		return "Yesterday"
	}
	if at.Year() != now.Year() {
		return at.Format("Monday, January 2, 2006")
	}
	return at.Format("Monday, January 2")
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
	sort := cmp.Or(q.Get("sort"), "began")
	if taskOrders[strings.TrimPrefix(sort, "-")] == nil {
		return badRequest("sort: use state, title, flow, agents, cost or began, with - in front for the other way round")
	}
	link := func(set ...string) string {
		to := url.Values{}
		for _, name := range []string{"state", "flow", "q", "all", "n", "sort"} {
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
		State, Flow, Query, Newest, Sort string
		All, Filtered, First             bool
		States                           []choice
		Flows                            []string
		Everywhere                       string // URL of the tasks of all workspaces, or back
		List                             taskTable
		Next                             template.URL // URL of the next page
	}{State: q.Get("state"), Sort: q.Get("sort"), Flow: f.Flow, Query: f.Title, All: f.All}
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
	rows, next, err := s.pageOfTasks(r.Context(), f)
	if err != nil {
		return err
	}
	if next != "" {
		body.Next = template.URL(link("before", next))
	}
	body.List = newTaskTable(rows, sort, time.Now(), func(sort string) string {
		if sort == "began" {
			sort = ""
		}
		return link("sort", sort)
	})
	body.List.Here = r.URL.RequestURI()
	if body.Flows, err = s.flowsOf(r.Context(), rows, f.Flow); err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "tasks", page{Title: "Tasks", Nav: "tasks", Types: stateEvents,
		Body: body})
}

// flowsOf returns the names of flows that tasks can be filtered by: those that can be run, those of rows, and chosen.
func (s *Server) flowsOf(ctx context.Context, rows []view.TaskRow, chosen string) ([]string, error) {
	known, err := s.knownFlows(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, l := range known {
		names[l.Name] = true
	}
	for _, t := range rows {
		names[t.Flow] = true
	}
	if chosen != "" {
		names[chosen] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}
