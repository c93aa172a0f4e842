package attempt

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/session"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Prepared is an attempt that is ready to run. It does not change.
type Prepared struct {
	Row     store.Attempt // as it begins
	Role    flow.Role
	Prompt  *prompt.Kept
	Objects []store.Object // the prompt and its parts

	worker   Worker
	location string // of the agent in the tree, with slashes
	strict   bool   // each citation in the answer has to resolve
	summary  bool   // the answer is a summary of the thread
	shaped   bool   // see agent.Request.Shaped
	tries    tries
	in       session.Choice
	given    briefing.Given
	named    prompt.Exports // what the prompt says can be read
	uses     []thread.ContextUse
	talk     int // see prompt.Assembled
}

// At returns the attempt, begun at another time, in Unix milliseconds.
func (p Prepared) At(begun int64) *Prepared {
	p.Row.StartedAt = begun
	return &p
}

// tries are the attempts at a step: this one, and what is known of the earlier ones.
type tries struct {
	n       int // number of this one, from 1
	turn    evidence.Turn
	earlier []store.Attempt
	note    string // what the agent is told about the last one
}

// Prepare prepares the next attempt: its row and its prompt. note is what the agent is told about the previous
// attempt. Prepare writes nothing.
func (e *Runner) Prepare(ctx context.Context, c *Thread, d flow.Run, note string) (p *Prepared, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("thread %s: role %s: %w", c.Row.ID, d.Role, err)
		}
	}()
	role, ok := c.Def.Role(d.Role)
	if !ok {
		return nil, fmt.Errorf("flow %s has no such role", c.Row.Flow)
	}
	w, err := e.Worker(c, d.Role)
	if err != nil {
		return nil, err
	}
	try := len(c.Tries) + 1
	p = &Prepared{Role: role, worker: w, location: d.Location, strict: c.InPlan(d.Role),
		shaped: w.shapes(role),
		tries:  tries{n: try, turn: evidence.TurnOf(c.Visits[d.Role]+1, try), earlier: c.Tries, note: note}}
	p.Row = e.nextRow(c, d.Role, w)
	p.in, err = e.sessions.Choose(ctx, &c.Position, c.sessions, session.Request{Role: d.Role, Agent: w.Agent,
		AgentName: w.Name, Tries: c.Tries, HasNote: note != "", Quota: quota(&c.Position)})
	if err != nil {
		return nil, err
	}
	p.Row.Session = p.in.Session
	ask := prompt.Draft{
		Repeats: prompt.Repeats{Told: repeatsTask(&c.Position, d)}, Task: c.Prompt, TaskNode: c.Task, Parent: c.Parent,
		Route: p.route(d.Prompt), Quota: p.in.Quota, Steps: c.Row.Steps, Pin: c.Def.Context.Pin,
		Full: record.WholeContext(c.Row), Since: p.in.Since, OtherRole: p.in.OtherRole, Conversation: role.Chat,
	}
	if c.Def.ActionID() != "" {
		ask.OmitRoles = c.Def.Plans()
	}
	who := briefing.Attempt{At: &c.Position, Name: d.Role, Role: role, Agent: w.Agent, Shaped: p.shaped,
		Location: p.location, Dir: w.Dir, Branches: p.in.From != nil}
	if !p.in.Since.IsZero() {
		who.Since = p.in.By
	}
	if role.Plan {
		if who.Planner, err = e.planning(ctx, c); err != nil {
			return nil, err
		}
	}
	if p.given, err = e.briefer.Brief(ctx, who, &ask); err != nil {
		return nil, err
	}
	if err := e.writePrompt(ctx, c, p, ask); err != nil {
		return nil, err
	}
	p.uses = append(p.in.Uses(), p.uses...)
	return p, nil
}

// writePrompt puts the prompt of an attempt together. It builds on the thread's previous prompt.
func (e *Runner) writePrompt(ctx context.Context, c *Thread, p *Prepared, ask prompt.Draft) error {
	ask.AsRecorded = e.cfg.Record.AsRecorded
	assembled, err := e.prompts.Assemble(ctx, c.Row.Head, ask)
	if err != nil {
		return err
	}
	var kept store.Object
	if kept, p.Prompt, err = assembled.Keep(c.Asked); err != nil {
		return err
	}
	p.Objects = append(assembled.Contents, kept)
	p.uses, p.talk, p.named, p.Row.Prompt = assembled.Uses, assembled.Talk, assembled.Exports, p.Prompt.Hash
	return nil
}

