package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode"

	"github.com/plait-run/plait/internal/agent"
)

const (
	maxTries   = 4
	maxPause   = 30 * time.Second // longest delay that a server may ask for before a retry
	maxEvent   = 64 << 20         // bytes of one event of a response
	maxRefusal = 64 << 10         // bytes of an error that are read
)

// A reply is the model's answer.
type reply struct {
	text    []byte
	thought []byte
	kept    []json.RawMessage
	calls   []call
	stop    word // with which the server ended it
	cut     bool // it reached its length limit
	refused bool // it declined
	model   string
	used    agent.Usage
}

// add adds a text.
func (s *reply) add(c content) {
	s.text = append(s.text, c.text...)
	s.think(c.thought)
}

func (s *reply) think(thought string) { s.thought = append(s.thought, thought...) }

// A dialect is the format of one API.
type dialect interface {
	path() string
	key(h http.Header, token string)
	body(q query) map[string]any
	// read handles one event of a response.
	read(data []byte, to *reply) error
}

func dialectOf(s Server) dialect {
	if s.API == Messages {
		return &messages{}
	}
	return &chat{}
}

// A client asks a model's server.
type client struct {
	url   string
	token string
	http  *http.Client
}

// ask sends one request and reads the whole response. Each byte is logged before it is parsed.
func (c client) ask(ctx context.Context, d dialect, q query, log io.Writer) (reply, error) {
	data, err := json.Marshal(q.body(d))
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
	err = s.judge(events(from, func(data []byte) error { return d.read(data, &s) }))
	return s, err
}

// events calls f with the data of each event of a stream, or with a response that is not a stream but one object.
func events(r io.Reader, f func(data []byte) error) error {
	from := bufio.NewReader(r)
	for {
		switch c, _, err := from.ReadRune(); {
		case err == io.EOF:
			return &serverError{status: http.StatusOK, text: "answers 200 OK with nothing"}
		case err != nil:
			return err
		case c == '<':
			text, _ := io.ReadAll(io.LimitReader(from, maxRefusal)) // as much as there is
			return serverErrorOf(http.StatusOK, append([]byte{'<'}, text...))
		case unicode.IsSpace(c) || c == '\uFEFF':
			continue
		case c == '{':
			data, err := io.ReadAll(io.LimitReader(from, maxEvent))
			if err != nil {
				return err
			}
			return f(append([]byte{'{'}, data...))
		}
		break
	}
	if err := from.UnreadRune(); err != nil {
		return err
	}
	return stream(from, f)
}

// stream calls f with the data of each server-sent event. Servers may leave out the empty line after an event, or
// the name of a line that has an object.
func stream(r io.Reader, f func(data []byte) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var data []byte // of the event so far
	failed := false // its name is error
	end := func() error {
		event, name := bytes.TrimSpace(data), failed
		data, failed = nil, false
		switch {
		case name:
			return serverErrorOf(0, event)
		case !bytes.ContainsRune(event, '{'): // [DONE] or the like
			return nil
		}
		return f(event)
	}
	for in.Scan() {
		line := bytes.TrimSpace(in.Bytes())
		part, is := bytes.CutPrefix(line, []byte("data:"))
		name, named := bytes.CutPrefix(line, []byte("event:"))
		is = is || bytes.HasPrefix(line, []byte("{"))
		if len(line) == 0 || named && len(data) > 0 || is && json.Valid(data) {
			if err := end(); err != nil {
				return err
			}
		}
		switch {
		case named:
			failed = string(bytes.TrimSpace(name)) == "error"
		case is && len(data)+len(part) > maxEvent:
			return bufio.ErrTooLong
		case is:
			data = append(append(data, part...), '\n')
		}
	}
	if in.Err() != nil {
		return in.Err()
	}
	return end()
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
