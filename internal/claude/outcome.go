package claude

import (
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
	switch {
	case ctx.Err() != nil && (r == nil || r.IsError):
		return fail(agent.Cancelled, "Claude Code was stopped: the attempt was cancelled (%v)", context.Cause(ctx))
	case errors.Is(why, errTimeout):
		return fail(agent.TimedOut, "Claude Code was stopped: it ran longer than its timeout of %v", t.req.Timeout)
	case errors.Is(why, errIdle):
		return fail(agent.TimedOut, "Claude Code was stopped: it said nothing for %v (idle limit)", t.req.Idle)
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
	text := r.Result
	if text == "" {
		text = t.answer
	}
	if strings.TrimSpace(text) == "" {
		return fail(agent.InvalidOutput, "Claude Code ended its turn without an answer")
	}
	out := agent.Result{Output: []byte(text), Session: t.site.session, Turn: t.turn, Model: t.model, Usage: t.used(),
		Sandbox: t.site.sandbox, Exit: &res.Exit}
	if len(out.Output) > agent.MaxOutput {
		out.Output, out.Truncated = out.Output[:agent.MaxOutput], true
	}
	return out, nil
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
	case 402, 429:
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
	if t.result == nil {
		return agent.Usage{}
	}
	u := t.result.Usage
	return agent.Usage{InputTokens: u.Input + u.Created + u.Cached, CachedInputTokens: u.Cached, OutputTokens: u.Output,
		ReasoningTokens: u.Details.Thinking}
}
