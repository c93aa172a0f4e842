package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
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
	f.Model, f.Usage = t.model, t.used
	if f.Session = t.session.id; why != nil && why.contextExceeded() {
		f.Session = "" // it would not fit next time either
	}
	return f
}

// refused returns the failure for an error of the server.
func (t *conversation) refused(why *serverError) *agent.Failure {
	s := t.agent.server
	f := &agent.Failure{Kind: agent.Infra, Message: fmt.Sprintf("%s: %v", s.URL.Host, why)}
	switch {
	case why.contextExceeded():
		f.Kind, f.Message = agent.Limit, f.Message+"; the conversation does not fit into the model's context"
	case why.status == http.StatusUnauthorized || why.status == http.StatusForbidden:
		f.Final = true
		if s.KeyEnv == "" {
			f.Message += "; it wants a key: name the variable that has it by keyEnv: in the agent's definition"
		} else {
			f.Message += "; check the key in " + s.KeyEnv
		}
	case why.status == http.StatusPaymentRequired, why.status == http.StatusTooManyRequests,
		why.status == http.StatusBadRequest && why.code == "plait_gateway", why.after > maxPause:
		f.Kind = agent.Limit
		if why.after > 0 {
			f.ResetAt = time.Now().Add(why.after)
		}
	case why.status == http.StatusNotFound:
		f.Final = true
		f.Message += "; check url: (with its version, such as /v1), api: and model: of the agent"
	case why.status >= 400 && why.status < 500 && !why.retryable():
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
		fmt.Fprintf(&b, " Leave files for others in %s ($PLAIT_ARTIFACTS).", t.req.Desk.Artifacts)
	}
	if t.req.Desk.Context != "" {
		fmt.Fprintf(&b, " What others left is in %s ($PLAIT_CONTEXT).", t.req.Desk.Context)
	}
	switch {
	case t.req.Access == agent.Read:
		b.WriteString(" You may read the working directory and change nothing in it.")
	case t.box.Walled:
		b.WriteString(" You may change files of the working directory.")
	}
	switch {
	case t.box.Walled && !t.box.Online:
		b.WriteString(" Commands have no network, and can write to the working directory at most.")
	case !t.box.Walled && t.req.Access == agent.Write:
		b.WriteString(" A person is asked before each command and each change.")
	}
	b.WriteString(" Read a file before you change it. A message without a call of a tool " +
		"is your answer, and ends your work.")
	return b.String()
}
