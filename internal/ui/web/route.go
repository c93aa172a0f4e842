package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// A route is one endpoint. The mux, the OpenAPI document and the tests of the guard are all
// generated from the table of routes.
type route struct {
	Method string
	Path   string // an http.ServeMux pattern
	About  string // for the OpenAPI document
	Answer string // the schema of the response, "" for a page
	// Query and Body list the parameters and their meaning.
	Query, Body []field
	do          func(w http.ResponseWriter, r *http.Request) error
}

// A field is a parameter in a query or a body.
type field struct {
	Name, Type, About string
	Required          bool
	Many              bool // may be given more than once
}

// api reports whether a route answers in JSON.
func (r route) api() bool { return strings.HasPrefix(r.Path, "/api/") }

// maxBody limits the body of a request, in bytes.
const maxBody = 1 << 20

// handle returns the handler of a route.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.Method == http.MethodPost {
			if s.cfg.ReadOnly {
				s.fail(w, r, rt, &problem{http.StatusForbidden, "read_only",
					"this server only shows; start plait ui without --read-only"})
				return
			}
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				s.fail(w, r, rt, &problem{http.StatusUnsupportedMediaType, "media_type", "send application/json"})
				return
			}
			if err := rt.readBody(w, r); err != nil {
				s.fail(w, r, rt, err)
				return
			}
		}
		if rt.api() {
			if err := rt.checkQuery(r); err != nil {
				s.fail(w, r, rt, err)
				return
			}
		} else if s.copy == nil {
			// The position is read before the data, so that the page misses no event.
			pos, err := s.cfg.Store.Wait(r.Context(), -1)
			if err != nil {
				s.fail(w, r, rt, err)
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), posKey{}, pos))
		}
		if err := rt.do(w, r); err != nil {
			s.fail(w, r, rt, err)
		}
	})
}

// A problem is an error with an HTTP status.
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

// asProblem maps an error to a response.
func asProblem(err error) *problem {
	var p *problem
	var held *store.HeldError
	var large *http.MaxBytesError
	var invalid *flow.InvalidError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	case errors.As(err, &large):
		return &problem{http.StatusRequestEntityTooLarge, "too_large", err.Error()}
	case errors.Is(err, store.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, view.ErrNoPrompt),
		errors.Is(err, view.ErrNoCalls):
		return &problem{http.StatusNotFound, "not_found", err.Error()}
	case errors.As(err, &held):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	case errors.Is(err, control.ErrUsage), errors.Is(err, gate.ErrInvalid):
		return &problem{http.StatusBadRequest, "usage", err.Error()}
	case errors.Is(err, store.ErrConflict):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	}
	return &problem{http.StatusInternalServerError, "failed", err.Error()}
}

// answer writes the result of an API route.
func answer(w http.ResponseWriter, name string, data any) error {
	return sendJSON(w, http.StatusOK, view.NewEnvelope(name, data))
}

// sendJSON encodes a value completely before sending anything.
func sendJSON(w http.ResponseWriter, code int, v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	w.Write(out.Bytes()) // the client may have disconnected
	return nil
}

// posKey is the context key for the position that a page follows from.
type posKey struct{}

// bodyTime limits how long reading a body may take.
const bodyTime = 20 * time.Second

// readBody reads and validates the body of a request: one JSON object in which each key occurs once,
// is listed in the table, and has a value of the right type. A missing body counts as an empty
// object.
func (rt route) readBody(w http.ResponseWriter, r *http.Request) error {
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return err
	}
	if err != nil {
		return badRequest("the body: %v", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	var body map[string]jsontext.Value
	if err := jsonv2.Unmarshal(data, &body); err != nil || body == nil {
		return badRequest("the body is not one JSON object: %v", err)
	}
	for key, v := range body {
		i := slices.IndexFunc(rt.Body, func(f field) bool { return f.Name == key })
		if i < 0 {
			return badRequest("the body: unknown field %q", key)
		}
		if kinds := map[string]string{"string": `"`, "boolean": "tf"}; !strings.Contains(kinds[rt.Body[i].Type],
			string(v.Kind())) {
			return badRequest("the body: %s must be a %s", key, rt.Body[i].Type)
		}
	}
	for _, f := range rt.Body {
		if _, ok := body[f.Name]; f.Required && !ok {
			return badRequest("the body: %s is missing", f.Name)
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// checkQuery refuses a query with a parameter that is not listed in the table, or is given twice: a misspelt filter
// would list everything.
func (rt route) checkQuery(r *http.Request) error {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query: %v", err)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(rt.Query, func(f field) bool { return f.Name == key })
		switch {
		case i < 0:
			return badRequest("the query: unknown parameter %q", key)
		case len(given[key]) > 1 && !rt.Query[i].Many:
			return badRequest("the query: %s is given %d times", key, len(given[key]))
		}
	}
	return nil
}

// decodeBody decodes a body that readBody has read.
func decodeBody(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return badRequest("the body: %v", err)
	}
	return nil
}

// boolParam returns a boolean parameter of the query.
func boolParam(r *http.Request, name string) (bool, error) {
	switch v := r.URL.Query().Get(name); v {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badRequest("%s is true or false, not %q", name, v)
	}
}
