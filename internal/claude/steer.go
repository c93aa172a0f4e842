package claude

import (
	"context"

	"github.com/google/uuid"

	"github.com/plait-run/plait/internal/agent"
)

// An addition is what a person added, on its way to the model.
type addition struct {
	agent.Addition
	begun bool // Claude Code has taken it into a turn
}

// speak says the prompt, and then what people add. What comes once it has answered is left to whoever works next.
func (t *talk) speak(ctx context.Context) {
	t.say(userLine("", t.req.Prompt))
	for {
		select {
		case <-ctx.Done():
			return
		case said, ok := <-t.req.More:
			if !ok {
				return
			}
			id := uuid.NewString()
			if !t.add(id, said) {
				return
			}
			t.say(userLine(id, said.Text))
		}
	}
}

// add notes what a person added, before it is said. It reports false when Claude Code has answered.
func (t *talk) add(id string, said agent.Addition) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered {
		return false
	}
	t.added[id] = &addition{Addition: said}
	return true
}

// handed notes how far what a person added has come: queued, then started with the model's next request.
func (t *talk) handed(m message) {
	t.mu.Lock()
	a := t.added[m.Command]
	t.mu.Unlock()
	switch {
	case a == nil: // the prompt
	case m.State == "queued":
		t.event(agent.Event{Kind: agent.EventProgress, Text: "told: " + a.Text})
	case m.State == "started":
		a.begun = true
	}
}

// hear notes that the model answers: it has before it what was begun.
func (t *talk) hear() {
	t.mu.Lock()
	var heard []*addition
	for id, a := range t.added {
		if a.begun {
			heard = append(heard, a)
			delete(t.added, id)
		}
	}
	t.mu.Unlock()
	for _, a := range heard {
		a.Heard()
	}
}

// end takes the end of a turn. What was added too late for it makes a further turn, whose answer then counts.
func (t *talk) end(r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent = plus(t.spent, r)
	if t.ctx.Err() != nil { // it was told to stop
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
	t.in.Close() // it ends when nothing more can be said
	if len(t.added) > 0 {
		t.stop(errOver) // it would fail once more
	}
}
