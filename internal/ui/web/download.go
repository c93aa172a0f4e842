package web

import (
	"cmp"
	"net/http"
	"path"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// blob serves the object with a given hash as a download.
func (s *Server) blob(w http.ResponseWriter, r *http.Request, h dag.Hash) error {
	data, n, err := s.cfg.Store.Open(r.Context(), h)
	if err != nil {
		return err
	}
	defer data.Close()
	return hand(w, cmp.Or(r.URL.Query().Get("name"), h.String()), n.Size, data)
}

// taskFile serves a file of a task directory, if the task's page lists it.
func (s *Server) taskFile(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	dir, err := taskdir.At(row.Workspace, row.ID).Browse()
	if err != nil {
		return err
	}
	defer dir.Close()
	return serveDocument(w, r, dir)
}

// serveDocument serves the file at a path.
func serveDocument(w http.ResponseWriter, r *http.Request, dir *taskdir.DirReader) error {
	name := r.PathValue("path")
	f, n, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return hand(w, path.Base(name), n, f)
}
