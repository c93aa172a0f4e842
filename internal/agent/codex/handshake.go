package codex

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// handshake initializes the server. Its calls are those of [Version], the oldest that is used; a later one that lacks
// a call says so when it is called.
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
	return nil
}
