// Package replay plays recordings: single attempts, as the agent kind replay, and whole tasks, see [Player].
//
// The agent kind returns recorded attempts byte for byte, for offline tests, demos and what-if runs. Its
// Recording is built directly, read from a file (see [Parse] for the form) or assembled from a store. An
// attempt is chosen by exact role, visit and try; if it is missing, the failure names it. Laws:
//
//   - What was recorded is written to the raw log and to the stderr log before
//     the first event and before Run returns, unchanged.
//   - Events are emitted as recorded, then the delay passes, then the attempt ends.
//   - The limits of the request apply to the delay.
//   - The same request gives the same result, always. Nothing is consumed, so an
//     Agent may be used concurrently.
//
// The agent kind starts no process and never reads the prompt.
//
// A Player takes the place of the agents of a task that repeats another one. Programs are played as by the
// agent kind. Agents with a model run for real, on a [gateway.Tape], in a sandbox where their thread's tree is
// at the recorded path and nothing else of this machine can be changed.
package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// A Recording is a set of attempts, no two at the same place.
type Recording struct {
	Attempts []Attempt `json:"attempts"`
}

// An Attempt is one recorded attempt. Only Role is required.
type Attempt struct {
	Role  string `json:"role"`
	Visit int    `json:"visit,omitzero"` // earlier visits of the role in its thread
	Try   int    `json:"try,omitzero"`   // 0 means 1

	Output Bytes  `json:"output,omitzero"` // the answer
	Raw    *Bytes `json:"raw,omitzero"`    // the transcript; nil: it is the output
	Stderr Bytes  `json:"stderr,omitzero"`

	Exit    *int        `json:"exit,omitzero"`
	Status  string      `json:"status,omitzero"`
	Plain   bool        `json:"plain,omitzero"` // plain text is a valid answer
	Tree    string      `json:"tree,omitzero"`  // of the files on which a role's until command ran
	Session string      `json:"session,omitzero"`
	Model   string      `json:"model,omitzero"`
	Usage   agent.Usage `json:"usage,omitzero"`

	Failure *Failure      `json:"failure,omitzero"` // how it failed; nil: it did not
	Events  []agent.Event `json:"events,omitzero"`
	Delay   int64         `json:"delay,omitzero"` // milliseconds between the last event and the end
}

// A Failure is how a recorded attempt failed.
type Failure struct {
	Kind    string    `json:"kind"` // one of the kinds of package agent
	Message string    `json:"message"`
	ResetAt time.Time `json:"resetAt,omitzero"`
	Final   bool      `json:"final,omitzero"`
}

// A place identifies an attempt in a run.
type place struct {
	role       string
	visit, try int
}

func (p place) String() string {
	return fmt.Sprintf("role %s, visit %d, try %d", p.role, p.visit, p.try)
}

// An Agent returns recorded attempts.
type Agent struct {
	attempts map[place]Attempt
}

var (
	_ agent.Agent     = (*Agent)(nil)
	_ agent.Continuer = (*Agent)(nil)
)

// New checks the recording and returns its agent. The caller must not change the recording afterwards.
func New(rec Recording) (*Agent, error) {
	a := &Agent{attempts: make(map[place]Attempt, len(rec.Attempts))}
	for i, t := range rec.Attempts {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("replay agent: attempt %d: %w", i, err)
		}
		if _, ok := a.attempts[t.place()]; ok {
			return nil, fmt.Errorf("replay agent: attempt %d: %v is recorded twice", i, t.place())
		}
		a.attempts[t.place()] = t
	}
	return a, nil
}

func (t Attempt) place() place { return place{t.Role, t.Visit, max(t.Try, 1)} }

// kinds lists the kinds of failures.
var kinds = [...]string{agent.Infra, agent.Limit, agent.Refused, agent.InvalidOutput,
	agent.TimedOut, agent.Cancelled, agent.Interrupted}

