package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
)

// outcome returns the result or failure of the attempt.
func (t *conversation) outcome(ctx context.Context, why error, res proc.Result) (agent.Result, error) {
	out, err := t.ended(ctx, why, res)
	var f *agent.Failure
	if errors.As(err, &f) && t.refused(f) {
		t.giveUp(f)
	}
	return out, err
}

// refused reports whether the conversation cannot be continued: the server refuses it, or a branch had no answer in two
// attempts, for another reason than the key or a limit.
func (t *conversation) refused(f *agent.Failure) bool {
	switch {
	case f.Kind == agent.Cancelled:
		return false
	case t.result != nil && t.result.APIStatus != nil:
		switch *t.result.APIStatus {
		case 400, 413:
			return true
		case 401, 402, 403, 404, 429:
			return false
		}
	}
	return t.turn == "" && t.req.From != nil && t.req.Try > 1
}

// giveUp makes the next attempt begin a new conversation.
func (t *conversation) giveUp(f *agent.Failure) {
	if t.turn == "" && t.req.Session == "" && t.req.From == nil {
		return // there is none but the prompt
	}
	f.Final, f.Session = false, ""
	f.Message += "; the next attempt begins a new conversation"
	if t.req.From != nil { // the same would be branched off again, unless there is a session that cannot be continued
		f.Session = t.setup.session
		t.setup.forget()
	}
}

// ended returns the result or failure as Claude Code reports it.
func (t *conversation) ended(ctx context.Context, why error, res proc.Result) (agent.Result, error) {
	f := &agent.Failure{Kind: agent.Infra, Session: t.setup.session, Model: t.model, Usage: t.setup.Used(t.spent)}
	fail := func(kind, format string, args ...any) (agent.Result, error) {
		f.Kind, f.Message = kind, fmt.Sprintf(format, args...)
		return agent.Result{}, f
	}
	if t.turn == "" {
		f.Session = "" // nothing of it was saved, so it cannot be continued
	}
	r := t.result
	stopped := r == nil || r.IsError // a result after a stop does not count
	switch {
	case stopped && ctx.Err() != nil:
		return fail(agent.Cancelled, "Claude Code was stopped: the attempt was cancelled (%v)", context.Cause(ctx))
	case stopped && (errors.Is(why, agent.ErrTimeout) || errors.Is(why, agent.ErrIdle)):
		return fail(agent.TimedOut, "Claude Code %s", t.req.Explain(why))
	case r == nil && errors.Is(why, errTooMuch):
		return fail(agent.Limit, "Claude Code was stopped: it had over %d open requests", maxOpen)
	case r == nil && why != nil && !errors.Is(why, errOver):
		return agent.Result{}, why // a question could not be asked
	case r == nil && res.Signal != 0:
		return fail(agent.Infra, "Claude Code was killed by signal %v before it had answered", res.Signal)
	case r == nil:
		return fail(agent.Infra, "Claude Code ended with exit code %d before it had answered", res.Exit)
	case r.IsError:
		f.Kind, f.Final, f.Message = kindOf(r)
		return agent.Result{}, f
	}
	text := t.setup.text(cmp.Or(r.Result, t.answer), r.Shaped)
	if strings.TrimSpace(text) == "" {
		return fail(agent.InvalidOutput, "Claude Code ended its turn without an answer")
	}
	out := agent.Result{Output: []byte(text), Session: t.setup.session, Turn: t.turn, Model: t.model,
		Version: t.setup.program.Version, Usage: t.setup.Used(t.spent),
		Sandbox: t.setup.Sandbox.String() + t.setup.Gateway.Bypassed(), Exit: &res.Exit}
	return out.Clipped(), nil
}

// kindOf returns the kind of failure for the end of a turn.
func kindOf(r *result) (kind string, final bool, said string) {
	said = r.Result
	if said == "" {
		said = strings.Join(r.Errors, "; ")
	}
	said = "Claude Code: " + text.Clip(said, 2000)
	status := 0
	if r.APIStatus != nil {
		status = *r.APIStatus
	}
	switch status {
	case 401, 403:
		return agent.Infra, true, said + "; check ANTHROPIC_API_KEY, or log in with `claude`"
	case 402:
		return agent.Limit, true, said
	case 429:
		return agent.Limit, false, said
	case 400, 404, 413:
		return agent.Infra, true, said
	}
	return agent.Infra, false, said
}

// plus adds the usage of a turn.
func plus(u agent.Usage, r result) agent.Usage {
	of := r.Usage
	u.InputTokens += of.Input + of.Created + of.Cached
	u.CachedInputTokens += of.Cached
	u.OutputTokens += of.Output
	u.ReasoningTokens += of.Details.Thinking
	return u
}
