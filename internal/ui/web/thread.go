package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

func (s *Server) threadPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	ctx := r.Context()
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
		Plans        map[int]*planCard
		From         crumb  // what it was forked from
		By           string // the instance that makes its steps
		Ended, Asks  bool   // words for it would answer its question
		Said         string // why this server stopped working on the task
		Why          string // why it is blocked, has failed or was cancelled
	}{By: speaker(row), Ended: row.Ended(), Said: s.stopped(row.Root), V: v, Name: threadName(row), Count: row.Steps,
		Older: older, Newer: newer, Statuses: map[int]string{}, Texts: map[int]said{},
		Plans: map[int]*planCard{}}
	for _, st := range v.Steps {
		v.Usage = v.Usage.Add(st.Usage)
		body.Statuses[st.N] = view.Outcome(st.Role, st.Meta)
		if body.Texts[st.N], err = s.said(ctx, st); err != nil {
			return err
		}
		body.Plans[st.N] = parsePlan(strings.TrimSpace(st.Text))
	}
	open, err := s.views.Gates(ctx, view.GateFilter{Task: row.Task, State: store.GateOpen})
	if err != nil {
		return err
	}
	body.Asks = slices.ContainsFunc(open, func(g store.Gate) bool {
		return g.Thread == row.ID && g.Kind == store.GateInput
	})
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
	return s.show(w, r, http.StatusOK, "thread", page{Title: crumbs[1].Text + ": " + body.Name, Nav: "tasks",
		Follow: row.Task, Types: stateEvents, Body: body, Crumbs: crumbs})
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

// display returns the display state of a thread, as on its task's page.
func (s *Server) display(ctx context.Context, row store.Thread) (view.Display, error) {
	root, err := s.cfg.Store.Thread(ctx, row.Task)
	if err != nil {
		return view.Display{}, err
	}
	task, err := s.views.Task(ctx, root)
	return task.Displays()[row.ID], err
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
