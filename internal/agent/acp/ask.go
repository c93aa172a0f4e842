package acp

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// A permission is a request for permission to use a tool.
type permission struct {
	Call    call     `json:"toolCall"`
	Options []option `json:"options"`
}

// An option is an answer that the agent offers.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// permit answers a request for permission: yes in a sandbox, otherwise as a person decides.
func (t *conversation) permit(m jsonrpc.Message, p permission, title string, act agent.Action) {
	yes, err := true, error(nil)
	if !t.setup.Sandbox.Enforced && t.req.Access != agent.Full {
		yes, err = t.ask(title, act)
	}
	chosen := p.choose(yes)
	if !yes || chosen == "" {
		t.mu.Lock()
		t.updates.declined(title)
		if u := t.updates.tools[p.Call.ID]; u != nil {
			u.declined = true
		}
		t.mu.Unlock()
	}
	outcome := map[string]any{"outcome": "selected", "optionId": chosen}
	if chosen == "" || err != nil {
		outcome = map[string]any{"outcome": "cancelled"}
	}
	t.conn.Answer(t, m.ID, map[string]any{"outcome": outcome}) // harmless if it is too late
}

// ask asks a person for approval. If that fails, the attempt ends.
func (t *conversation) ask(title string, act agent.Action) (bool, error) {
	if t.req.Ask == nil {
		return false, nil
	}
	defer t.watchdog.Pause()()
	answer, err := t.req.Ask(t.ctx, agent.Question{Text: title, Action: act})
	switch {
	case t.ctx.Err() != nil:
		return false, context.Cause(t.ctx) // whatever the answer is, nothing may start now
	case err != nil:
		t.stop(err)
	}
	return answer.Approved && err == nil, err
}

// choose returns the option for allowing or rejecting this once, "" if there is none. It never
// allows always.
func (p permission) choose(yes bool) string {
	kinds := []string{"reject_once", "reject_always"}
	if yes {
		kinds = []string{"allow_once"}
	}
	for _, kind := range kinds {
		if i := slices.IndexFunc(p.Options, func(o option) bool { return o.Kind == kind }); i >= 0 {
			return p.Options[i].ID
		}
	}
	return ""
}
