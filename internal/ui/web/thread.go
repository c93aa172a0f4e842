package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// shownSteps limits the steps on a thread's page.
const shownSteps = 100

func (s *Server) threadPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	row, err := s.row(r)
	if err != nil {
		return err
	}
	v, err := s.views.About(ctx, row)
	if err != nil {
		return err
	}
	from, older, newer, err := window(r, row.Steps)
	if err != nil {
		return err
	}
	if v.Steps, err = s.views.Steps(ctx, row, from, shownSteps); err != nil {
		return err
	}
	body := struct {
		V            *view.Thread
		Name         string
		Count        int // steps of the thread
		Older, Newer int
		Whole        bool // every step is on the page, so their usage adds up to the thread's
		Took         string
		Display      view.Display
		Statuses     map[int]string
		Texts        map[int]said
		From         crumb  // what it was forked from
		By           string // the instance that makes its steps
		Ended        bool
		Said         string // why this server stopped working on the task
		Why          string // why it is blocked, has failed or was cancelled
	}{By: speaker(row), Ended: row.Ended(), Said: s.stopped(row.Root), V: v, Name: threadName(row), Count: row.Steps,
		Older: older, Newer: newer, Statuses: map[int]string{}, Texts: map[int]said{}}
	for _, st := range v.Steps {
		v.Usage = v.Usage.Add(st.Usage)
		body.Statuses[st.N] = view.Outcome(st.Role, st.Meta)
		if body.Texts[st.N], err = s.said(ctx, st); err != nil {
			return err
		}
	}
	body.Whole = len(v.Steps) == row.Steps
	end := row.EndedAt
	switch {
	case v.Status == store.Running:
		end = time.Now().UnixMilli()
	case end == 0:
		end = row.UpdatedAt
	}
	if body.Display, err = s.display(ctx, row); err != nil {
		return err
	}
	if v.Reason != nil {
		body.Why = s.views.Names().In(ctx, v.Reason.Message)
	}
	body.Took = took(row.CreatedAt, end)
	if row.ForkedFrom != nil {
		if body.From, err = s.origin(ctx, *row.ForkedFrom); err != nil {
			return err
		}
	}
	crumbs, err := s.breadcrumb(ctx, row)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "thread", page{Title: crumbs[1].Text + ": " + body.Name, Nav: "tasks", Follow: row.Task, Types: stateEvents,
		Body: body, Crumbs: crumbs})
}

// window returns the number of the first step to show, and of the first steps of the pages before and
// after, 0 for none.
func window(r *http.Request, steps int) (from, older, newer int, err error) {
	if from, err = number(r, "from", max(1, steps-shownSteps+1), 1, math.MaxInt32); err != nil {
		return 0, 0, 0, err
	}
	if from > 1 {
		older = max(1, min(from, steps+1)-shownSteps)
	}
	if from <= steps-shownSteps {
		newer = from + shownSteps
	}
	return from, older, newer, nil
}

// stepLink returns the URL of a step on the page of its thread.
func stepLink(thread string, n int) string {
	if n < 1 {
		return "/threads/" + thread + "?from=1"
	}
	return fmt.Sprintf("/threads/%s?from=%d#s%d", thread, (n-1)/shownSteps*shownSteps+1, n)
}

// threadName returns the name of a thread, as users type it.
func threadName(row store.Thread) string {
	switch {
	case row.Path != nil:
		return row.Path.ID
	case row.Kind != store.KindRoot:
		return row.Flow
	}
	return "Main thread"
}

// display returns the display state of a thread, as on its task's page.
func (s *Server) display(ctx context.Context, row store.Thread) (view.Display, error) {
	root, err := s.cfg.Store.Thread(ctx, row.Task)
	if err != nil {
		return view.Display{}, err
	}
	task, err := s.views.Task(ctx, root)
	return task.Displays()[row.ID], err
}

// speaker returns the instance that makes the steps of a thread, "" if it depends on the role.
func speaker(row store.Thread) string {
	if row.Path == nil {
		return ""
	}
	return row.Path.ID
}

// origin returns a link to the step that a thread was manually forked from.
func (s *Server) origin(ctx context.Context, f store.ForkedFrom) (crumb, error) {
	n, err := s.cfg.Reader.Length(ctx, f.Step)
	if err != nil {
		return crumb{}, err
	}
	c := crumb{Text: fmt.Sprintf("thread %s at step %d", short(f.Thread), n), Link: stepLink(f.Thread, n)}
	if _, err := s.cfg.Store.Thread(ctx, f.Thread); errors.Is(err, store.ErrNotFound) {
		c.Link = "" // a fork outlives its origin
	} else if err != nil {
		return crumb{}, err
	}
	return c, nil
}

// breadcrumb returns the breadcrumb of a thread: the stack of its callers, each with the step of the
// call.
func (s *Server) breadcrumb(ctx context.Context, row store.Thread) ([]crumb, error) {
	back := []crumb{{threadName(row), ""}}
	for row.Parent != nil && len(back) <= 100 {
		n, err := s.cfg.Reader.Length(ctx, row.Parent.From)
		if err != nil {
			return nil, err
		}
		if row, err = s.cfg.Store.Thread(ctx, row.Parent.Thread); err != nil {
			return nil, err
		}
		at := " at step " + strconv.Itoa(n)
		if n == 0 {
			at = " at its start"
		}
		back = append(back, crumb{threadName(row) + at, stepLink(row.ID, n)})
	}
	title, err := s.views.Title(ctx, row)
	if err != nil {
		return nil, err
	}
	back = append(back, crumb{line(60, title), "/tasks/" + row.ID}, crumb{"Tasks", "/tasks"})
	slices.Reverse(back)
	return back, nil
}

// number parses a query parameter as a number from least to most. It returns fallback if there is none.
func number(r *http.Request, name string, fallback, least, most int) (int, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return fallback, nil
	}
	text := q.Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s is a number from %d to %d, not %q", name, least, most, text)
	}
	return n, nil
}

func (s *Server) showTree(w http.ResponseWriter, r *http.Request) error {
	row, err := s.row(r)
	if err != nil {
		return err
	}
	depth, err := number(r, "depth", -1, 0, 1000)
	if err != nil {
		return err
	}
	v, err := s.views.Tree(r.Context(), view.Subject{Row: row, Head: row.Head}, depth)
	if err != nil {
		return err
	}
	return answer(w, "thread.tree", v)
}

func (s *Server) showStack(w http.ResponseWriter, r *http.Request) error {
	row, err := s.row(r)
	if err != nil {
		return err
	}
	v, err := s.views.Stack(r.Context(), view.Subject{Row: row, Head: row.Head})
	if err != nil {
		return err
	}
	return answer(w, "thread.stack", v)
}
