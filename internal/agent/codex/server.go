package codex

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
	"github.com/plait-run/plait/internal/sys/proc"
)

const (
	// maxLine is the longest line that is parsed, in bytes. The longest one seen was 6.3 MB: 1
	// MiB of output, each byte escaped.
	maxLine = 64 << 20
	// maxStream limits a server's whole output, in bytes.
	maxStream = 64 << 30
)

// A server is one app-server process. Attempts of one task with the same
// program and environment share it; it starts with the first and ends with the
// last of them.
type server struct {
	conn    *jsonrpc.Conn
	tag     string        // of its processes
	grace   time.Duration // between two steps of its end
	startup time.Duration // how long it may take until it answers

	ready    chan struct{} // closed when it can be used, or failed to start
	failed   error         // readable after ready
	done     chan struct{} // closed when its processes are gone
	how      string        // how it ended, readable after done
	kill     context.CancelFunc
	pid      int
	pidStart int64

	mu     sync.Mutex
	turns  map[*turn]bool
	loaded map[string]bool // sessions that were opened here, and so are loaded

	users int // guarded by Host.mu
}

// join attaches an attempt to the server of key, and starts the server if none runs. It
// waits for a server that is ending: two servers must not have one session open.
func (h *Host) join(ctx context.Context, key string, t *turn) (*server, error) {
	for {
		h.mu.Lock()
		srv := h.servers[key]
		if srv == nil {
			srv = h.newServer(t.setup, t)
			h.servers[key] = srv
		} else if srv.users == 0 || isClosed(srv.done) {
			h.mu.Unlock()
			select {
			case <-srv.done:
				h.dropServer(key, srv)
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		srv.users++
		srv.attach(t)
		h.mu.Unlock()
		t.leave = func() { h.leave(key, srv, t) }
		select {
		case <-srv.ready:
		case <-ctx.Done():
			t.leave()
			return nil, ctx.Err()
		}
		if srv.failed != nil {
			t.leave()
			return nil, srv.failed
		}
		return srv, nil
	}
}

// serverKey returns the key of a setup's server: attempts with the same home, program and
// environment share one, unless they are isolated.
func serverKey(s *setup) string {
	env := slices.DeleteFunc(slices.Clone(s.env),
		func(kv string) bool { return strings.HasPrefix(kv, proc.TagKey+"=") })
	return s.home + "\x00" + s.program.Path + "\x00" + s.alone + "\x00" + strings.Join(env, "\x00")
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (h *Host) dropServer(key string, srv *server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.servers[key] == srv {
		delete(h.servers, key)
	}
}

// leave detaches an attempt. The last one ends the server and waits until it is gone.
func (h *Host) leave(key string, srv *server, t *turn) {
	h.mu.Lock()
	srv.users--
	last := srv.users == 0
	h.mu.Unlock()
	if !last {
		srv.detach(t)
		return
	}
	// By the protocol, closing its stdin ends a server and its commands. If not,
	// SIGTERM follows, then SIGKILL and the sweep.
	srv.conn.HangUp()
	select {
	case <-srv.done:
	case <-time.After(srv.grace):
		srv.kill()
		<-srv.done
	}
	srv.kill()
	<-srv.ready
	srv.release(t)
	h.dropServer(key, srv)
}

// detach removes an attempt, and the processes it left, from a server that others
// still use.
func (s *server) detach(t *turn) {
	if t.end.runaway && !isClosed(s.done) {
		// Its turn may still run, and only the server's end surely stops it. The
		// other attempts fail as after a crash and can be repeated.
		s.kill()
		<-s.done
	}
	if t.req.Tag != "" {
		ctx, cancel := context.WithTimeout(context.Background(), s.grace)
		defer cancel()
		proc.Sweep(ctx, commandTag(t.req)) // the server's end finds what is left
	}
	s.release(t)
}

func (s *server) attach(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[t] = true
}

func (s *server) release(t *turn) {
	s.mu.Lock()
	delete(s.turns, t)
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inbox.closed = true
}

// claim gives a session to an attempt, unless another one works in it: Codex would
// add the input of a second turn to the first.
func (s *server) claim(t *turn, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.turns {
		if g != t && g.sessionID() == session {
			return &agent.Failure{Kind: agent.Infra, Session: session, Message: "session " + session +
				" is in use by another attempt"}
		}
	}
	t.session.Store(session)
	return nil
}

func (s *server) markLoaded(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded[session] = true
}

func (s *server) isLoaded(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[session]
}

// newServer starts a server for its first attempt. It returns immediately; ready is closed
// when the server can be used or has failed.
func (h *Host) newServer(s *setup, t *turn) *server {
	out, in := io.Pipe()
	ctx, kill := context.WithCancel(context.Background()) // it may outlive its first attempt
	srv := &server{
		conn: jsonrpc.New(in, ""), tag: t.req.Tag, grace: h.grace(), startup: h.startup, kill: kill,
		ready: make(chan struct{}), done: make(chan struct{}), turns: map[*turn]bool{}, loaded: map[string]bool{},
	}
	started := make(chan struct{})
	path, args := t.req.CommandLine(s.program.Path, []string{"app-server"}, s.needs())
	go srv.conn.Pump()
	go func() {
		defer close(srv.done)
		defer srv.conn.End()
		res, err := proc.Run(ctx, proc.Config{
			Path: path, Args: args, Dir: s.home, Env: s.env,
			Stdin: out, Stderr: stderrOf{srv}, Line: srv.line, MaxLine: maxLine, MaxBytes: maxStream,
			Signals: []syscall.Signal{syscall.SIGTERM}, Grace: h.grace(), Tag: srv.tag,
			Started: func(pid int, start int64) {
				srv.pid, srv.pidStart = pid, start
				close(started)
			},
		})
		srv.how = exitText(res, err)
		out.Close()
	}()
	go func() {
		defer close(srv.ready)
		select {
		case <-started:
			srv.failed = srv.handshake(t)
		case <-srv.done:
			srv.failed = &agent.Failure{Kind: agent.Infra, Machine: true, Message: "Codex could not be started: " + srv.how}
		}
	}()
	return srv
}

// exitText describes how a server's process ended.
func exitText(res proc.Result, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case res.Signal != 0:
		return "it was killed by signal " + res.Signal.String()
	case res.Reason != "":
		return "it was stopped (" + string(res.Reason) + ")"
	}
	return fmt.Sprintf("it exited with code %d", res.Exit)
}

// line delivers one line of the server. It never blocks: one slow attempt must not delay
// the others.
//
// The line is logged before it is acted on. An answer belongs to the attempt that made
// the call, a request or notification to the attempt that has its session. Lines without
// a session go to all attempts; see unrouted for those of an unknown session.
func (s *server) line(line []byte, cut bool) error {
	if cut {
		return fmt.Errorf("a line of more than %d MiB", maxLine>>20)
	}
	m, ok := jsonrpc.Read(line) // logged anyway
	var to *turn
	if ok {
		if m.IsResponse() {
			by, method := s.conn.Caller(m)
			to, _ = by.(*turn)
			if to != nil && (method == "thread/start" || method == "thread/fork") {
				to.setSession(m) // the next lines are already of this session
			}
		} else {
			to = s.turnOf(sessionOf(m))
		}
	}
	kept := slices.Concat(line, []byte{'\n'})
	switch {
	case to != nil:
		m.Line = to.logRaw(kept)
	case sessionOf(m) != "":
		s.unrouted(kept)
	default:
		s.eachTurn(func(t *turn) { t.logRaw(kept) })
	}
	switch {
	case !ok:
	case m.IsResponse():
		to.logRequest("in", line)
		s.conn.Resolve(m)
	case to != nil:
		if m.IsRequest() {
			to.logRequest("in", line)
		}
		to.enqueue(m)
	case m.IsRequest():
		// No attempt has this session, and Codex waits for an answer.
		s.conn.Refuse(nil, m.ID, jsonrpc.InvalidRequest, "no session for this request")
	case sessionOf(m) == "":
		s.eachTurn(func(t *turn) { t.enqueue(m) }) // about the server itself
	}
	return nil
}

// turnOf returns the attempt that works in a session, or nil.
func (s *server) turnOf(session string) *turn {
	if session == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.turns {
		if t.session.Load() == session {
			return t
		}
	}
	return nil
}

// unrouted logs a line whose session no attempt has: to the attempts that have no session
// yet, since it may be theirs, otherwise to all.
func (s *server) unrouted(line []byte) {
	kept := false
	s.eachTurn(func(t *turn) {
		if t.sessionID() == "" {
			t.logRaw(line)
			kept = true
		}
	})
	if !kept {
		s.eachTurn(func(t *turn) { t.logRaw(line) })
	}
}

func (s *server) eachTurn(do func(*turn)) {
	s.mu.Lock()
	guests := slices.Collect(maps.Keys(s.turns))
	s.mu.Unlock()
	for _, t := range guests {
		do(t)
	}
}

// stderrOf writes a server's stderr to the desks of all its attempts, since its lines
// name no session.
type stderrOf struct{ s *server }

func (w stderrOf) Write(p []byte) (int, error) {
	w.s.eachTurn(func(t *turn) { t.writeLog(t.req.Desk.Stderr, p) })
	return len(p), nil
}
