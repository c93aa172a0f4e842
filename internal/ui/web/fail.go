package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// fail responds with an error: as JSON on an API route, as a page for a browser, otherwise as a line
// of text.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, rt route, err error) {
	p := *asProblem(taskdir.Named(s.cfg.Program, err))
	p.text = s.cfg.Program.Says(p.text)
	switch {
	case rt.api():
		sendJSON(w, p.code, view.NewFailure(view.Failure{Code: p.name, Message: p.text}))
		return
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		body := struct{ Text string }{p.text}
		if s.show(w, r, p.code, "problem", page{Title: http.StatusText(p.code), Follow: "-", Body: body}) == nil {
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(p.code)
	fmt.Fprintln(w, visible(p.text))
}

// unknownPath responds to unknown paths.
func (s *Server) unknownPath(w http.ResponseWriter, r *http.Request) {
	p := &problem{http.StatusNotFound, "not_found", "there is nothing at this address"}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); strings.HasPrefix(pattern, method+" ") {
			w.Header().Set("Allow", method)
			p = &problem{http.StatusMethodNotAllowed, "usage", "only " + method + " is answered here"}
		}
	}
	s.fail(w, r, route{Path: r.URL.Path}, p)
}
