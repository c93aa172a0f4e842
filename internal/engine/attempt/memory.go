package attempt

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/thread"
)

// crowdedAt is the part of the quota at which a conversation is summarised, and a session not continued.
const crowdedAt = 0.9

// Crowded reports whether so many tokens are too much of the quota for another turn.
func (c *Thread) Crowded(tokens int) bool {
	return float64(tokens) >= crowdedAt*float64(c.Def.Context.Tokens)
}

// quota returns how many tokens a prompt has for steps: the summary takes its part.
func (c *Thread) quota() int {
	if c.beginning().IsZero() {
		return c.Def.Context.Tokens
	}
	return max(c.Def.Context.Tokens-prompt.ApproxTokens(c.Summed), 0)
}

// told reports whether the route to a role says the task: with another task it would say that one.
func (c *Thread) told(d flow.Run) bool {
	if d.Prompt == c.Prompt || !strings.Contains(d.Prompt, strings.TrimRight(c.Prompt, "\n")) {
		return d.Prompt == c.Prompt
	}
	const other = "(another task)"
	at := c.At()
	at.Prompt = other
	would, _ := flow.Next(c.Def, at, c.Last).(flow.Run)
	return strings.Contains(would.Prompt, other)
}

// fresh reports whether a session begins where a prompt would: with the last summary, or at the beginning.
func (e *Runner) fresh(c *Thread, s session) bool {
	switch {
	case s.memory != nil:
		return s.memory.Summary == c.beginning()
	case s.last.IsZero():
		return c.Summary.IsZero() || s.from == c.Row.Head
	}
	return c.Summary.IsZero() || e.cfg.Player != nil // older releases continued it
}

// beginning returns the step with whose summary a prompt begins, zero for none.
func (c *Thread) beginning() dag.Hash {
	if record.WholeContext(c.Row) {
		return dag.Hash{}
	}
	return c.Summary
}

// held returns how many tokens a session would hold of the conversation, with the steps since its last turn but
// without what a person said last.
func (e *Runner) held(ctx context.Context, c *Thread, s session) (int, error) {
	switch {
	case s.last.IsZero():
		return 0, nil
	case s.memory == nil && e.cfg.Player != nil:
		return 0, nil
	case s.memory == nil:
		return prompt.ApproxTokens(c.Talk), nil
	}
	bytes, newest := 0, true
	for step, err := range e.cfg.Record.Nodes().Walk(ctx, c.Row.Head) {
		if err != nil {
			return 0, err
		}
		if step.Hash == s.knows {
			break
		}
		if newest = newest && step.State.Role == thread.RoleInput; newest {
			continue
		}
		text, err := e.cfg.Record.Nodes().Text(ctx, step.State.Content)
		if err != nil {
			return 0, err
		}
		bytes += len(text)
	}
	return int(s.memory.Tokens) + prompt.ApproxTokens(bytes), nil
}

// Held is like held, for the session that an agent would continue for a role. It reports false if there is none.
func (e *Runner) Held(ctx context.Context, c *Thread, role string, w Worker) (tokens int, continues bool, err error) {
	s, ok := c.sessions[role]
	if _, can := w.Agent.(agent.Continuer); !ok || !can || s.gone || s.foreign || !e.fresh(c, s) {
		return 0, false, nil
	}
	tokens, err = e.held(ctx, c, s)
	return tokens, true, err
}

// recall reads what the sessions of a thread hold.
func (e *Runner) recall(ctx context.Context, c *Thread) error {
	for role, s := range c.sessions {
		if s.last.IsZero() || s.foreign {
			continue
		}
		state, err := e.cfg.Record.Nodes().State(ctx, s.last)
		if err != nil {
			return err
		}
		d, err := e.cfg.Record.Nodes().Detail(ctx, state.Detail)
		if err != nil {
			return err
		}
		if d != nil && d.Session == s.id {
			s.memory = d.Memory
			c.sessions[role] = s
		}
	}
	return nil
}

// memory returns what the session of an attempt holds after it. The size of the requests says it, if they were
// seen; otherwise it is what the agent was told, said, and saw of its commands and tools.
func (e *Runner) memory(c *Thread, p *Prepared, result agent.Result) *thread.Memory {
	m := thread.Memory{Summary: c.beginning()}
	if p.in.memory != nil {
		m = *p.in.memory
	}
	switch then := p.kept.memory; {
	case result.Session == "":
		return nil
	case e.cfg.Player != nil && then == nil:
		return nil
	case e.cfg.Player != nil:
		m.Tokens, m.Bare = then.Tokens, then.Bare
		return &m
	}
	told := quotedTokens(p.Prompt.Text[p.talk:])
	for _, a := range p.tries.earlier {
		if a.Session == p.in.session && p.in.session != "" {
			m.Tokens += told // about that
		}
	}
	if first, last := p.kept.requests[0], p.kept.requests[1]; last > 0 {
		if m.Bare == 0 || p.in.from != nil {
			m.Bare = max(first-m.Tokens-told, 0)
		}
		m.Tokens = max(last-m.Bare, 0) + quotedTokens(string(result.Output))
		return &m
	}
	m.Tokens += told + int64(prompt.ApproxTokens(p.activity.Told())) +
		max(quotedTokens(string(result.Output)), result.Usage.OutputTokens)
	return &m
}

// quotedTokens estimates the tokens of a text in a request.
func quotedTokens(text string) int64 {
	quoted, _ := json.Marshal(text) // every string can be
	return int64(prompt.ApproxTokens(len(quoted)))
}
