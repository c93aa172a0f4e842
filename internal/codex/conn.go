package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A message is one line of app-server's protocol: JSON-RPC 2.0 without its
// "jsonrpc" field, in both directions.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`

	line int // in the raw log of the attempt it belongs to, see agent.Event.Line
}

// isRequest reports whether m is a request that wants an answer.
func (m message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

// isResponse reports whether m answers a request of ours.
func (m message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// A target is the part of a notification or request that says where it belongs.
type target struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Thread   struct {
		ID string `json:"id"`
	} `json:"thread"`
}

// session returns the session a message belongs to, or "".
func (m message) session() string {
	var w target
	if json.Unmarshal(m.Params, &w) != nil {
		return ""
	}
	if w.ThreadID != "" {
		return w.ThreadID
	}
	return w.Thread.ID
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// Codes of errors: JSON-RPC 2.0, §5.1.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
)

// errGone is the error of a call whose server ended before it answered.
var errGone = errors.New("the app-server ended")

// A conn is our end of an app-server's stdin and stdout. Calls may be made
// concurrently; what comes in is handed to it line by line. Sending never waits:
// a server that does not read its stdin must not block the attempts that share it.
type conn struct {
	to io.WriteCloser

	mu      sync.Mutex
	changed sync.Cond // on mu: queue, hung or closed has changed
	queue   [][]byte  // lines to be written
	last    int64
	pending map[int64]*pendingCall
	hungUp  bool // nothing more is sent
	closed  bool
}

// A pendingCall waits for its answer. by is the attempt that made it, or nil.
type pendingCall struct {
	by     *turn
	method string
	reply  chan message // buffered; closed when none can come any more
}

func newConn(to io.WriteCloser) *conn {
	c := &conn{to: to, pending: make(map[int64]*pendingCall)}
	c.changed.L = &c.mu
	return c
}

// pump writes the queued lines until the conn is hung up or ended.
func (c *conn) pump() {
	defer c.to.Close()
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.hungUp && !c.closed {
			c.changed.Wait()
		}
		queue, over := c.queue, c.closed
		c.queue = nil
		c.mu.Unlock()
		if over || len(queue) == 0 {
			return
		}
		for _, line := range queue {
			if _, err := c.to.Write(line); err != nil {
				return // its end fails the calls
			}
		}
	}
}

// call makes a request and decodes its result into result, unless that is nil.
// An error of the server's is an *rpcError.
func (c *conn) call(ctx context.Context, by *turn, method string, params, result any) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errGone
	}
	c.last++
	id := c.last
	p := &pendingCall{by: by, method: method, reply: make(chan message, 1)}
	c.pending[id] = p
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if err := c.send(by, json.RawMessage(strconv.FormatInt(id, 10)), method, params); err != nil {
		return err
	}
	select {
	case m, ok := <-p.reply:
		switch {
		case !ok:
			return errGone
		case m.Error != nil:
			return m.Error
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("read the answer to %s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notify sends a notification, which has no answer.
func (c *conn) notify(by *turn, method string, params any) error {
	return c.send(by, nil, method, params)
}

func (c *conn) send(by *turn, id json.RawMessage, method string, params any) error {
	m := message{ID: id, Method: method}
	if params != nil {
		data, err := json.Marshal(params)
		if err != nil {
			return fmt.Errorf("send %s: %w", method, err)
		}
		m.Params = data
	}
	return c.enqueue(by, m)
}

// answer answers a request of the server's.
func (c *conn) answer(by *turn, id json.RawMessage, result any) error {
	data, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("answer request %s: %w", id, err)
	}
	return c.enqueue(by, message{ID: id, Result: data})
}

// refuse answers a request of the server's with an error.
func (c *conn) refuse(by *turn, id json.RawMessage, code int, why string) error {
	return c.enqueue(by, message{ID: id, Error: &rpcError{Code: code, Message: why}})
}

func (c *conn) enqueue(by *turn, m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("send to the app-server: %w", err)
	}
	by.logRequest("out", m.redacted(line))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hungUp || c.closed {
		return errGone
	}
	c.queue = append(c.queue, append(line, '\n'))
	c.changed.Signal()
	return nil
}

// plainSettings are the settings that Plait itself makes, which hold no secret.
var plainSettings = []string{
	"approval_policy", "default_permissions", "model", "model_provider", "model_reasoning_effort",
	"model_reasoning_summary", "model_verbosity", "permissions", "projects",
}

// redacted returns the line of m as it may be logged: without the values of the settings
// that a definition adds, which can hold keys.
func (m message) redacted(line []byte) []byte {
	var params, settings map[string]json.RawMessage
	if !strings.HasPrefix(m.Method, "thread/") || json.Unmarshal(m.Params, &params) != nil ||
		json.Unmarshal(params["config"], &settings) != nil {
		return line
	}
	for key := range settings {
		if !slices.Contains(plainSettings, key) {
			settings[key] = json.RawMessage(`"…"`)
		}
	}
	params["config"], _ = json.Marshal(settings)
	m.Params, _ = json.Marshal(params)
	line, _ = json.Marshal(m)
	return line
}

// caller returns the attempt whose call m answers, or nil, and what it called.
func (c *conn) caller(m message) (by *turn, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[m.callID()]; p != nil {
		return p.by, p.method
	}
	return nil, ""
}

// callID returns the id of an answer; 0, which no call has, when it is none of ours.
func (m message) callID() int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(m.ID)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// resolve hands an answer to the call that waits for it.
func (c *conn) resolve(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[m.callID()]; p != nil && !c.closed {
		select {
		case p.reply <- m:
		default: // answered twice
		}
	}
}

// end fails all calls that wait and all later ones.
func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.changed.Signal()
	for _, p := range c.pending {
		close(p.reply)
	}
}

// hangUp closes the server's stdin once the queue is written, which ends the server.
func (c *conn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hungUp = true
	c.changed.Signal()
}

// A requestLine is one line of requests.jsonl.
type requestLine struct {
	TS      int64           `json:"ts"`  // Unix ms
	Dir     string          `json:"dir"` // out: to Codex, in: from Codex
	Message json.RawMessage `json:"message"`
}

// logRequest logs a request or an answer. A nil turn has no log.
func (t *turn) logRequest(dir string, line []byte) {
	if t == nil || t.req.Desk.Requests == nil || !json.Valid(line) {
		return
	}
	data, err := json.Marshal(requestLine{time.Now().UnixMilli(), dir, line})
	if err != nil {
		return
	}
	t.writeLog(t.req.Desk.Requests, append(data, '\n'))
}
