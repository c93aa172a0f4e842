package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/store"
)

// A route is one thing that can be asked for. The table of routes is all there is: the mux,
// the OpenAPI document and the tests of the guard are made of it.
type route struct {
	Method string
	Path   string // as http.ServeMux reads it
	About  string // for the OpenAPI document
	Answer string // the schema of what comes back, "" for a page
	// Query and Body name what can be said, with what it means.
	Query, Body []field
	do          func(w http.ResponseWriter, r *http.Request) error
}

// A field is one thing that can be said in a query or a body.
type field struct {
	Name, Type, About string
	Required          bool
}

// api tells whether a route answers in JSON.
func (r route) api() bool { return strings.HasPrefix(r.Path, "/api/") }

// maxBody bounds what is read of a request, in bytes.
const maxBody = 1 << 20

// handle returns the handler of a route.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.Method == http.MethodPost {
			if s.cfg.ReadOnly {
				s.fail(w, rt, &problem{http.StatusForbidden, "read_only", "this server only shows; start plait ui without --read-only"})
				return
			}
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				s.fail(w, rt, &problem{http.StatusUnsupportedMediaType, "media_type", "send application/json"})
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		if err := rt.do(w, r); err != nil {
			s.fail(w, rt, err)
		}
	})
}

// A problem is an error that says which status it is.
type problem struct {
	code int
	name string
	text string
}

func (p *problem) Error() string { return p.text }

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, "usage", fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &problem{http.StatusNotFound, "not_found", fmt.Sprintf(format, args...)}
}

// asProblem maps an error to how it is answered.
func asProblem(err error) *problem {
	var p *problem
	var held *store.HeldError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		return &problem{http.StatusRequestEntityTooLarge, "too_large", err.Error()}
	case errors.Is(err, store.ErrNotFound):
		return &problem{http.StatusNotFound, "not_found", err.Error()}
	case errors.As(err, &held):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	case errors.Is(err, control.ErrUsage):
		return &problem{http.StatusBadRequest, "usage", err.Error()}
	case errors.Is(err, store.ErrConflict):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	}
	return &problem{http.StatusInternalServerError, "failed", err.Error()}
}

// An envelope is what the API answers: the same as --json.
type envelope struct {
	Schema string    `json:"schema"`
	OK     bool      `json:"ok"`
	Data   any       `json:"data,omitempty"`
	Error  *apiError `json:"error,omitempty"`
}

type apiError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// answer writes what a route of the API comes to.
func answer(w http.ResponseWriter, name string, data any) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(w).Encode(envelope{Schema: "plait." + name + "/1", OK: true, Data: data})
}

func writeError(w http.ResponseWriter, p *problem) {
	json.NewEncoder(w).Encode(envelope{Schema: "plait.error/1", Error: &apiError{p.name, p.text}})
}

// said reads the body of a request: one JSON object with known keys only.
func said(r *http.Request, into any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return err
		}
		return badRequest("the body: %v", err)
	}
	if dec.More() {
		return badRequest("the body holds more than one object")
	}
	return nil
}
