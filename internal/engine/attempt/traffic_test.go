package attempt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
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
				call := &agent.Call{Method: "POST", Path: "/messages", Body: bytes.Repeat([]byte("x"), store.MaxInline+1)}
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
			out, err := h.Run(t.Context(), c, p, Means{})
			var failed *agent.Failure
			if out != nil || !errors.Is(err, syscall.ENOSPC) || errors.As(err, &failed) ||
				!strings.Contains(err.Error(), "keep the requests to the model: ") {
				t.Errorf("outcome %v, error %v", out, err)
			}
			if row, err := h.store.Attempt(t.Context(), p.Row.ID); err != nil || !row.Calls.IsZero() {
				t.Errorf("the row has calls %s: %v", row.Calls.Short(), err)
			}
		})
	}
}

// A slowStore stages nothing until it is released.
type slowStore struct {
	store.Store
	release chan struct{}
}

func (s slowStore) Stage(ctx context.Context, pin string, r io.Reader) (dag.Hash, int64, error) {
	<-s.release
	return s.Store.Stage(ctx, pin, r)
}

// A toldPurse never runs out, and tells what is spent.
type toldPurse chan store.Usage

func (toldPurse) Reserve(context.Context, store.Usage) (*store.Reason, error) { return nil, nil }
func (p toldPurse) Spend(_, used store.Usage)                                 { p <- used }

// TestRecordingThatIsSlow checks that while calls cannot be kept as fast as they are made, a call that has to wait
// can be cancelled, and calls that end are still counted.
func TestRecordingThatIsSlow(t *testing.T) {
	const waiting = 65 // one is being kept, others are to follow
	spent, release := make(toldPurse, waiting+1), make(chan struct{})
	next := func(what string) store.Usage {
		select {
		case u := <-spent:
			return u
		case <-time.After(time.Minute):
			t.Errorf("%s is not counted", what)
			return store.Usage{}
		}
	}
	h := newHouse(t, "read", housetest.Role(func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (
		agent.Result, error) {
		call := func() *agent.Call {
			return &agent.Call{Method: "POST", Path: "/messages", Body: bytes.Repeat([]byte("x"), store.MaxInline+1)}
		}
		var calls []*agent.Call
		for range waiting {
			c := call()
			if _, err := req.Traffic.Begin(ctx, c); err != nil {
				return agent.Result{}, err
			}
			calls = append(calls, c)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		refused := make(chan error, 1)
		go func() {
			_, err := req.Traffic.Begin(gone, call())
			refused <- err
		}()
		if used := next("a call that was cancelled"); used != (store.Usage{}) {
			t.Errorf("a call that was cancelled used %v", used)
		}
		ended := make(chan bool)
		for _, c := range calls {
			go func() {
				req.Traffic.End(c, agent.Reply{Status: 200}, agent.Usage{InputTokens: 1})
				ended <- true
			}()
		}
		for range calls {
			if used := next("a call that ended"); used.InputTokens != 1 {
				t.Errorf("a call that ended used %v", used)
				break
			}
		}
		close(release)
		for range calls {
			<-ended
		}
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call: %v", err)
		}
		return agent.Result{Output: []byte(`{"$status":"done"}`)}, nil
	}))
	h.cfg.Store = slowStore{h.store, release}
	h.options = func(c *Thread) {
		c.Options.Record = true
		c.Purse = func(string) Purse { return spent }
	}
	if _, err := h.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}
