package web

import (
	"context"
	"net/http"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// subject finds what somebody wants to compare: a thread by its id, or a step by its hash.
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

func (s *Server) diffThreads(w http.ResponseWriter, r *http.Request) error {
	v, err := s.diff(r.Context(), r.PathValue("id"), r.PathValue("other"))
	if err != nil {
		return err
	}
	return answer(w, "thread.diff", v)
}

func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	body := struct {
		A, B string
		V    *view.Diff
	}{A: q.Get("a"), B: q.Get("b")}
	if body.A != "" && body.B != "" {
		var err error
		if body.V, err = s.diff(r.Context(), body.A, body.B); err != nil {
			return err
		}
	}
	return s.show(w, r, http.StatusOK, "compare", page{
		Title: "Compare", Nav: "tasks", Follow: "-", Body: body, Crumbs: []crumb{{"Tasks", "/tasks"}, {"Compare", ""}},
	})
}
