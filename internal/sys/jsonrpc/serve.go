package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	rpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastAnswers is how long requests may take to be answered once the input has ended.
const lastAnswers = 5 * time.Second

// A Transport connects a server of the Model Context Protocol to a client that writes one message per line. The SDK's
// own transport ends the session at the first line that it cannot read. Laws:
//
//   - A line that is no message is answered with an error, and the next one is read.
//   - The id of a request comes back as it was spelled.
//   - What was received is answered although the input has ended, within [lastAnswers].
type Transport struct {
	In  io.ReadCloser
	Out io.WriteCloser
}

// Connect starts reading. It is called once.
func (t *Transport) Connect(context.Context) (sdk.Connection, error) {
	s := &served{Transport: t, lines: make(chan []byte), open: map[string]bool{}, answered: make(chan struct{}, 1),
		closed: make(chan struct{})}
	go s.scan()
	return s, nil
}

// A served is the connection to one client.
type served struct {
	*Transport
	lines    chan []byte // closed at the end of the input, after readErr was set
	readErr  error
	answered chan struct{} // a request was answered
	closed   chan struct{}
	close    sync.Once

	mu   sync.Mutex      // guards Out, and
	open map[string]bool // ids of requests that are not answered
}

// scan reads lines until the input ends. It may outlive the connection: reading cannot be interrupted.
func (s *served) scan() {
	defer close(s.lines)
	r := bufio.NewReaderSize(s.In, 64<<10)
	for s.readErr == nil {
		var line []byte
		line, s.readErr = readLine(r)
		select {
		case s.lines <- line:
		case <-s.closed:
			return
		}
	}
}

// readLine returns the next line, or its first maxLine+1 bytes.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxLine+1-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Read returns the next message of the client.
func (s *served) Read(ctx context.Context) (rpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, io.EOF
		case line, ok := <-s.lines:
			if !ok {
				s.finish()
				return nil, s.readErr
			}
			m, wrong := parse(line)
			if wrong == nil {
				wrong = s.begin(m)
			}
			if wrong != nil {
				if err := s.refuse(wrong); err != nil {
					return nil, err
				}
			} else if m != nil {
				return m, nil
			}
		}
	}
}

// begin notes a request until it is answered.
func (s *served) begin(m rpc.Message) *refusal {
	r, ok := m.(*rpc.Request)
	if !ok || !r.IsCall() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := spelled(r.ID)
	if s.open[id] { // an answer with this id would be taken for the other's
		return invalid("", "a request with the id "+id+" is not answered yet")
	}
	s.open[id] = true
	return nil
}

// finish waits until all requests are answered, and refuses those that take too long.
func (s *served) finish() {
	late := time.After(lastAnswers)
	for {
		s.mu.Lock()
		left := len(s.open)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-s.answered:
		case <-s.closed:
			return
		case <-late:
			s.mu.Lock()
			defer s.mu.Unlock()
			for id := range s.open {
				delete(s.open, id)
				s.put(id, &rpc.Response{Error: &rpc.Error{Code: rpc.CodeInternalError,
					Message: "the input ended before this was done"}})
			}
			return
		}
	}
}

func (s *served) refuse(r *refusal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(r.id, &rpc.Response{Error: &r.err})
}

// Write sends a message to the client.
func (s *served) Write(ctx context.Context, m rpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := m.(*rpc.Response)
	if !ok {
		return s.put("", outgoing(m))
	}
	id := spelled(r.ID)
	if !s.open[id] {
		return nil // it was refused
	}
	delete(s.open, id)
	select {
	case s.answered <- struct{}{}:
	default:
	}
	return s.put(id, &rpc.Response{Result: r.Result, Error: r.Error})
}

// put writes a message, with an id as it was spelled unless that is "". s.mu is held.
func (s *served) put(id string, m rpc.Message) error {
	line, err := rpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	if id != "" {
		line = bytes.Replace(line, []byte(`"2.0",`), []byte(`"2.0","id":`+id+`,`), 1)
	}
	_, err = s.Out.Write(append(line, '\n'))
	return err
}

// Close ends the connection.
func (s *served) Close() (err error) {
	s.close.Do(func() {
		close(s.closed)
		err = errors.Join(s.In.Close(), s.Out.Close())
	})
	return err
}

// SessionID returns "": there is one session.
func (s *served) SessionID() string { return "" }
