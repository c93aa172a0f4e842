package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gateway"
)

const (
	maxTries   = 4
	maxPause   = 30 * time.Second // longest delay that a server may ask for before a retry
	maxEvent   = 64 << 20         // bytes of one event of a response
	maxRefusal = 64 << 10         // bytes of an error that are read
)

// A query is a request to a model, independent of the API.
type query struct {
	model   string
	system  string
	entries []entry
	tools   []tool
	schema  json.RawMessage // of the answer, or nil
	extra   map[string]any
}

// A reply is the model's answer.
type reply struct {
	text    []byte
	thought []byte
	kept    []json.RawMessage
	calls   []call
	cut     bool // it reached its length limit
	refused bool // it declined
	model   string
	used    agent.Usage
}

// A dialect is the format of one API.
type dialect interface {
	path() string
	key(h http.Header, token string)
	body(q query) map[string]any
	// read handles one event of a response.
	read(data []byte, to *reply) error
	// over reports whether the response is complete.
	over() bool
}

// A client asks a model's server.
type client struct {
	url   string
	token string
	http  *http.Client
}

// ask sends one request and reads the whole response. Each byte is logged before it is parsed.
func (c client) ask(ctx context.Context, d dialect, q query, log io.Writer) (reply, error) {
	body := d.body(q)
	for name, value := range q.extra {
		if _, ours := body[name]; !ours {
			body[name] = value
		}
	}
	body["stream"] = true
	data, err := json.Marshal(body)
	if err != nil {
		return reply{}, fmt.Errorf("ask the model: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+d.path(), bytes.NewReader(append(data, '\n')))
	if err != nil {
		return reply{}, fmt.Errorf("ask the model: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	d.key(req.Header, c.token)
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, &serverError{text: "could not be reached: " + err.Error()}
	}
	defer res.Body.Close()
	from := io.TeeReader(res.Body, log)
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(from, maxRefusal)) // as much as there is
		return reply{}, refusal(res, text)
	}
	s := reply{model: q.model}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // if it cannot be parsed, assume a stream
	if kind == "application/json" {
		text, err := io.ReadAll(io.LimitReader(from, maxEvent))
		if err == nil {
			err = d.read(text, &s)
		}
		return s, brokeOff(err, d)
	}
	return s, brokeOff(events(from, func(data []byte) error { return d.read(data, &s) }), d)
}

// brokeOff returns err, or an error if the response is incomplete.
func brokeOff(err error, d dialect) error {
	var known *serverError
	switch {
	case errors.As(err, &known):
		return err
	case err != nil:
		return &serverError{text: "broke its answer off: " + err.Error()}
	case !d.over():
		return &serverError{text: "broke its answer off"}
	}
	return nil
}

// events calls f with the data of each event of a stream.
func events(r io.Reader, f func(data []byte) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxEvent)
	for in.Scan() {
		data, ok := bytes.CutPrefix(in.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || data[0] != '{' { // [DONE], a comment, or an event's name
			continue
		}
		if err := f(data); err != nil {
			return err
		}
	}
	return in.Err()
}

// A serverError says why the model gave no answer.
type serverError struct {
	status int // 0: there was no response
	code   string
	text   string
	after  time.Duration // when to retry, if the server says so
}

func (e *serverError) Error() string { return "the model's server " + e.text }

// retryable reports whether a retry may help.
func (e *serverError) retryable() bool {
	if e.code == gateway.Refused {
		return false // there is no server
	}
	passing := e.status == http.StatusRequestTimeout || e.status == http.StatusTooManyRequests
	return !e.contextExceeded() && (e.status == 0 || passing || e.status >= 500)
}

var overflow = regexp.MustCompile(`(?i)context.?(length|window|size)|maximum context|` +
	`(prompt|input) is too long|too many (input )?tokens`)

// contextExceeded reports whether the conversation does not fit into the model's context.
func (e *serverError) contextExceeded() bool {
	switch e.status {
	case 0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return e.code == "context_length_exceeded" || overflow.MatchString(e.text)
	}
	return false
}

// refusedError is the form of an error, alone or in a stream.
type refusedError struct {
	Error json.RawMessage `json:"error"`
}

// serverErrorOf parses an error of a server in any of the known forms.
func serverErrorOf(status int, body []byte) *serverError {
	e := &serverError{status: status}
	var outer refusedError
	var inner struct {
		Type    string `json:"type"`
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	var text string
	switch {
	case json.Unmarshal(body, &outer) != nil || len(outer.Error) == 0:
		text = string(body)
	case json.Unmarshal(outer.Error, &inner) == nil:
		text = inner.Message
	case json.Unmarshal(outer.Error, &text) != nil:
		text = string(outer.Error)
	}
	e.code = inner.Type
	if code, ok := inner.Code.(string); ok && code != "" {
		e.code = code
	}
	e.text = "says: " + agent.Clip(text, 2000)
	if of, gateways := strings.CutPrefix(text, "the model's server "); gateways && inner.Type == "plait_gateway" {
		e.text = of // about the server, which did not respond
	} else if status != 0 {
		e.text = fmt.Sprintf("answers %d %s: %s", status, http.StatusText(status), agent.Clip(text, 2000))
	}
	return e
}

// refusal returns the error of an unsuccessful response.
func refusal(res *http.Response, body []byte) error {
	e := serverErrorOf(res.StatusCode, body)
	after := res.Header.Get("Retry-After")
	if secs, err := strconv.Atoi(after); err == nil && secs >= 0 {
		e.after = time.Duration(secs) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.after = max(0, time.Until(at))
	}
	return e
}

// pause returns how long to wait before a retry, and false if there should be none.
func (e *serverError) pause(try int) (time.Duration, bool) {
	if !e.retryable() || try >= maxTries || e.after > maxPause {
		return 0, false
	}
	return max(e.after, 250*time.Millisecond<<(2*try-2)), true
}

// wait waits, unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
