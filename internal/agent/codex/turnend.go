package codex

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/agent"
)

// A turnEnding is how a turn ends.
type turnEnding struct {
	turn    *turnEnd   // what Codex says, nil until it does
	lastErr *turnError // the last error that Codex does not retry
	runaway bool       // the turn may still run in Codex although it was given up
}

// turnError is what app-server says went wrong.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// turnEnd is how a turn ended, in turn/completed.
type turnEnd struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Error  *turnError `json:"error"`
}

// stopped returns the failure of a turn that the watchdog ended.
func (t *turn) stopped(why error) *agent.Failure {
	return &agent.Failure{Kind: agent.TimedOut, Message: "Codex " + t.req.Explain(why)}
}

// interrupt asks Codex to end the turn and waits until it has.
func (t *turn) interrupt() {
	t.cancelAsks("")
	if isClosed(t.srv.done) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.srv.grace)
	defer cancel()
	if t.srv.conn.Call(ctx, t, "turn/interrupt", map[string]any{"threadId": t.sessionID(), "turnId": t.id},
		nil) == nil {
		t.drain(ctx, func() bool { return t.end.turn != nil })
	}
	t.end.runaway = t.end.turn == nil
}

// cleanUp ends the commands that a turn left running, because it was interrupted or put
// them in the background.
func (t *turn) cleanUp() {
	if isClosed(t.srv.done) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.srv.grace)
	defer cancel()
	if t.srv.conn.Call(ctx, t, "thread/backgroundTerminals/clean", map[string]any{"threadId": t.sessionID()},
		nil) == nil {
		t.drain(ctx, func() bool { return len(t.items.running) == 0 })
	}
}

// drain handles messages until enough reports true or ctx ends. Questions are not passed
// on, and errors come too late to matter.
func (t *turn) drain(ctx context.Context, enough func() bool) {
	dead, cancel := context.WithCancel(ctx)
	cancel()
	for {
		for _, m := range t.dequeue() {
			t.receive(dead, m)
		}
		if enough() {
			return
		}
		select {
		case <-t.inbox.wake:
		case <-ctx.Done():
			return
		case <-t.srv.done:
			return
		}
	}
}

// closeItems sends the end of each item that was started and never completed.
func (t *turn) closeItems() {
	for _, it := range t.items.running {
		if ev, ok := it.event("failed"); ok {
			t.send(ev)
		}
	}
	t.items.running = nil
}
