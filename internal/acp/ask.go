package acp

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/jsonrpc"
)

// A permission is what an agent asks before it uses a tool.
type permission struct {
	Call    call     `json:"toolCall"`
	Options []option `json:"options"`
}

// An option is an answer that an agent offers.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// permit answers whether exactly this may be done: what a wall bounds, yes; else as a person says.
func (t *talk) permit(m jsonrpc.Message, p permission, title string, act agent.Action) {
	yes, err := true, error(nil)
	if !t.site.box.Walled && t.req.Access != agent.Full {
		yes, err = t.ask(title, act)
	}
	chosen := p.choose(yes)
	if !yes || chosen == "" {
		t.mu.Lock()
		t.news.declined(title)
		if u := t.news.tools[p.Call.ID]; u != nil {
			u.declined = true
		}
		t.mu.Unlock()
	}
	outcome := map[string]any{"outcome": "selected", "optionId": chosen}
	if chosen == "" || err != nil {
		outcome = map[string]any{"outcome": "cancelled"}
	}
	t.conn.Answer(t, m.ID, map[string]any{"outcome": outcome}) // harmless when it comes too late
}

// ask puts to a person whether something may be done. When that cannot be, the attempt ends.
func (t *talk) ask(title string, act agent.Action) (bool, error) {
	if t.req.Ask == nil {
		return false, nil
	}
	defer t.patient.Asking()()
	answer, err := t.req.Ask(t.ctx, agent.Question{Text: title, Action: act})
	switch {
	case t.ctx.Err() != nil:
		return false, context.Cause(t.ctx) // whatever the person said, nothing may begin now
	case err != nil:
		t.stop(err)
	}
	return answer.Approved && err == nil, err
}

// choose returns the option that means yes or no to this once, "" when there is none: a yes for ever is never given.
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
