package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

// A sink keeps what is written to it, until it is closed.
type sink struct {
	buffer
	closed chan struct{}
	once   sync.Once
}

func newSink() *sink { return &sink{closed: make(chan struct{})} }

func (s *sink) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// bareTurn is an attempt with no process behind it: a server that only receives.
func bareTurn(t testing.TB, req agent.Request) (*turn, *server, *sink) {
	out := newSink()
	s := &server{
		conn: newConn(out), grace: time.Second, startup: time.Second, turns: map[*turn]bool{},
		loaded: map[string]bool{},
		ready:  make(chan struct{}), done: make(chan struct{}), kill: func() {},
	}
	go s.conn.pump()
	t.Cleanup(func() {
		s.conn.end()
		<-out.closed
	})
	u := &turn{
		req: req, site: &site{dir: "/work"}, srv: s, emit: func(agent.Event) error { return nil },
		inbox:     inbox{wake: make(chan struct{}, 1), last: time.Now()},
		questions: questions{cancel: map[string]context.CancelFunc{}},
		items:     turnItems{running: map[string]item{}, patches: map[string]item{}},
		began:     time.Now(), id: "turn-1",
	}
	u.session.Store("thread-1")
	s.attach(u)
	return u, s, out
}

// answerTo returns what is answered to a request of the server's.
func answerTo(t *testing.T, method string, approved bool) map[string]any {
	t.Helper()
	u, s, out := bareTurn(t, agent.Request{Ask: func(context.Context, agent.Question) (agent.Answer, error) {
		return agent.Answer{Approved: approved}, nil
	}})
	params := `{"threadId":"thread-1","turnId":"turn-1","itemId":"i","_meta":{"codex_approval_kind":"mcp_tool_call"},` +
		`"permissions":{"network":{"enabled":true}}}`
	if err := s.line([]byte(`{"id":5,"method":"`+method+`","params":`+params+`}`), false); err != nil {
		t.Fatal(err)
	}
	for _, m := range u.dequeue() {
		u.handleRequest(t.Context(), m)
	}
	u.questions.running.Wait()
	s.conn.hangUp()
	<-out.closed
	var m struct {
		ID     int
		Result map[string]any
	}
	if err := json.Unmarshal([]byte(out.String()), &m); err != nil || m.ID != 5 || m.Result == nil {
		t.Fatalf("the answer to %s is %q: %v", method, out.String(), err)
	}
	return m.Result
}

func TestConnCalls(t *testing.T) {
	_, s, out := bareTurn(t, agent.Request{})
	const n = 20
	results := make(chan int, n)
	for range n {
		go func() {
			var got struct{ Twice int }
			if err := s.conn.call(t.Context(), nil, "double", map[string]int{"x": 1}, &got); err != nil {
				t.Error(err)
			}
			results <- got.Twice
		}()
	}
	answered := map[int64]bool{}
	eventually(t, "all calls are answered", func() bool {
		for line := range strings.Lines(out.String()) {
			var m message
			if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &m) != nil || answered[m.callID()] {
				continue
			}
			answered[m.callID()] = true
			m.Result, m.Method, m.Params = json.RawMessage(`{"twice":`+string(m.ID)+`}`), "", nil
			s.conn.resolve(m)
			s.conn.resolve(m) // twice, which changes nothing
		}
		return len(answered) == n
	})
	seen := map[int]bool{}
	for range n {
		seen[<-results] = true
	}
	if len(seen) != n {
		t.Errorf("the answers are %v", seen)
	}
}

func TestConnEnds(t *testing.T) {
	_, s, out := bareTurn(t, agent.Request{})
	ends := make(chan error, 1)
	go func() { ends <- s.conn.call(t.Context(), nil, "wait", nil, nil) }()
	eventually(t, "the call is made", func() bool { return strings.Contains(out.String(), "wait") })
	s.conn.end()
	s.conn.end()
	if err := <-ends; !errors.Is(err, errGone) {
		t.Errorf("the call ended with %v", err)
	}
	if err := s.conn.call(t.Context(), nil, "more", nil, nil); !errors.Is(err, errGone) {
		t.Errorf("a call after the end ended with %v", err)
	}
	if err := s.conn.notify(nil, "more", nil); !errors.Is(err, errGone) {
		t.Errorf("a notification after the end ended with %v", err)
	}
}

// A server that does not read its stdin blocks no caller.
func TestConnNotRead(t *testing.T) {
	r, w := io.Pipe()
	c := newConn(w)
	over := make(chan struct{})
	go func() { defer close(over); c.pump() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.call(ctx, nil, "one", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %v", err)
	}
	if err := c.notify(nil, "two", nil); err != nil {
		t.Error(err)
	}
	r.Close()
	c.end()
	<-over
}

// What was sent before the end is written.
func TestConnHangUp(t *testing.T) {
	_, s, out := bareTurn(t, agent.Request{})
	var want strings.Builder
	for range 100 {
		if err := s.conn.notify(nil, "note", nil); err != nil {
			t.Fatal(err)
		}
		want.WriteString("{\"method\":\"note\"}\n")
	}
	s.conn.hangUp()
	<-out.closed
	if diff := cmp.Diff(want.String(), out.String()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestConnErrors(t *testing.T) {
	_, s, out := bareTurn(t, agent.Request{})
	for _, tt := range []struct{ answer, want string }{
		{`{"id":1,"error":{"code":-32600,"message":"no such thing"}}`, "no such thing"},
		{`{"id":2,"result":"a text"}`, "read the answer to ask"},
	} {
		ends := make(chan error, 1)
		go func() { ends <- s.conn.call(t.Context(), nil, "ask", nil, &struct{ A int }{}) }()
		eventually(t, "the call is made", func() bool { return strings.Contains(out.String(), tt.answer[:7]) })
		if err := s.line([]byte(tt.answer), false); err != nil {
			t.Fatal(err)
		}
		if err := <-ends; err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got error %v, want %q in it", err, tt.want)
		}
	}
	if err := s.line([]byte("{"), true); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("a line that was cut gives %v", err)
	}
}

func TestConnShowsNoSecret(t *testing.T) {
	for name, tt := range map[string]struct{ line, want string }{
		"settings": {
			`{"id":1,"method":"thread/start","params":{"config":{"mcp_servers":{"x":{"env":{"TOKEN":"secret"}}},` +
				`"model":"m"},"cwd":"/work"}}`,
			`{"id":1,"method":"thread/start","params":{"config":{"mcp_servers":"…","model":"m"},"cwd":"/work"}}`,
		},
		"no settings": {`{"id":2,"method":"thread/start","params":{"cwd":"/work"}}`,
			`{"id":2,"method":"thread/start","params":{"cwd":"/work"}}`},
		"an answer": {`{"id":3,"result":{"config":{"a":1}}}`, `{"id":3,"result":{"config":{"a":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var m message
			if err := json.Unmarshal([]byte(tt.line), &m); err != nil {
				t.Fatal(err)
			}
			if got := m.redacted([]byte(tt.line)); string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// After an attempt is over nothing is written to its desk, whoever still speaks.
func TestConnOver(t *testing.T) {
	var raw bytes.Buffer
	u, s, _ := bareTurn(t, agent.Request{Desk: agent.Desk{Raw: &raw}})
	line := []byte(`{"method":"x","params":{"threadId":"thread-1"}}`)
	if err := s.line(line, false); err != nil {
		t.Fatal(err)
	}
	s.release(u)
	u.logRaw(line)
	if raw.String() != string(line)+"\n" {
		t.Errorf("the log holds %q", raw.String())
	}
}
