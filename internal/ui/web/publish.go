package web

import (
	"net/http"

	"github.com/plait-run/plait/internal/record/store"
)

// publish returns the handler of requests to commit what a task changed and, if request is set, to open its pull
// request.
func (s *Server) publish(request bool) func(*http.Request, store.Thread, publishRequest) (any, error) {
	return func(r *http.Request, row store.Thread, body publishRequest) (any, error) {
		if s.cfg.Publish == nil {
			return nil, conflict("nothing is published from here")
		}
		did, url, err := s.cfg.Publish(r.Context(), row, request, body.Yes)
		if err != nil {
			return nil, conflict("%v", err)
		}
		return map[string]any{"id": row.ID, "summary": did, "url": url}, nil
	}
}

// A publishRequest has the parameters of publish.
type publishRequest struct {
	Yes bool `json:"yes"`
}
