package claude

import (
	"context"

	"github.com/google/uuid"

	"github.com/plait-run/plait/internal/agent"
)

// An addition is a person's message on its way to the model.
type addition struct {
	agent.Addition
	started bool // it is part of a turn
}

// sendPrompts sends the prompt, and then what people add. What comes after the answer is left to the next agent.
func (t *conversation) sendPrompts(ctx context.Context) {
	t.send(userLine("", t.req.Prompt))
	for {
		select {
		case <-ctx.Done():
			return
		case said, ok := <-t.req.Additions:
			if !ok {
				return
			}
			id := uuid.NewString()
			if !t.add(id, said) {
				return
			}
			t.send(userLine(id, said.Text))
		}
	}
}

// add registers a message before it is sent. It reports false if Claude Code has already answered.
func (t *conversation) add(id string, said agent.Addition) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered {
		return false
	}
	t.added[id] = &addition{Addition: said}
	return true
}

// commandState handles a change in the state of a message: queued, then started with the model's next request.
func (t *conversation) commandState(m message) {
	t.mu.Lock()
	a := t.added[m.Command]
	t.mu.Unlock()
	switch {
	case a == nil: // the prompt
	case m.State == "queued":
		t.event(agent.Event{Kind: agent.EventProgress, Text: "told: " + a.Text})
	case m.State == "started":
		a.started = true
	}
}

// delivered reports messages as delivered: the model is answering, so it has received those that were started.
func (t *conversation) delivered() {
	t.mu.Lock()
	var heard []*addition
	for id, a := range t.added {
		if a.started {
			heard = append(heard, a)
			delete(t.added, id)
			t.result = nil // an answer before it does not count
		}
	}
	t.mu.Unlock()
	for _, a := range heard {
		a.Delivered()
	}
}

// end handles the end of a turn. A message that came too late for it starts another turn, whose answer then counts.
func (t *conversation) end(r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent = plus(t.spent, r)
	if t.ctx.Err() != nil { // it was interrupted
		select {
		case t.halted <- struct{}{}:
		default:
		}
		return
	}
	t.result = &r
	if len(t.added) > 0 && !r.IsError {
		return
	}
	t.answered = true
	t.in.Close() // it exits when its input is closed
	if len(t.added) > 0 {
		t.stop(errOver) // another turn would fail again
	}
}
