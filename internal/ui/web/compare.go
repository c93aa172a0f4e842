package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// subject finds one side of a comparison: a thread by its id, or a step by its hash.
func (s *Server) subject(ctx context.Context, name string) (view.Subject, error) {
	if h, err := dag.ParseHash(name); err == nil {
		return view.Subject{Head: h}, nil
	}
	id, err := thread.ParseID(name)
	if err != nil {
		return view.Subject{}, notFound("there is no thread or step %q", name)
	}
	row, err := s.cfg.Store.Thread(ctx, id)
	return view.Subject{Row: row, Head: row.Head}, err
}

func (s *Server) diff(ctx context.Context, a, b string) (*view.Diff, error) {
	left, err := s.subject(ctx, a)
	if err != nil {
		return nil, err
	}
	right, err := s.subject(ctx, b)
	if err != nil {
		return nil, err
	}
	return s.views.Diff(ctx, left, right)
}

// A pick is one side of a comparison: a task or a part of one, and its last step to compare.
type pick struct {
	Name, Step string // names of the form fields
	Label      string
	Chosen     string // the id of a thread, or the hash of a step
	Title      string
	Tasks      []option
	Steps      []option // steps of the chosen thread
	At         string   // the chosen step
}

// An option is one of the choices.
type option struct {
	Value, Text string
	Chosen      bool
}

// Limits on the choices.
const (
	pickedTasks = 100
	pickedSteps = 200
)

// A comparison is the page that compares two threads.
type comparison struct {
	A, B                  pick
	V                     *view.Diff
	Files                 *diffView // from the files of the left side to those of the right, or nil
	Same, Differ, OneSide int       // number of steps after the common prefix
	Older, Newer          string    // addresses of the other steps, "" for none
}

func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) error {
	ctx, q := r.Context(), r.URL.Query()
	body := comparison{A: pick{Name: "a", Step: "sa", Label: "Left", Chosen: q.Get("a"), At: q.Get("sa")},
		B: pick{Name: "b", Step: "sb", Label: "Right", Chosen: q.Get("b"), At: q.Get("sb")}}
	tasks, err := s.views.Tasks(ctx, view.TaskFilter{Limit: pickedTasks})
	if err != nil {
		return err
	}
	for _, side := range []*pick{&body.A, &body.B} {
		if err := s.fillPick(ctx, side, tasks); err != nil {
			return err
		}
	}
	if body.A.Chosen != "" && body.B.Chosen != "" {
		if body.V, err = s.diff(ctx, cmp.Or(body.A.At, body.A.Chosen), cmp.Or(body.B.At, body.B.Chosen)); err != nil {
			return err
		}
		if body.Files, err = s.filesBetween(ctx, body.V); err != nil {
			return err
		}
		for _, p := range body.V.Steps {
			switch {
			case p.Same:
				body.Same++
			case p.A == nil || p.B == nil:
				body.OneSide++
			default:
				body.Differ++
			}
		}
		from, err := number(r, "from", 1, 1, math.MaxInt32)
		if err != nil {
			return err
		}
		all := body.V.Steps
		from = max(1, min(from, len(all)))
		body.V.Steps = all[min(from-1, len(all)):min(from-1+shownSteps, len(all))]
		at := func(n int) string {
			q.Set("from", strconv.Itoa(n))
			return "/compare?" + q.Encode()
		}
		if from > 1 {
			body.Older = at(max(1, from-shownSteps))
		}
		if from-1+shownSteps < len(all) {
			body.Newer = at(from + shownSteps)
		}
	}
	return s.show(w, r, http.StatusOK, "compare", page{
		Title: "Compare", Nav: "tasks", Follow: "-", Body: body, Crumbs: []crumb{{"Tasks", "/tasks"}, {"Compare", ""}},
	})
}

// filesBetween compares the files that the two sides left, nil if they are the same or not recorded.
func (s *Server) filesBetween(ctx context.Context, v *view.Diff) (*diffView, error) {
	if s.cfg.Control == nil {
		return nil, nil
	}
	from, err := s.cfg.Control.Tree(ctx, v.A.Head)
	if err != nil {
		return nil, err
	}
	to, err := s.cfg.Control.Tree(ctx, v.B.Head)
	if err != nil || from == "" || to == "" || from == to {
		return nil, err
	}
	row, err := s.views.ThreadOf(ctx, v.A.Head)
	if err != nil {
		return nil, err
	}
	files, _ := s.patchBetween(ctx, row, from, to) // two repositories cannot be compared
	if len(files) == 0 {
		return nil, nil
	}
	return newDiffView(files, diffOptions{id: "files", at: changesLink(row.ID, from, to), from: from, to: to}), nil
}

// fillPick lists the choices for one side.
func (s *Server) fillPick(ctx context.Context, p *pick, tasks []view.TaskRow) error {
	found := false
	for _, t := range tasks {
		label := fmt.Sprintf("%s · %s · %s", text.Shorten(cmp.Or(t.Title, "(no title)"), 70), t.Short, t.Display.State)
		p.Tasks = append(p.Tasks, option{t.ID, label, t.ID == p.Chosen})
		if t.ID == p.Chosen {
			found, p.Title = true, t.Title
		}
	}
	if p.Chosen == "" {
		return nil
	}
	of, err := s.subject(ctx, p.Chosen)
	if err != nil {
		return err
	}
	if !found {
		label := "step " + of.Head.Short()
		if of.Row.ID != "" {
			title, err := s.views.Title(ctx, of.Row)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			p.Title, label = title, fmt.Sprintf("%s · part of a task", text.Shorten(title, 70))
		}
		p.Tasks = append([]option{{p.Chosen, label, true}}, p.Tasks...)
	}
	if of.Row.ID == "" || of.Row.Steps == 0 {
		p.At = ""
		return nil
	}
	steps, err := s.views.Steps(ctx, of.Row, max(1, of.Row.Steps-pickedSteps+1), pickedSteps)
	if err != nil {
		return err
	}
	known := false
	for _, st := range steps {
		h := st.Hash.String()
		p.Steps = append(p.Steps, option{h, fmt.Sprintf("step %d · %s", st.N, st.Role), h == p.At})
		known = known || h == p.At
	}
	if !known { // chosen before, but not in the list
		p.At = ""
	}
	return nil
}
