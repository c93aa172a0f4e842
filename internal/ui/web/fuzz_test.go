package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// port is the port of servers that are called without a connection.
const port = 4711

// refusals are the guard's responses to a client without the cookie.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed}

// A written records a handler's response. A stream ends after its first flush.
type written struct {
	*httptest.ResponseRecorder
	gone context.CancelFunc
}

func (h *written) SetReadDeadline(time.Time) error  { return nil }
func (h *written) SetWriteDeadline(time.Time) error { return nil }

// Flush ends the request, as a client that has seen enough does.
func (h *written) Flush() {
	h.ResponseRecorder.Flush()
	h.gone()
}

// An inProcess is a server that is called within the process, so that a panic in a handler fails the test.
type inProcess struct {
	*house
	guard  *guard
	answer http.Handler
	stop   func() // ends the server's jobs and waits for them
}

func (h *house) inProcess(srv *Server) *inProcess {
	h.t.Helper()
	g, err := newGuard(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, h.home, taskdir.Program{})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv.ended, srv.work.ctx = ctx, ctx
	return &inProcess{h, g, g.wrap(srv.mux), func() { cancel(); srv.work.end() }}
}

// ask passes a request to the server as net/http does. It returns nil if the text is not a request.
func (w *inProcess) ask(text string) (*http.Request, *written) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return nil, nil
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	answer := &written{httptest.NewRecorder(), gone}
	w.answer.ServeHTTP(answer, r.WithContext(ctx))
	return r, answer
}

// FuzzHTTP sends arbitrary requests: no handler panics or reports an internal error, and nothing changes except
// by a POST with the cookie.
func FuzzHTTP(f *testing.F) {
	h := newHouse(f, gatedAgents())
	row := h.run(gated, "do it")
	live, copied := h.inProcess(h.server()), h.copyWithin(row)
	for _, r := range h.server().routes() {
		target, body := fill(r.Path, row, h.gate(row.ID).ID), map[string]any{}
		for _, field := range append(r.Query, r.Body...) {
			body[field.Name] = map[string]any{"boolean": true, "integer": "1"}[field.Type]
			if body[field.Name] == nil {
				body[field.Name] = row.ID
			}
			if r.Method == http.MethodGet {
				target += fmt.Sprintf("%c%s=%v", "?&"[min(1, strings.Count(target, "?"))], field.Name, body[field.Name])
			}
		}
		data, err := json.Marshal(body)
		if err != nil {
			f.Fatal(err)
		}
		for _, known := range []bool{true, false} {
			f.Add(r.Method, target, "Accept: text/html\r\nContent-Type: application/json\r\nSec-Fetch-Site: same-origin", data,
				known, false)
		}
		f.Add("POST", target, "Content-Type: text/plain", []byte(`{"text":null}`), true, true)
	}
	f.Add("GET", "/?token=x", "Last-Event-ID: -1", []byte(nil), false, false)
	f.Add("GET", "/entry?nonce=x", "Origin: null", []byte(nil), false, false)
	f.Add("POST", "/entry", "Transfer-Encoding: chunked", []byte("5\r\n{\"a\":\r\n0\r\n\r\n"), true, false)
	f.Add("CONNECT", "evil.com:1", "Host: evil.com", []byte(nil), true, true)
	f.Fuzz(func(t *testing.T, method, target, head string, body []byte, known, copy bool) {
		w := live
		switch {
		case copy:
			w = copied
		case known && method == http.MethodPost: // it may change what the next request finds
			fresh := newHouse(t, gatedAgents())
			w = fresh.inProcess(fresh.server())
			again := fresh.run(gated, "do it")
			for _, name := range []*string{&target, &head} {
				*name = strings.ReplaceAll(*name, row.ID, again.ID)
			}
			body = bytes.ReplaceAll(body, []byte(row.ID), []byte(again.ID))
		}
		cookie := "none=here"
		if known {
			cookie = w.guard.cookie + "=" + w.guard.secret
		}
		text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nCookie: %s\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
			method, target, port, cookie, len(body), head, body)
		if strings.Contains(head, "chunked") {
			text = strings.Replace(text, "Content-Length:", "X-Length:", 1)
		}
		here := *w.house
		here.t = t
		ask := func() {
			r, answer := w.ask(text)
			if r == nil {
				return
			}
			t.Logf("%s %s: %d", r.Method, r.URL, answer.Code)
			if answer.Code >= http.StatusInternalServerError {
				t.Errorf("%q: %d %s", text, answer.Code, answer.Body)
			}
			if !known && !slices.Contains(refusals, answer.Code) && r.URL.Path != entryPath {
				t.Errorf("%q, of somebody who is not known: %d %s", text, answer.Code, answer.Body)
			}
			if strings.HasPrefix(answer.Header().Get("Content-Type"), "application/json") && !json.Valid(answer.Body.Bytes()) {
				t.Errorf("%q: %s is no JSON", text, answer.Body)
			}
			if answer.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%q: %v", text, answer.Header())
			}
		}
		if w != live && w != copied {
			ask()
			w.stop()
			return
		}
		here.unchanged(text, ask)
	})
}

// copyWithin returns a server of a copy of a task.
func (h *house) copyWithin(row store.Thread) *inProcess {
	c, err := taskdir.OpenCopy(h.copied(row))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	bare := *h
	bare.home = ""
	return bare.inProcess(NewCopy(CopyConfig{Copy: c}))
}
