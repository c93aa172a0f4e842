// Package scripted implements a model that follows a script. It serves the Responses API, the
// Messages API, the Chat Completions API and the Gemini API, over server-sent events or as single
// JSON objects, on a local port, for tests, demos and offline runs.
//
// It answers an agent's requests to its model with the responses of a scenario. The response
// depends only on the request: on its prompts and the number of tool outputs after the last one.
// So one server can serve any number of threads, and a thread may be forked, resumed or asked
// again at any point. The only state is how often each failure that is limited to a number of
// times has happened.
//
// The server never accepts connections from other machines, never runs anything and never reads a
// file that a request names.
package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Model is the name of the served model.
const Model = "plait-scripted"

const (
	maxBody     = 64 << 20 // bytes of a request
	closeWithin = 2 * time.Second
)

// Config configures a server. Its zero value serves the scenario "work".
type Config struct {
	Scenario *Scenario     // nil: the built-in "work"
	Log      io.Writer     // receives one line of JSON per request for a response; nil: none
	Requests func(Request) // called with each request before the answer, possibly concurrently; nil: not called
}

// A Server serves a scripted model.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	served   chan struct{} // closed once no connections are accepted

	handlers sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	failures map[string]int

	logMu sync.Mutex
}

// Open listens on a free port of 127.0.0.1 and serves until Close.
func Open(cfg Config) (*Server, error) {
	if cfg.Scenario == nil {
		work, err := Load("work")
		if err != nil {
			return nil, err
		}
		cfg.Scenario = work
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open scripted model: %w", err)
	}
	s := &Server{cfg: cfg, listener: listener, served: make(chan struct{}), failures: map[string]int{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // ends with an error when closed
	}()
	return s, nil
}

// URL returns the address to give an agent as base URL, "http://127.0.0.1:PORT/v1".
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/v1" }

// Close ends hanging responses, waits up to two seconds for the others, and stops listening. Nothing of the server
// runs after it returns. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(done)
	}()
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	err := s.http.Close()
	<-done
	<-s.served
	if again || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// enter registers a handler, unless the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.handlers.Add(1)
	}
	return !s.closed
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		sendError(w, failure("", http.StatusServiceUnavailable, "the server is being closed"))
		return
	}
	defer s.handlers.Done()
	path := r.URL.Path
	if m := generate.FindStringSubmatch(path); m != nil && m[2] == "countTokens" {
		path = "count tokens"
	} else if m != nil {
		path = "generate"
	}
	switch path {
	case "generate", "/v1/responses", "/v1/messages", "/v1/chat/completions":
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			sendError(w, failure("", http.StatusMethodNotAllowed, "want POST"))
			return
		}
		s.response(w, r)
	case "/v1/messages/count_tokens":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encode(object{"input_tokens": usual.Input}))
	case "count tokens":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encode(object{"totalTokens": usual.Input}))
	case "/api/hello": // Claude Code checks that the server is up
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encode(object{"object": "list",
			"data": []any{object{"id": Model, "object": "model", "owned_by": "plait"}}}))
	default:
		sendError(w, failure("", http.StatusNotFound, "there is nothing at "+r.URL.Path))
	}
}

func (s *Server) response(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		sendError(w, failure("", http.StatusRequestEntityTooLarge, "the request is over 64 MiB"))
		return
	}
	if err != nil {
		return // the client is gone
	}
	read := map[string]func(http.Header, []byte) (*Request, error){
		"/v1/responses": decode, "/v1/messages": decodeMessages, "/v1/chat/completions": decodeChat}
	decodes := read[r.URL.Path]
	if m := generate.FindStringSubmatch(r.URL.Path); m != nil {
		decodes = func(h http.Header, body []byte) (*Request, error) {
			return decodeGemini(h, body, m[1], m[2] == "streamGenerateContent")
		}
	}
	req, err := decodes(r.Header, body)
	if err != nil {
		out := failure(s.cfg.Scenario.name, http.StatusBadRequest, err.Error())
		s.log(r.Header.Get("Thread-Id"), out)
		sendError(w, out)
		return
	}
	if s.cfg.Requests != nil {
		s.cfg.Requests(*req)
	}
	out := respond(s.cfg.Scenario, req, s.failsAgain)
	s.log(req.Thread, out)
	if out.status != http.StatusOK {
		sendError(w, out)
		return
	}
	kind := "text/event-stream"
	if req.whole {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	s.send(w, r, out)
}

// send streams a reply. Write errors mean that the client is gone.
func (s *Server) send(w http.ResponseWriter, r *http.Request, out reply) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	for _, e := range out.events {
		if e.slow && out.slow > 0 && (rc.Flush() != nil || !s.pause(r, out.slow)) {
			return
		}
		if _, err := w.Write(e.bytes()); err != nil {
			return
		}
	}
	if rc.Flush() != nil {
		return
	}
	switch out.end {
	case silent:
		select {
		case <-s.ctx.Done():
		case <-r.Context().Done():
		}
	case cut:
		if conn, _, err := rc.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

// pause waits for d, and reports whether the client and the server are still running.
func (s *Server) pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
	case <-r.Context().Done():
	}
	return false
}

func sendError(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range out.header {
		w.Header().Set(name, fmt.Sprint(value))
	}
	w.WriteHeader(out.status)
	_, _ = io.WriteString(w, out.body)
}

// failsAgain counts a failure, and reports whether it should happen again.
func (s *Server) failsAgain(key string, times int) bool {
	if times == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures[key] >= times {
		return false
	}
	s.failures[key]++
	return true
}

// log writes one line for a request. It ignores errors of the log.
func (s *Server) log(thread string, out reply) {
	if s.cfg.Log == nil {
		return
	}
	line, err := json.Marshal(struct {
		TS       string `json:"ts"`
		Thread   string `json:"thread"`
		Scenario string `json:"scenario"`
		Turn     int    `json:"turn"`
		Step     int    `json:"step"`
		Status   int    `json:"status"`
	}{time.Now().UTC().Format(time.RFC3339Nano), thread, out.scenario, out.turn, out.step, out.status})
	if err != nil {
		return
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	_, _ = s.cfg.Log.Write(append(line, '\n'))
}
