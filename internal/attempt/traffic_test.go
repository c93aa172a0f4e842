package attempt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/housetest"
	"github.com/plait-run/plait/internal/store"
)

// A fullStore stages nothing.
type fullStore struct{ store.Store }

func (fullStore) Stage(context.Context, string, io.Reader) (dag.Hash, int64, error) {
	return dag.Hash{}, 0, syscall.ENOSPC
}

// TestRecordingThatFails checks that an attempt whose calls cannot be kept ends with an error, even if the agent
// failed too: its row must not name bytes that do not exist.
func TestRecordingThatFails(t *testing.T) {
	for name, end := range map[string]error{
		"the agent is done": nil, "the agent fails": &agent.Failure{Kind: agent.Infra, Message: "broke"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "read", housetest.Role(func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (
				agent.Result, error) {
				call := &agent.Call{Method: "POST", Path: "/messages", Body: bytes.Repeat([]byte("x"), maxInline+1)}
				if _, err := req.Traffic.Begin(ctx, call); err != nil {
					return agent.Result{}, err
				}
				req.Traffic.End(call, agent.Reply{Status: 200}, agent.Usage{})
				return agent.Result{Output: []byte(`{"$status":"done"}`)}, end
			}))
			h.cfg.Store = fullStore{h.store}
			c, err := h.Thread(t.Context(), h.row)
			if err != nil {
				t.Fatal(err)
			}
			c.Options.Record = true
			p, err := h.Prepare(t.Context(), c, c.Next().(flow.Run), "")
			if err != nil {
				t.Fatal(err)
			}
			attempts, events := p.Begun(h.row)
			begin := store.Batch{Objects: p.Objects, Attempts: attempts, Events: events}
			if err := h.store.Commit(t.Context(), begin); err != nil {
				t.Fatal(err)
			}
			_, fail, err := h.Run(t.Context(), c, p)
			var failed *agent.Failure
			if fail != nil || !errors.Is(err, syscall.ENOSPC) || errors.As(err, &failed) ||
				!strings.Contains(err.Error(), "keep the requests to the model: ") {
				t.Errorf("failure %v, error %v", fail, err)
			}
			if row, err := h.store.Attempt(t.Context(), p.Row.ID); err != nil || !row.Calls.IsZero() {
				t.Errorf("the row has calls %s: %v", row.Calls.Short(), err)
			}
		})
	}
}
