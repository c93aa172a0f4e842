package attempt

import (
	"context"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Thread is what attempts at the steps of a thread have to know of it. It belongs to whoever drives
// the thread.
type Thread struct {
	record.Position
	Options  record.Options // what its task was started with
	Limits   flow.Limits
	Budget   func() Budget              // what is left of its limits now; nil: it has none
	Purse    func(attempt string) Purse // what an attempt spends from; nil: it has no limit
	Asked    *thread.KeptPrompt         // the last prompt of an agent, nil: none is known
	Attempts int                        // rows so far
	Tries    []store.Attempt            // attempts at the step after the head

	sessions     map[string]session // by role: the one to go on in, or to branch off from
	stepSessions map[string]session // by role: the session of its last step in the chain
	seen         *activityRecorder  // what was seen of attempts whose answer could not be used
	heard        []store.Wish       // what those heard of people while they worked
}

// A Budget is what is left of limits, a thread's own and its callers'; nil is no limit.
type Budget struct{ Attempts, Tokens, CostMicroUSD, Millis *int64 }

// Thread reads what attempts have to know of a thread. Options, Limits, Budget and Purse are the caller's to set.
func (e *Runner) Thread(ctx context.Context, row store.Thread) (*Thread, error) {
	at, steps, err := e.cfg.Record.Position(ctx, row)
	if err != nil {
		return nil, err
	}
	c := &Thread{Position: *at, sessions: make(map[string]session), stepSessions: make(map[string]session)}
	attempts, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID})
	if err != nil {
		return nil, err
	}
	after := make(map[dag.Hash]dag.Hash, len(steps)) // head → the step that was made at it, of this chain
	for i, s := range slices.Backward(steps) {
		from, to := row.Start, s.Hash
		if len(s.State.Ancestors) > 0 {
			from = s.State.Ancestors[0]
		}
		if s.State.Role == thread.RoleInput && i+1 < len(steps) {
			to = after[s.Hash] // what the agent heard while it worked comes before its step
		}
		after[from] = to
	}
	for _, a := range attempts {
		var step dag.Hash
		if a.Status == store.AttemptDone {
			step = after[a.From]
		}
		c.Count(a, step)
	}
	if err := e.findSessions(ctx, c, steps); err != nil {
		return nil, err
	}
	c.inheritSessions()
	if c.heard, err = e.heardBefore(ctx, c); err != nil {
		return nil, err
	}
	if c.Asked, err = e.lastAsked(ctx, steps); err != nil {
		return nil, err
	}
	return c, nil
}

// Worker makes the agent that does a role's work in a thread. An action takes the place of the role of
// workers, also where a person has said who does that.
func (e *Runner) Worker(c *Thread, role string) (Worker, error) {
	who := role
	if c.Def.ActionID() != "" {
		who = flow.WorkerFlow
	}
	return e.cfg.Agents.Worker(c.Row, who, c.Def.Roles[role])
}

// Continues reports whether an agent goes on, for a role, in a session that knows the conversation.
func (c *Thread) Continues(role string, w Worker) bool {
	s, ok := c.sessions[role]
	_, continues := w.Agent.(agent.Continuer)
	return ok && !s.gone && !s.foreign && continues
}

// Clone returns a thread that can go on in another way.
func (c *Thread) Clone() Thread {
	n := *c
	n.Position, n.sessions, n.stepSessions = c.Position.Clone(), maps.Clone(c.sessions), maps.Clone(c.stepSessions)
	return n
}

// Branch returns what is known of a path that begins at the head: what its parent knows.
func (c *Thread) Branch(path store.Thread) Thread {
	n := c.Clone()
	n.Row, n.Attempts, n.Tries = path, 0, nil
	n.sessions = maps.Clone(c.stepSessions)
	return n
}

// Through moves a thread on by the steps of a path that it joins, oldest first.
func (e *Runner) Through(ctx context.Context, c *Thread, steps []thread.Step) error {
	if err := e.findSessions(ctx, c, steps); err != nil {
		return err
	}
	asked, err := e.lastAsked(ctx, steps)
	if err != nil {
		return err
	}
	if asked != nil {
		c.Asked = asked
	}
	c.inheritSessions()
	for _, s := range steps {
		if err := e.cfg.Record.Follow(ctx, &c.Position, s); err != nil {
			return err
		}
	}
	return nil
}

// lastAsked returns the prompt of the newest of steps that an agent did, nil when none did.
func (e *Runner) lastAsked(ctx context.Context, steps []thread.Step) (*thread.KeptPrompt, error) {
	for _, s := range slices.Backward(steps) {
		d, err := e.cfg.Record.Nodes().Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d != nil && !d.Prompt.IsZero() {
			return e.cfg.Record.Nodes().KeptPrompt(ctx, d.Prompt)
		}
	}
	return nil, nil
}

// Count counts an attempt as it is in the record, and remembers the step that it
// became, if it did.
func (c *Thread) Count(a store.Attempt, step dag.Hash) {
	c.Attempts = max(c.Attempts, a.N)
	if a.From == c.Row.Head && a.Status != store.AttemptDone && thread.Routed(a.Role) {
		c.Tries = append(c.Tries, a)
	}
	c.remember(a, step)
}

// Rounds counts the steps that the thread's limit on rounds is about.
func (c *Thread) Rounds() (n int) {
	for role, visits := range c.Visits {
		if !c.Def.Roles[role].Chat { // a person asks for each of those
			n += visits
		}
	}
	return n
}
