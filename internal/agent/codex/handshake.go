package codex

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// required are the calls without which no attempt can be made.
var required = []string{"thread/start", "thread/resume", "thread/fork", "turn/start", "turn/interrupt"}

var methodName = regexp.MustCompile("`([A-Za-z]+/[A-Za-z/_]+)`")

// handshake initializes the server and finds out what it can do: calling a method that
// does not exist makes it list all it has.
func (s *server) handshake(t *turn) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.startup)
	defer cancel()
	fail := func(err error) error {
		if errors.Is(err, jsonrpc.ErrGone) {
			<-s.done
			err = errors.New(s.how)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it did not answer within %v", s.startup)
		}
		return &agent.Failure{Kind: agent.Infra, Message: "Codex's app-server did not start: " + err.Error()}
	}
	hello := map[string]any{
		"clientInfo":   map[string]any{"name": "plait", "title": "Plait", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}
	if err := s.conn.Call(ctx, t, "initialize", hello, nil); err != nil {
		return fail(err)
	}
	if err := s.conn.Notify(t, "initialized", nil); err != nil {
		return fail(err)
	}
	err := s.conn.Call(ctx, t, "plait/methods", map[string]any{}, nil)
	var said *jsonrpc.Error
	if !errors.As(err, &said) {
		return fail(fmt.Errorf("it answered a method that does not exist: %w", err))
	}
	s.methods = map[string]bool{}
	for _, m := range methodName.FindAllStringSubmatch(said.Message, -1) {
		s.methods[m[1]] = true
	}
	delete(s.methods, "plait/methods")
	if len(s.methods) == 0 {
		return nil // it no longer lists them: find out by calling
	}
	for _, m := range required {
		if !s.methods[m] {
			return agent.Final("this Codex has no %s: it is too old, or too new; %s", m, Package.Install())
		}
	}
	return nil
}

// supports reports whether the server has a method; a server that listed none may have any.
func (s *server) supports(method string) bool { return len(s.methods) == 0 || s.methods[method] }
