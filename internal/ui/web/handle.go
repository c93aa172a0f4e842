package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/plait-run/plait/internal/view"
)

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
			want, read := "application/json", rt.readBody
			if !rt.api() {
				want, read = "application/x-www-form-urlencoded", rt.readForm
			}
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != want {
				s.fail(w, r, rt, &problem{http.StatusUnsupportedMediaType, "media_type", "send " + want})
				return
			}
			if err := read(w, r); err != nil {
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

// bodyTime limits how long reading a body may take.
const bodyTime = 20 * time.Second

// readBody reads and validates the body of a request: one JSON object in which each key occurs once,
// is listed in the table, and has a value of the right type. A missing body counts as an empty
// object.
func (rt route) readBody(w http.ResponseWriter, r *http.Request) error {
	data, err := wholeBody(w, r)
	if err != nil {
		return err
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

// wholeBody returns the body of a request.
func wholeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if err != nil && !errors.As(err, new(*http.MaxBytesError)) {
		err = badRequest("the body: %v", err)
	}
	return data, err
}

// readForm reads and validates the body of a request that a page's form sends without scripts: each field is listed in
// the table.
func (rt route) readForm(w http.ResponseWriter, r *http.Request) error {
	data, err := wholeBody(w, r)
	if err != nil {
		return err
	}
	if r.PostForm, err = url.ParseQuery(string(data)); err != nil {
		return badRequest("the body: %v", err)
	}
	return checkFields("the body", r.PostForm, rt.Body)
}

// checkQuery refuses a query with a parameter that is not listed in the table, or is given twice: a misspelt filter
// would list everything.
func (rt route) checkQuery(r *http.Request) error {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query: %v", err)
	}
	return checkFields("the query", given, rt.Query)
}

// checkFields refuses values of a field that is not known, or two of one that is given once.
func checkFields(where string, given url.Values, known []field) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(known, func(f field) bool { return f.Name == key })
		switch {
		case i < 0:
			return badRequest("%s: unknown parameter %q", where, key)
		case len(given[key]) > 1 && !known[i].Many:
			return badRequest("%s: %s is given %d times", where, key, len(given[key]))
		}
	}
	return nil
}

// fail responds with an error: as JSON on an API route, as a page for a browser, otherwise as a line
// of text.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, rt route, err error) {
	p := *asProblem(s.cfg.Program.Named(err))
	p.text = s.cfg.Program.Says(p.text)
	switch {
	case rt.api():
		sendJSON(w, p.code, view.NewFailure(view.Failure{Code: p.name, Message: p.text}))
		return
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		body := struct {
			Text   string
			Search bool
		}{p.text, p.code == http.StatusNotFound && s.copy == nil}
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
