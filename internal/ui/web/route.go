package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

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
	do          handler
}

// A handler answers a request, or returns an error for the answer.
type handler = func(http.ResponseWriter, *http.Request) error

// An apiHandler returns what a request of the API is answered with.
type apiHandler = func(*http.Request) (any, error)

// A field is a parameter in a query or a body.
type field struct {
	Name, Type, About string
	Required          bool
	Many              bool // may be given more than once
}

func str(name, about string) field     { return field{Name: name, Type: "string", About: about} }
func integer(name, about string) field { return field{Name: name, Type: "integer", About: about} }
func boolean(name, about string) field { return field{Name: name, Type: "boolean", About: about} }

// api reports whether a route answers in JSON.
func (r route) api() bool { return strings.HasPrefix(r.Path, "/api/") }

// serve returns the route of a page or a file.
func serve(path, summary string, do handler, query ...field) route {
	return route{Method: http.MethodGet, Path: path, About: summary, Query: query, do: do}
}

// get returns the route of a request of the API that reads.
func get(path, summary, schema string, do apiHandler, query ...field) route {
	return route{Method: http.MethodGet, Path: path, About: summary, Answer: schema, Query: query,
		do: answering(schema, do)}
}

// post returns the route of a request of the API that changes something.
func post(path, summary, schema string, do apiHandler, body ...field) route {
	return route{Method: http.MethodPost, Path: path, About: summary, Answer: schema, Body: body,
		do: answering(schema, do)}
}

// answering returns the handler that answers with what do returns, under a schema unless it has one.
func answering(schema string, do apiHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := do(r)
		if err != nil {
			return err
		}
		if _, ok := v.(view.Envelope); !ok {
			v = view.NewEnvelope(schema, v)
		}
		return sendJSON(w, http.StatusOK, v)
	}
}

// of returns the handler of requests for a page about what find finds.
func of[A any](find func(*http.Request) (A, error), do func(http.ResponseWriter, *http.Request, A) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a, err := find(r)
		if err != nil {
			return err
		}
		return do(w, r, a)
	}
}

// about returns the handler of requests about what find finds.
func about[A, T any](find func(*http.Request) (A, error), do func(*http.Request, A) (T, error)) apiHandler {
	return func(r *http.Request) (any, error) {
		a, err := find(r)
		if err != nil {
			return nil, err
		}
		return do(r, a)
	}
}

// withBody returns the handler of requests about what find finds, with a body.
func withBody[A, B, T any](find func(*http.Request) (A, error), do func(*http.Request, A, B) (T, error)) apiHandler {
	return about(find, func(r *http.Request, a A) (v T, err error) {
		var body B
		if err := decodeBody(r, &body); err != nil {
			return v, err
		}
		return do(r, a, body)
	})
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

// number parses a query parameter as a number from least to most. It returns fallback if there is none.
func number(r *http.Request, name string, fallback, least, most int) (int, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return fallback, nil
	}
	text := q.Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s is a number from %d to %d, not %q", name, least, most, text)
	}
	return n, nil
}
