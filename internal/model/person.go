package model

import (
	"context"

	"github.com/plait-run/plait/internal/agent"
)

// question puts a question to a person. It returns what the model is told when the answer is no, else "", and what is
// approved in the place of what was asked for.
func (t *talk) question(q agent.Question) (no string, instead *agent.Action, err error) {
	if t.req.Ask == nil {
		return "Nobody can be asked. Do without it.", nil, nil
	}
	answered := t.patient.Asking()
	answer, err := t.req.Ask(t.ctx, q)
	answered()
	switch {
	case t.ctx.Err() != nil:
		return "", nil, context.Cause(t.ctx)
	case err != nil:
		return "", nil, err
	case answer.Approved:
		return "", answer.Edited, nil
	case answer.Text != "":
		return "A person said no: " + answer.Text, nil, nil
	}
	return "A person said no. Do without it, or do it differently.", nil, nil
}

// listen takes what people add until the attempt ends. It is told to the model before its next request.
func (t *talk) listen() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case a, more := <-t.req.More:
			if !more {
				return
			}
			t.mu.Lock()
			t.added = append(t.added, a)
			t.mu.Unlock()
			told := "told: " + a.Text
			t.log.note(object{"type": "added", "text": told})
			if err := t.event(agent.Event{Kind: agent.EventProgress, Text: told}); err != nil {
				t.stop(err)
				return
			}
		}
	}
}

// additions notes what people have added, and returns it: it is heard when the model has answered.
func (t *talk) additions() ([]agent.Addition, error) {
	t.mu.Lock()
	added := t.added
	t.added = nil
	t.mu.Unlock()
	for _, a := range added {
		if err := t.tell(a.Text); err != nil {
			return nil, err
		}
	}
	return added, nil
}
