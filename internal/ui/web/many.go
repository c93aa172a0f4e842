package web

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// A manyTasks asks whether chosen tasks are to be removed, or says which could not be changed.
type manyTasks struct {
	Sure  bool // it asks
	Back  string
	Lines []oneOfMany
}

// A oneOfMany is one of the chosen tasks.
type oneOfMany struct{ ID, Title, Note string }

// manyTasks does the same with all tasks that were chosen in the list, and returns to it. The form works without scripts.
func (s *Server) manyTasks(w http.ResponseWriter, r *http.Request) error {
	do, ids := r.PostForm.Get("do"), r.PostForm["task"]
	deeds := map[string]func(context.Context, string) error{
		"cancel":  func(_ context.Context, id string) error { _, err := s.cfg.Control.Cancel(s.ended, id); return err },
		"dismiss": func(ctx context.Context, id string) error { _, err := s.cfg.Control.Dismiss(ctx, id); return err },
		"remove": func(ctx context.Context, id string) error {
			return s.cfg.Control.Remove(ctx, []string{id}, func(store.Thread) error { return nil })
		},
	}
	deed, ok := deeds[do]
	if !ok {
		return badRequest("do: use cancel, dismiss or remove")
	}
	ctx := context.WithoutCancel(r.Context())
	body := manyTasks{Sure: do == "remove" && r.PostForm.Get("sure") == "", Back: r.URL.RequestURI()}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		id, err := thread.ParseID(id)
		if err != nil {
			return badRequest("task: %v", err)
		}
		row, err := s.cfg.Store.Thread(ctx, id)
		if err == nil && row.Root != row.ID {
			err = badRequest("%s is a part of task %s", id, row.Root)
		}
		if err != nil {
			return err
		}
		one := oneOfMany{ID: id}
		if one.Title, err = s.views.Title(ctx, row); err != nil {
			return err
		}
		if body.Sure {
			if one.Note, err = s.lostWith(ctx, row); err != nil {
				return err
			}
		} else if err := deed(ctx, id); err != nil {
			one.Note = s.cfg.Program.Says(asProblem(s.cfg.Program.Named(err)).text)
		} else {
			continue
		}
		body.Lines = append(body.Lines, one)
	}
	if len(body.Lines) == 0 {
		http.Redirect(w, r, body.Back, http.StatusSeeOther)
		return nil
	}
	code, title := http.StatusOK, "Remove "+text.Count(len(body.Lines), "task")+"?"
	if !body.Sure {
		code, title = http.StatusConflict, "Could not "+do+" "+text.Count(len(body.Lines), "task")
	}
	return s.show(w, r, code, "many", page{Title: title, Nav: "tasks", Follow: "-", Body: body})
}

// lostWith returns which work that could not be merged is lost with a task.
func (s *Server) lostWith(ctx context.Context, row store.Thread) (string, error) {
	list, err := s.cfg.Control.Worktrees(ctx, row.Workspace, row.ID)
	var paths []string
	for _, t := range list {
		if len(t.Left) > 0 {
			paths = append(paths, t.Path)
		}
	}
	if len(paths) == 0 {
		return "", err
	}
	return "What could not be merged is lost: " + strings.Join(paths, ", "), err
}
