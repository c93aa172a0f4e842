package web

import (
	"html/template"
	"net/http"
	"net/url"
	"time"

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
