// Package jsonrpc implements one end of a JSON-RPC 2.0 conversation with a program: one message per line, in both
// directions, over its standard input and output.
//
// It takes the program's stdin and the lines that it prints, and returns the results of calls. Laws:
//
//   - Sending never waits: a program that does not read its stdin blocks no caller. The conversation ends when too
//     much is queued.
//   - A call ends: with its answer, with its context, or with the conversation.
//   - Each message is shown to its sender before it is sent.
//
// A Conn itself reads nothing: the caller reads, decides what a line is, and passes on the answers, see
// [Conn.Resolve]. A [Transport] is the other end, of a server of MCP, and does read.
package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// A Message is one line of the protocol.
type Message struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`

	Line int `json:"-"` // its line in a log, for the log's reader
}

// Read reads a line, and reports whether it is JSON. See [Decode].
func Read(line []byte) (m Message, ok bool) {
	err := Decode(bytes.TrimPrefix(line, []byte("\uFEFF")), &m)
	return m, err == nil
}

// Decode reads JSON that a program wrote. A field of another type than it should have is left out.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field != "" {
		return nil
	}
	return err
}

// IsRequest reports whether m is a request that expects an answer.
func (m Message) IsRequest() bool { return m.Method != "" && m.hasID() }

// IsResponse reports whether m answers one of our requests.
func (m Message) IsResponse() bool { return m.Method == "" && m.hasID() }

func (m Message) hasID() bool { return len(m.ID) > 0 && string(m.ID) != "null" }

// An Error is what the other side answers instead of a result.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// UnmarshalJSON accepts anything: what has no message is the message.
func (e *Error) UnmarshalJSON(data []byte) error {
	type plain Error
	if Decode(data, (*plain)(e)) != nil || e.Message == "" {
		e.Message = string(data)
	}
	return nil
}

// Error codes: JSON-RPC 2.0, §5.1.
const (
	InvalidRequest = -32600
	NoMethod       = -32601
)

// ErrGone reports that the other side ended before it answered.
var ErrGone = errors.New("the program ended")

// ErrFull reports that the other side does not read what it is sent.
var ErrFull = errors.New("the program does not read its input")

// maxQueued is how many bytes are queued before ErrFull. A single message may be longer.
const maxQueued = 16 << 20

// A Party is the sender of messages. It is shown each one before it is sent, with its line.
type Party interface {
	Sent(m Message, line []byte)
}

// A Conn is our end of a program's stdin and stdout. Calls may be made concurrently.
type Conn struct {
	to      io.WriteCloser
	version string

	mu      sync.Mutex
	changed sync.Cond // on mu: queue, hungUp or closed has changed
	queue   [][]byte  // lines to be written
	queued  int       // bytes that are not written yet
	last    int64
	pending map[int64]*pendingCall
	hungUp  bool // nothing more is sent
	closed  bool
	why     error // of closed
}

// A pendingCall waits for its answer. by is its caller, or nil.
type pendingCall struct {
	by     Party
	method string
	reply  chan Message // buffered; closed when no answer can come any more
}

// New returns a Conn that writes to to. version is the jsonrpc field of each message, "" if the
// protocol omits it. The caller must run Pump.
func New(to io.WriteCloser, version string) *Conn {
	c := &Conn{to: to, version: version, pending: make(map[int64]*pendingCall)}
	c.changed.L = &c.mu
	return c
}

// Pump writes the queued lines until the conn is hung up or ended.
func (c *Conn) Pump() {
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
				return // the calls fail when the program ends
			}
			c.mu.Lock()
			c.queued -= len(line)
			c.mu.Unlock()
		}
	}
}

// Call makes a request and decodes its result into result, unless that is nil.
// An error from the other side is an [*Error].
func (c *Conn) Call(ctx context.Context, by Party, method string, params, result any) error {
	c.mu.Lock()
	if c.closed {
		defer c.mu.Unlock()
		return c.why
	}
	c.last++
	id := c.last
	p := &pendingCall{by: by, method: method, reply: make(chan Message, 1)}
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
			return c.gone()
		case m.Error != nil:
			return m.Error
		case result == nil:
			return nil
		}
		if err := Decode(m.Result, result); err != nil {
			return fmt.Errorf("read the answer to %s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Notify sends a notification, which has no answer.
func (c *Conn) Notify(by Party, method string, params any) error {
	return c.send(by, nil, method, params)
}

func (c *Conn) send(by Party, id json.RawMessage, method string, params any) error {
	m := Message{ID: id, Method: method}
	if params != nil {
		data, err := json.Marshal(params)
		if err != nil {
			return fmt.Errorf("send %s: %w", method, err)
		}
		m.Params = data
	}
	return c.enqueue(by, m)
}

// Answer answers a request from the other side.
func (c *Conn) Answer(by Party, id json.RawMessage, result any) error {
	data, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("answer request %s: %w", id, err)
	}
	return c.enqueue(by, Message{ID: id, Result: data})
}

// Refuse answers a request from the other side with an error.
func (c *Conn) Refuse(by Party, id json.RawMessage, code int, why string) error {
	return c.enqueue(by, Message{ID: id, Error: &Error{Code: code, Message: why}})
}

func (c *Conn) enqueue(by Party, m Message) error {
	m.Version = c.version
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	if by != nil {
		by.Sent(m, line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return c.why
	case c.hungUp:
		return ErrGone
	case c.queued > maxQueued:
		c.end(ErrFull)
		return ErrFull
	}
	line = append(line, '\n')
	c.queue, c.queued = append(c.queue, line), c.queued+len(line)
	c.changed.Signal()
	return nil
}

// Caller returns the party whose call m answers, or nil, and the method it called.
func (c *Conn) Caller(m Message) (by Party, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[m.callID()]; p != nil {
		return p.by, p.method
	}
	return nil, ""
}

// callID returns the id of an answer, or 0, which no call has, if it cannot be one of ours. Some programs return it as
// a text or as a float.
func (m Message) callID() int64 {
	n, err := strconv.ParseFloat(strings.Trim(string(m.ID), `"`), 64)
	if err != nil || n != float64(int64(n)) {
		return 0
	}
	return int64(n)
}

// Resolve passes an answer to the call that waits for it.
func (c *Conn) Resolve(m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[m.callID()]; p != nil && !c.closed {
		select {
		case p.reply <- m:
		default: // answered twice
		}
	}
}

// End makes all waiting calls and all later ones fail.
func (c *Conn) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(ErrGone)
}

// gone returns why no answer can come any more.
func (c *Conn) gone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// end ends the conversation. c.mu is held.
func (c *Conn) end(why error) {
	if c.closed {
		return
	}
	c.closed, c.why = true, why
	c.queue = nil
	c.changed.Signal()
	for _, p := range c.pending {
		close(p.reply)
	}
}

// HangUp closes the program's stdin once the queue is written.
func (c *Conn) HangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hungUp = true
	c.changed.Signal()
}