// check returns what is wrong with one attempt by itself.
func (t Attempt) check() error {
	switch {
	case t.Role == "":
		return fmt.Errorf("it has no role")
	case t.Visit < 0 || t.Try < 0 || t.Delay < 0:
		return fmt.Errorf("visit, try and delay cannot be negative")
	case t.Failure != nil && !slices.Contains(kinds[:], t.Failure.Kind):
		return fmt.Errorf("failure kind %q is not one of %s", t.Failure.Kind, strings.Join(kinds[:], ", "))
	}
	for i, e := range t.Events {
		if e.Kind == "" {
			return fmt.Errorf("event %d has no kind", i)
		}
	}
	return nil
}

// Continues reports whether the session was recorded.
func (a *Agent) Continues(req agent.Request) bool {
	if req.Session == "" {
		return false
	}
	for _, t := range a.attempts {
		if t.Session == req.Session {
			return true
		}
	}
	return false
}

// Run returns the recorded attempt for the request's place. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, cancelled()
	}
	at := place{req.Role, req.Visit, max(req.Try, 1)}
	t, ok := a.attempts[at]
	if !ok {
		return agent.Result{}, a.notRecorded(at)
	}
	raw := t.Output
	if t.Raw != nil {
		raw = *t.Raw
	}
	if req.Desk.Raw != nil && len(raw) > 0 {
		if _, err := req.Desk.Raw.Write(raw); err != nil {
			return agent.Result{}, fmt.Errorf("write recorded output: %w", err)
		}
	}
	if req.Desk.Stderr != nil && len(t.Stderr) > 0 {
		if _, err := req.Desk.Stderr.Write(t.Stderr); err != nil {
			return agent.Result{}, fmt.Errorf("write recorded stderr: %w", err)
		}
	}
	for _, e := range t.Events {
		if ctx.Err() != nil {
			return agent.Result{}, cancelled()
		}
		if err := emit(e); err != nil {
			return agent.Result{}, err
		}
	}
	if f := pause(ctx, time.Duration(t.Delay)*time.Millisecond, req); f != nil {
		return agent.Result{}, f
	}
	if f := t.Failure; f != nil {
		return agent.Result{}, &agent.Failure{Kind: f.Kind, Message: f.Message, ResetAt: f.ResetAt, Final: f.Final,
			Session: t.Session, Exit: t.Exit, Usage: t.Usage}
	}
	return agent.Result{
		Output:    slices.Clone(t.Output[:min(len(t.Output), agent.MaxOutput)]),
		Truncated: len(t.Output) > agent.MaxOutput,
		Status:    t.Status, Exit: t.Exit, Session: t.Session, Model: t.Model, Usage: t.Usage,
		Sandbox: "none", Plain: t.Plain, Tree: t.Tree,
	}, nil
}

// pause waits for the delay, within the limits of the request.
func pause(ctx context.Context, delay time.Duration, req agent.Request) *agent.Failure {
	var stopped *agent.Failure
	if req.Timeout > 0 && delay > req.Timeout {
		delay, stopped = req.Timeout, &agent.Failure{Kind: agent.TimedOut,
			Message: fmt.Sprintf("the recorded attempt takes longer than its timeout of %v", req.Timeout)}
	}
	if req.Idle > 0 && delay > req.Idle {
		delay, stopped = req.Idle, &agent.Failure{Kind: agent.TimedOut,
			Message: fmt.Sprintf("the recorded attempt is silent for more than %v (idle limit)", req.Idle)}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return stopped
	case <-ctx.Done():
		return cancelled()
	}
}

func cancelled() *agent.Failure {
	return &agent.Failure{Kind: agent.Cancelled, Message: "the replay was stopped: the attempt was cancelled"}
}

// notRecorded returns the failure of an attempt that is not in the recording. It lists those of the role that are.
func (a *Agent) notRecorded(at place) *agent.Failure {
	var have []string
	for p := range a.attempts {
		if p.role == at.role {
			have = append(have, fmt.Sprintf("visit %d try %d", p.visit, p.try))
		}
	}
	slices.Sort(have)
	what := "nothing of that role"
	if len(have) > 0 {
		what = strings.Join(have[:min(len(have), 10)], ", ")
		if len(have) > 10 {
			what += fmt.Sprintf(" and %d more", len(have)-10)
		}
	}
	return &agent.Failure{Kind: agent.Infra, Final: true,
		Message: fmt.Sprintf("no attempt is recorded for %v; the recording has %s", at, what)}
}
