package model

import (
	"context"

	"github.com/plait-run/plait/internal/agent"
)

// question asks a person. It returns the answer for the model if it is no, otherwise "", and
// the action that was approved instead, if any.
func (t *conversation) question(q agent.Question) (no string, instead *agent.Action, err error) {
	if t.req.Ask == nil {
		return "Nobody can be asked. Do without it.", nil, nil
	}
	answered := t.watchdog.Pause()
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

// listen collects what people add until the attempt ends. It is sent to the model with the next
// request.
func (t *conversation) listen() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case a, more := <-t.req.Additions:
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

// additions records what people have added, and returns it. It is delivered once the model has
// answered.
func (t *conversation) additions() ([]agent.Addition, error) {
	t.mu.Lock()
	added := t.added
	t.added = nil
	t.mu.Unlock()
	for _, a := range added {
		if err := t.report(a.Text); err != nil {
			return nil, err
		}
	}
	return added, nil
}
