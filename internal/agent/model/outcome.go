package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
)

// failure returns the failure for an error of an attempt. Errors of Plait itself are returned as
// they are.
func (t *conversation) failure(ctx context.Context, err error) error {
	f := &agent.Failure{}
	var why *serverError
	switch {
	case t.fault != nil:
		return t.fault
	case t.log.fault != nil:
		return t.log.fault
	case ctx.Err() != nil:
		f.Kind, f.Message = agent.Cancelled, fmt.Sprintf("the attempt was cancelled (%v)", context.Cause(ctx))
	case errors.Is(err, agent.ErrTimeout):
		f.Kind, f.Message = agent.TimedOut, fmt.Sprintf("it took longer than its timeout of %v", t.req.Timeout)
	case errors.Is(err, agent.ErrIdle):
		f.Kind, f.Message = agent.TimedOut, fmt.Sprintf("there was no output for %v (idle limit)", t.watchdog.Idle)
	case errors.As(err, &why):
		f = t.refused(why)
	case !errors.As(err, &f):
		return err
	}
	f.Model, f.Usage, f.Session = t.model, t.used, t.session.id
	if why != nil && why.forGood() || t.session.unanswered() >= maxUnanswered && !passing(f, why) {
		f.Session = ""         // it would fail next time too
		if t.req.From != nil { // the same would be branched off again, unless there is a session that cannot be continued
			f.Session = t.session.id
			if err := t.session.file.Truncate(0); err != nil {
				return fmt.Errorf("give up a conversation: %w", err)
			}
		}
	}
	return f
}

// maxUnanswered is after how many attempts in a row without an answer a conversation is given up.
const maxUnanswered = 2

// passing reports whether a failure has nothing to do with the conversation.
func passing(f *agent.Failure, why *serverError) bool {
	if why == nil {
		return f.Kind == agent.Cancelled
	}
	switch why.status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusTooManyRequests:
		return true
	}
	return why.ours() || why.unpaid() || why.after > maxPause
}

// toolless are words of servers whose model has no tools.
var toolless = rarely(`(?i)(support|available|enable|require)\w*.{0,60}` +
	`\b(tools?\b|tool.(use|call|choice)|function.call)|` +
	`\b(tools?|tool.(use|call|choice)\w*|function.call\w*)\b.{0,60}(support|available|enable|require)`)

// refused returns the failure for an error of the server.
func (t *conversation) refused(why *serverError) *agent.Failure {
	s := t.agent.server
	f := &agent.Failure{Kind: agent.Infra, Message: fmt.Sprintf("%s: %v", s.URL.Host, why)}
	switch {
	case why.code == gateway.Untrusted:
		f.Final = true
	case why.contextExceeded():
		f.Kind, f.Message = agent.Limit, f.Message+"; the conversation does not fit into the model's context"
	case why.unpaid(), why.status == http.StatusTooManyRequests,
		why.status == http.StatusBadRequest && why.code == "plait_gateway", why.after > maxPause:
		f.Kind = agent.Limit
		if why.after > 0 {
			f.ResetAt = time.Now().Add(why.after)
		}
	case why.moderated():
		f.Kind = agent.Refused
		f.Message += "; it declined what is said in the conversation: the next attempt begins a new one"
	case why.status == http.StatusUnauthorized || why.status == http.StatusForbidden && !why.page:
		f.Final, f.Machine = true, true
		if s.KeyEnv == "" {
			f.Message += "; it wants a key: name the variable that has it by keyEnv: in the agent's definition"
		} else {
			f.Message += "; check the key in " + s.KeyEnv
		}
	case why.unfit() && toolless().MatchString(why.said):
		f.Final = true
		f.Message += "; if the model has no tools, name another by model:, or set config: {tools: null} in the agent's " +
			"definition to ask it without"
	case why.status == http.StatusNotFound || why.status == http.StatusForbidden || why.status == http.StatusOK:
		f.Final = !why.retryable()
		f.Message += "; check url: (with its version, such as /v1), api: and model: of the agent"
	case why.forGood() && t.session.answered():
		f.Message += "; the next attempt begins a new conversation"
	case why.forGood():
		f.Final = true
	}
	return f
}

// system returns the system prompt.
func (t *conversation) system() string {
	var b strings.Builder
	fmt.Fprintf(&b, "You do the work that you are asked for, with the tools that you have, and then answer. "+
		"You work in the directory %s; relative paths begin there.", t.dir)
	if t.req.Desk.Artifacts != "" {
		b.WriteString(" Leave files for others in $PLAIT_ARTIFACTS: a path may begin with this name.")
	}
	if t.req.Desk.Context != "" {
		b.WriteString(" What others left is in $PLAIT_CONTEXT: a path may begin with this name.")
	}
	switch {
	case t.req.Access == agent.Read:
		b.WriteString(" You may read the working directory and change nothing in it.")
	case t.sandbox.Enforced:
		b.WriteString(" You may change files of the working directory.")
	}
	switch {
	case t.sandbox.Enforced && !t.sandbox.Online:
		b.WriteString(" Commands have no network, and can write to the working directory at most.")
	case !t.sandbox.Enforced && t.req.Access == agent.Write:
		b.WriteString(" A person is asked before each command and each change.")
	}
	b.WriteString(" Read a file before you change it. A message without a call of a tool " +
		"is your answer, and ends your work.")
	return b.String()
}
