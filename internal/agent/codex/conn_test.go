package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
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
		conn: jsonrpc.New(out, ""), grace: time.Second, startup: time.Second, turns: map[*turn]bool{},
		loaded: map[string]bool{},
		ready:  make(chan struct{}), done: make(chan struct{}), kill: func() {},
	}
	go s.conn.Pump()
	t.Cleanup(func() {
		s.conn.End()
		<-out.closed
	})
	u := &turn{
		req: req, setup: &setup{dir: "/work"}, srv: s, emit: func(agent.Event) error { return nil },
		inbox:     inbox{wake: make(chan struct{}, 1)},
		questions: questions{cancel: map[string]context.CancelFunc{}},
		items:     turnItems{running: map[string]item{}, patches: map[string]item{}},
		began:     time.Now(), watchdog: agent.NewWatchdog(req.Limits), id: "turn-1",
	}
	u.session.Store("thread-1")
	s.attach(u)
	return u, s, out
}

// answerTo returns the answer to a request of the server.
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
	s.conn.HangUp()
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

func TestConnErrors(t *testing.T) {
	_, s, out := bareTurn(t, agent.Request{})
	for _, tt := range []struct{ answer, want string }{
		{`{"id":1,"error":{"code":-32600,"message":"no such thing"}}`, "no such thing"},
		{`{"id":2,"result":"a text"}`, "read the answer to ask"},
	} {
		ends := make(chan error, 1)
		go func() { ends <- s.conn.Call(t.Context(), nil, "ask", nil, &struct{ A int }{}) }()
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
			if got := redacted(m, []byte(tt.line)); string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestConnOver checks that nothing is written to an attempt's desk after its end, whatever still arrives.
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