// route returns what the agent is told to do now.
func (p *Prepared) route(text string) string {
	if p.tries.note != "" {
		text += "\n\n" + p.tries.note
	}
	if p.Role.Access.Writes() && p.cutOff() {
		text += "\n\nYour last turn was interrupted, and files that you changed in it may have been put back: review " +
			"them before continuing."
	}
	if ids := p.tries.turn.Announce(); p.strict && ids != "" {
		text += "\n\n" + ids
	}
	return text
}

// planning returns what a planner is told about its means.
func (e *Runner) planning(ctx context.Context, c *Thread) (*briefing.Planning, error) {
	def, err := e.cfg.Record.Flow(ctx, c.Row.Bundle, flow.WorkerFlow)
	if err != nil {
		return nil, err
	}
	p := &briefing.Planning{Limits: c.Limits, Rounds: c.Rounds(),
		Agents: e.cfg.Agents.forActions(c.Row, def.Roles[flow.WorkerFlow])}
	if c.Budget != nil {
		p.Left = c.Budget()
	}
	p.Actions, err = e.actionsOf(ctx, c.Row.Task)
	return p, err
}

// cutOff reports whether the session that continues remembers work at this step that was cut off.
func (p *Prepared) cutOff() bool {
	return p.in.Session != "" && slices.ContainsFunc(p.tries.earlier, func(a store.Attempt) bool {
		return a.Status == store.AttemptInterrupted && a.Session == p.in.Session
	})
}

// nextRow returns the row of the next attempt of a thread.
func (e *Runner) nextRow(c *Thread, role string, w Worker) store.Attempt {
	n := c.Attempts + 1
	id := thread.AttemptID(c.Row.ID, n)
	return store.Attempt{
		ID: id, Thread: c.Row.ID, From: c.Row.Head, Role: role, N: n, Agent: w.Name,
		Instance: record.Instance(c.Row, c.Def, role), Status: store.AttemptRunning,
		Tag: id + "-" + strings.ToLower(rand.Text()[:8]), StartedAt: e.now(),
	}
}

// Begun returns what batch A writes besides the thread's row.
func (p *Prepared) Begun(row store.Thread) ([]store.AttemptChange, []store.Event) {
	var events []store.Event
	at := func(what event.Payload) {
		events = append(events, event.OfAttempt(row, p.Row, p.Row.StartedAt, what))
	}
	if p.tries.n == 1 {
		events = append(events, event.Phase(row, p.Role.Plan, p.Row.StartedAt, event.Planning)...)
		at(event.AgentStarted{Role: p.Row.Role, Agent: p.Row.Agent})
	}
	at(event.AttemptStarted{Role: p.Row.Role, Agent: p.Row.Agent, From: p.Row.From, Try: p.tries.n})
	return []store.AttemptChange{{Row: p.Row}}, events
}

// Repeatable reports whether an interrupted attempt of role may run again without asking: as its
// retry.interrupted says, otherwise if the role only reads.
func Repeatable(role flow.Role) bool {
	if role.Retry.Interrupted != nil {
		return *role.Retry.Interrupted
	}
	return role.Access == "" || role.Access == flow.Access(agent.Read)
}

// quota returns how many tokens a prompt has for steps: the summary takes its part.
func quota(at *record.Position) int {
	if session.Beginning(at).IsZero() {
		return at.Def.Context.Tokens
	}
	return max(at.Def.Context.Tokens-prompt.ApproxTokens(at.Summed), 0)
}

// repeatsTask reports whether the route to a role says the task: with another task it would say that one.
func repeatsTask(at *record.Position, d flow.Run) bool {
	if d.Prompt == at.Prompt || !strings.Contains(d.Prompt, strings.TrimRight(at.Prompt, "\n")) {
		return d.Prompt == at.Prompt
	}
	const other = "(another task)"
	now := at.At()
	now.Prompt = other
	would, _ := flow.Next(at.Def, now, at.Last).(flow.Run)
	return strings.Contains(would.Prompt, other)
}
