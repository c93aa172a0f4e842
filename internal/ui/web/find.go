package web

import (
	"context"
	"net/http"
	"path"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// row finds the thread that a path names by its full id only: nothing in a URL is ever used as a file path.
func (s *Server) row(r *http.Request) (store.Thread, error) {
	id, err := thread.ParseID(r.PathValue("id"))
	if err != nil {
		return store.Thread{}, notFound("there is no thread %q", r.PathValue("id"))
	}
	return s.cfg.Store.Thread(r.Context(), id)
}

// taskRow finds the root thread of the task that a path names.
func (s *Server) taskRow(r *http.Request) (store.Thread, error) {
	row, err := s.row(r)
	if err == nil && row.ID != row.Root {
		err = notFound("%s is a part of task %s", row.ID, row.Root)
	}
	return row, err
}

// hash returns the hash in a path.
func hash(r *http.Request) (dag.Hash, error) {
	h, err := dag.ParseHash(r.PathValue("hash"))
	if err != nil {
		return h, notFound("there is no object %q", r.PathValue("hash"))
	}
	return h, nil
}

// seenFrom finds the thread that a step is viewed from: the one that the query names, else its own. It is the zero
// Thread if there is none.
func (s *Server) seenFrom(r *http.Request, h dag.Hash) (store.Thread, error) {
	named := r.URL.Query().Get("thread")
	if named == "" {
		return s.views.ThreadOf(r.Context(), h)
	}
	id, err := thread.ParseID(named)
	if err != nil {
		return store.Thread{}, badRequest("%v", err)
	}
	return s.cfg.Store.Thread(r.Context(), id)
}

// findFlow looks up a flow as plait run does, but by name only: nothing in a request is ever used as
// a file path.
func (s *Server) findFlow(ctx context.Context, name string) (control.Found, error) {
	if ext := path.Ext(name); !flow.IsName(name) || ext == ".yaml" || ext == ".yml" {
		return control.Found{}, notFound("there is no flow %q", name)
	}
	return s.cfg.Control.Find(ctx, s.cfg.Workspace, name)
}

// flowIn finds the flow that a path names.
func (s *Server) flowIn(r *http.Request) (control.Found, error) {
	return s.findFlow(r.Context(), r.PathValue("name"))
}
