package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/proc"
)

// outcome is what came of the attempt.
func (t *talk) outcome(ctx context.Context, why error, res proc.Result) (agent.Result, error) {
	f := &agent.Failure{Kind: agent.Infra, Session: t.site.session, Model: t.model, Usage: t.used()}
	fail := func(kind, format string, args ...any) (agent.Result, error) {
		f.Kind, f.Message = kind, fmt.Sprintf(format, args...)
		return agent.Result{}, f
	}
	if t.turn == "" {
		f.Session = "" // nothing of it was kept: it cannot be continued
	}
	r := t.result
	stopped := r == nil || r.IsError // what it says once it was stopped does not count
	switch {
	case stopped && ctx.Err() != nil:
		return fail(agent.Cancelled, "Claude Code was stopped: the attempt was cancelled (%v)", context.Cause(ctx))
	case stopped && (errors.Is(why, agent.ErrTimeout) || errors.Is(why, agent.ErrIdle)):
		return fail(agent.TimedOut, "Claude Code %s", t.req.Stopped(why))
	case r == nil && why != nil && !errors.Is(why, errOver):
		return agent.Result{}, why // a question could not be put
	case r == nil && res.Signal != 0:
		return fail(agent.Infra, "Claude Code was killed by signal %v before it had answered", res.Signal)
	case r == nil:
		return fail(agent.Infra, "Claude Code ended with exit code %d before it had answered", res.Exit)
	case r.IsError:
		f.Kind, f.Final, f.Message = kindOf(r)
		return agent.Result{}, f
	}
	text := t.site.text(cmp.Or(r.Result, t.answer), r.Shaped)
	if strings.TrimSpace(text) == "" {
		return fail(agent.InvalidOutput, "Claude Code ended its turn without an answer")
	}
	out := agent.Result{Output: []byte(text), Session: t.site.session, Turn: t.turn, Model: t.model, Usage: t.used(),
		Sandbox: t.site.box.String() + t.site.gateway.Bypassed(), Exit: &res.Exit}
	return out.Clipped(), nil
}

// kindOf is what kind of failure the end of a turn is.
func kindOf(r *result) (kind string, final bool, text string) {
	text = r.Result
	if text == "" {
		text = strings.Join(r.Errors, "; ")
	}
	text = "Claude Code: " + agent.Clip(text, 2000)
	status := 0
	if r.APIStatus != nil {
		status = *r.APIStatus
	}
	switch status {
	case 401, 403:
		return agent.Infra, true, text + "; check ANTHROPIC_API_KEY, or log in with `claude`"
	case 402:
		return agent.Limit, true, text
	case 429:
		return agent.Limit, false, text
	case 400, 404, 413:
		return agent.Infra, true, text
	}
	return agent.Infra, false, text
}

// used is what the attempt used: by the gateway's count, else as Claude Code says.
func (t *talk) used() agent.Usage {
	if t.site.gateway != nil {
		u := t.site.gateway.Used()
		return agent.Usage{InputTokens: u.Input, CachedInputTokens: u.Cached, OutputTokens: u.Output}
	}
	return t.spent
}

// plus is what was used with what a turn used beside it.
func plus(u agent.Usage, r result) agent.Usage {
	of := r.Usage
	u.InputTokens += of.Input + of.Created + of.Cached
	u.CachedInputTokens += of.Cached
	u.OutputTokens += of.Output
	u.ReasoningTokens += of.Details.Thinking
	return u
}
