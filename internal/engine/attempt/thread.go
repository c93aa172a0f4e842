package attempt

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/session"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Thread is what attempts at the steps of a thread need to know about it. It belongs to the driver of the
// thread.
type Thread struct {
	record.Position
	Options  record.Options // those its task was started with
	Limits   flow.Limits
	Budget   func() Budget              // what is left of its limits; nil: unlimited
	Purse    func(attempt string) Purse // what an attempt spends from; nil: unlimited
	Asked    *prompt.Kept               // the last prompt of an agent, nil: unknown
	Attempts int                        // rows so far
	Tries    []store.Attempt            // attempts at the step after the head

	sessions session.Sessions
	seen     *evidence.Activities // activities of attempts whose answer could not be used
	heard    []store.Request      // input that those attempts heard while they worked
}

// A Budget is what is left of a thread's limits.
type Budget = briefing.Left

// Thread reads what attempts need to know about a thread. The caller sets Options, Limits, Budget and Purse.
func (e *Runner) Thread(ctx context.Context, row store.Thread) (*Thread, error) {
	at, steps, err := e.cfg.Record.Position(ctx, row)
	if err != nil {
		return nil, err
	}
	c := &Thread{Position: *at, sessions: session.New()}
	attempts, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID})
	if err != nil {
		return nil, err
	}
	after := make(map[dag.Hash]dag.Hash, len(steps)) // head → the step of this chain made at it
	for i, s := range slices.Backward(steps) {
		from, to := row.Start, s.Hash
		if len(s.State.Ancestors) > 0 {
			from = s.State.Ancestors[0]
		}
		if s.State.Role == thread.RoleInput && i+1 < len(steps) {
			to = after[s.Hash] // input that the agent heard while it worked comes before its step
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
	if err := e.sessions.Recall(ctx, c.sessions); err != nil {
		return nil, err
	}
	if err := e.sessions.Find(ctx, c.sessions, steps); err != nil {
		return nil, err
	}
	c.sessions.Inherit(&c.Position)
	if c.heard, err = e.heardBefore(ctx, c); err != nil {
		return nil, err
	}
	if c.Asked, err = e.lastAsked(ctx, steps); err != nil {
		return nil, err
	}
	return c, nil
}

// Worker makes the agent for a role in a thread. An action replaces the role of workers, even if a person has
// chosen an agent for that role.
func (e *Runner) Worker(c *Thread, role string) (Worker, error) {
	who := role
	if c.Def.ActionID() != "" {
		who = flow.WorkerFlow
	}
	def, _ := c.Def.Role(role)
	return e.cfg.Agents.Worker(c.Row, who, def)
}

// Clone returns a copy of c, for another head, that can change independently. What earlier attempts did and heard
// belongs to this head: it has become part of a step, or is told to the next agent.
func (c *Thread) Clone() Thread {
	n := *c
	n.Position, n.sessions = c.Position.Clone(), c.sessions.Clone()
	n.seen, n.heard = nil, nil
	return n
}

// Branch returns what is known about a path that begins at the head: what its parent knows.
func (c *Thread) Branch(path store.Thread) Thread {
	n := c.Clone()
	n.Row, n.Attempts, n.Tries = path, 0, nil
	n.sessions = c.sessions.Branch()
	return n
}

// Through advances a thread by the steps of a path that it joins, oldest first.
func (e *Runner) Through(ctx context.Context, c *Thread, steps []thread.Step) error {
	if err := e.sessions.Find(ctx, c.sessions, steps); err != nil {
		return err
	}
	asked, err := e.lastAsked(ctx, steps)
	if err != nil {
		return err
	}
	if asked != nil {
		c.Asked = asked
	}
	c.sessions.Inherit(&c.Position)
	for _, s := range steps {
		if err := e.cfg.Record.Advance(ctx, &c.Position, s); err != nil {
			return err
		}
	}
	return nil
}

// lastAsked returns the prompt of the newest step that an agent did, nil if there is none.
func (e *Runner) lastAsked(ctx context.Context, steps []thread.Step) (*prompt.Kept, error) {
	for _, s := range slices.Backward(steps) {
		d, err := e.cfg.Record.Nodes().Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d != nil && !d.Prompt.IsZero() {
			return prompt.ReadKept(ctx, e.cfg.Record.Nodes(), d.Prompt)
		}
	}
	return nil, nil
}

// Count counts a recorded attempt, and remembers the step that it became, if any.
func (c *Thread) Count(a store.Attempt, step dag.Hash) {
	c.Attempts = max(c.Attempts, a.N)
	if a.From == c.Row.Head && a.Status != store.AttemptDone && a.Role != thread.RoleCompact {
		c.Tries = append(c.Tries, a)
	}
	c.sessions.Add(a, step)
}

// Rounds counts the steps that count towards the thread's limit on rounds.
func (c *Thread) Rounds() (n int) {
	for role, visits := range c.Visits {
		if !c.Def.Roles[role].Chat && !flow.IsReserved(role) { // a person asks for each; a command is part of its role's
			n += visits
		}
	}
	return n
}

// NoteSession notes the session in which a step was just done.
func (e *Runner) NoteSession(c *Thread, out *Outcome, step dag.Hash) {
	e.sessions.Done(c.sessions, c.Row.Task, out.Row, step, out.Draft.Detail.Memory)
}

// Held returns how many tokens the session that an agent would continue for a role would hold of the conversation. It
// reports false if there is none.
func (e *Runner) Held(ctx context.Context, c *Thread, role string, w Worker) (tokens int, continues bool, err error) {
	return e.sessions.Held(ctx, &c.Position, c.sessions, role, w.Agent)
}

// Crowded reports whether so many tokens are too much of the quota for another turn.
func (c *Thread) Crowded(tokens int) bool { return session.Crowded(&c.Position, tokens) }
