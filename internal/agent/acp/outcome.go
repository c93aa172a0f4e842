package acp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
)

// outcome returns the result or failure of the attempt.
func (t *conversation) outcome(ctx context.Context, why error, end ending, res proc.Result) (agent.Result, error) {
	out, err := t.result(ctx, why, end, res)
	var f *agent.Failure
	if errors.As(err, &f) && t.refused(f, end) {
		f.Session = ""
		if t.req.Session != "" || f.Usage.OutputTokens > 0 { // not only the prompt
			f.Final = false
			f.Message += "; the next attempt begins a new conversation"
		}
	}
	return out, err
}

// refused reports whether the conversation cannot be continued: the model's server refuses it, or two attempts had no
// answer, for another reason than the key or a limit.
func (t *conversation) refused(f *agent.Failure, end ending) bool {
	switch t.failed.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return f.Kind == agent.Infra
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusTooManyRequests:
		return false
	}
	answered := t.updates.responses > 0 && end.stop != "refusal" && end.stop != "max_tokens" || len(t.updates.tools) > 0
	return !answered && t.req.Session != "" && t.req.Try > 1 && f.Kind != agent.Cancelled && !f.Final
}

// result returns the result or failure as the agent reports it.
func (t *conversation) result(ctx context.Context, why error, end ending, res proc.Result) (agent.Result, error) {
	f := &agent.Failure{Kind: agent.Infra, Session: t.session, Model: t.model(end), Usage: t.setup.Used(end.usage)}
	fail := func(kind, format string, args ...any) (agent.Result, error) {
		f.Kind, f.Message = kind, t.title()+" "+fmt.Sprintf(format, args...)
		return agent.Result{}, f
	}
	var own *agent.Failure
	var said *jsonrpc.Error
	switch {
	case ctx.Err() != nil && (why != nil || end.err != nil): // otherwise it had answered before
		return fail(agent.Cancelled, "was stopped: the attempt was cancelled (%v)", context.Cause(ctx))
	case errors.Is(why, agent.ErrTimeout), errors.Is(why, agent.ErrIdle):
		return fail(agent.TimedOut, "%s", t.req.Explain(why))
	case errors.Is(why, errFailing):
		return fail(t.failureKind(f), "was stopped: its model failed %d times in a row: %s", maxFailed, t.status())
	case errors.Is(why, errTooMuch):
		return fail(agent.Limit, "was stopped: it had over %d open requests, or over %d tool calls", maxOpen, maxTools)
	case why != nil:
		return agent.Result{}, why // a question could not be asked
	case errors.As(end.err, &own):
		return agent.Result{}, own
	case errors.As(end.err, &said):
		if !t.live {
			f.Session = "" // it cannot be continued: the next attempt starts a new one
		}
		kind := t.failureKind(f)
		f.Final = f.Final || said.Code == authRequired
		return fail(kind, "says: %s%s", text.Clip(end.err.Error(), 2000), t.advice(said))
	case errors.Is(end.err, jsonrpc.ErrFull):
		return fail(agent.Limit, "was stopped: it does not read its input")
	case errors.Is(end.err, jsonrpc.ErrGone) && res.Signal != 0:
		return fail(agent.Infra, "was killed by signal %v before it had answered", res.Signal)
	case errors.Is(end.err, jsonrpc.ErrGone):
		return fail(agent.Infra, "ended with exit code %d before it had answered", res.Exit)
	case errors.Is(end.err, context.DeadlineExceeded):
		return fail(agent.Infra, "had opened no session after %v", startTime)
	case end.err != nil:
		return fail(agent.Infra, "was not understood: %v", end.err)
	}
	return t.ended(f, fail, end, res)
}

// ended returns the outcome of a turn that ended.
func (t *conversation) ended(f *agent.Failure, fail func(kind, format string, args ...any) (agent.Result, error),
	end ending,
	res proc.Result) (agent.Result, error) {
	output, err := []byte(t.updates.answer), error(nil)
	d := t.setup.delivery
	handed := d != nil && d.submitted()
	if handed {
		if output, err = d.answer(t.updates.answer); err != nil {
			return fail(agent.InvalidOutput, "submitted an unreadable answer: %v", err)
		}
	} else if object, err := frontMatter(output, ""); d != nil && err == nil {
		output = object
	}
	empty := strings.TrimSpace(string(output)) == ""
	switch {
	case empty && t.updates.denied != "":
		return fail(agent.Refused, "ended its turn because it was not permitted: %s", t.updates.denied)
	case empty && t.updates.modelError != "":
		return fail(t.failureKind(f), "says: %s", text.Clip(t.updates.modelError, 2000))
	case empty && t.failed.Times > 0:
		return fail(t.failureKind(f), "ended its turn without an answer: its model failed: %s", t.status())
	case t.failed.Times > 0 && !handed: // its last text is older, or explains the failure
		return fail(t.failureKind(f), "ended its turn though its model failed (%s): %s", t.status(),
			text.Clip(strings.TrimSpace(string(output)), 2000))
	case end.stop == "refusal":
		return fail(agent.Refused, "refused the prompt")
	case end.stop == "max_tokens", end.stop == "max_turn_requests":
		return fail(agent.Limit, "was stopped by a limit of its own: %s", end.stop)
	case end.stop != "end_turn":
		return fail(agent.Infra, "ended its turn by itself: %s", cmp.Or(text.Clip(end.stop, 100), "it gave no reason"))
	case empty:
		return fail(agent.InvalidOutput, "ended its turn without an answer")
	}
	out := agent.Result{Output: output, Session: t.session, Model: f.Model, Usage: f.Usage,
		Version: t.setup.version, Sandbox: t.setup.Sandbox.String(), Exit: &res.Exit}
	if t.updates.hadText {
		out.Sandbox += t.setup.Gateway.Bypassed()
	}
	if res.Signal != 0 {
		out.Exit = nil
	}
	return out.Clipped(), nil
}

// failureKind returns the kind of a failure as seen by the gateway, and sets whether it is final.
// Agents describe failures in their own words, if at all.
func (t *conversation) failureKind(f *agent.Failure) string {
	switch t.failed.Status {
	case http.StatusPaymentRequired:
		f.Final = true
		return agent.Limit
	case http.StatusTooManyRequests:
		return agent.Limit
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusRequestEntityTooLarge:
		f.Final = true
	}
	return agent.Infra
}

// status returns the last response of the model's server, for people.
func (t *conversation) status() string {
	status := t.failed.Status
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}

// authRequired is the protocol's code for an agent that is not logged in.
const authRequired = -32000

// advice says what to do about an error.
func (t *conversation) advice(e *jsonrpc.Error) string {
	if len(e.Data) > 0 && string(e.Data) != "null" {
		return " (" + text.Clip(string(e.Data), 500) + ")"
	}
	if e.Code == authRequired {
		login, _ := Login(t.setup.agent.host, t.setup.agent.kind, Config{})
		return "; " + login.Do
	}
	return ""
}

// model returns the model's name: from the definition, otherwise as the agent reports it.
func (t *conversation) model(end ending) string {
	if t.setup.agent.cfg.Model != "" {
		return t.setup.agent.cfg.Model
	}
	return end.model
}
