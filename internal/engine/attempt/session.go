package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A session is a vendor's conversation, and the last step of ours that it knows.
type session struct {
	id    string
	turn  string   // its last turn, if known
	gone  bool     // it cannot be continued
	knows dag.Hash // zero: unknown
	told  string   // the attempt that told it, or ""
	from  dag.Hash // the head at which its last attempt began
	last  dag.Hash // the last step that was done in it, zero for none

	memory *thread.Memory // after last; nil: not recorded

	foreign bool   // it belongs to another thread: it can only be branched off
	home    string // directory of a foreign one
	agent   string // agent of a foreign one
	role    string // role that a foreign one worked as
}

// remember records the session of an attempt. step is the step that the attempt became, if any. An attempt that
// was cut off or failed may not have read its prompt: then only what the session knew before counts.
func (c *Thread) remember(a store.Attempt, step dag.Hash) {
	was := c.sessions[a.Role]
	if a.Session == "" {
		if was.id != "" && a.Failure != nil {
			was.gone = true
			c.sessions[a.Role] = was
		}
		return
	}
	s := session{id: a.Session, turn: a.Turn, from: a.From}
	if was.id == a.Session {
		s.last, s.memory = was.last, was.memory
	}
	switch {
	case a.Status == store.AttemptDone && !step.IsZero():
		s.knows, s.told, s.last, s.memory = step, a.ID, step, nil
	case a.Failure != nil && a.Failure.Kind == store.FailureInvalidOutput:
		s.knows, s.told = a.From, a.ID
	case was.id == a.Session && !was.foreign:
		s.knows, s.told = was.knows, was.told
	}
	if a.Turn == "" && was.id == a.Session {
		s.turn = was.turn
	}
	c.sessions[a.Role] = s
}

// findSessions finds the session of each role's last step in a chain, which a thread that branches off after
// the chain can branch off too. Steps of other threads count as well: those of a joined path, or from before a
// fork.
func (e *Runner) findSessions(ctx context.Context, c *Thread, steps []thread.Step) error {
	seen := map[string]bool{}
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		role := s.State.Role
		if !thread.Routed(role) || seen[role] {
			continue
		}
		seen[role] = true
		delete(c.stepSessions, role)
		d, err := e.cfg.Record.Nodes().Detail(ctx, s.State.Detail)
		if err != nil {
			return err
		}
		if d == nil || d.Session == "" {
			continue
		}
		was := session{id: d.Session, knows: s.Hash, told: d.Attempt, gone: true, foreign: true, agent: d.Agent,
			role: role, last: s.Hash, memory: d.Memory}
		a, err := e.cfg.Store.Attempt(ctx, d.Attempt)
		switch {
		case errors.Is(err, store.ErrNotFound): // its task was removed, and the session with it
		case err != nil:
			return err
		default:
			origin, err := e.cfg.Store.Thread(ctx, a.Thread)
			if err != nil {
				return err
			}
			was.turn, was.home, was.gone = a.Turn, e.home(origin.Task), false
		}
		c.stepSessions[role] = was
	}
	return nil
}

// NoteSession records the session in which a step was just done.
func (e *Runner) NoteSession(c *Thread, out *Outcome, step dag.Hash) {
	a, memory := out.p.Row, out.Draft.Detail.Memory
	c.stepSessions = maps.Clone(c.stepSessions)
	delete(c.stepSessions, a.Role)
	if a.Session != "" {
		c.stepSessions[a.Role] = session{id: a.Session, turn: a.Turn, knows: step, told: a.ID, foreign: true,
			home: e.home(c.Row.Task), agent: a.Agent, role: a.Role, last: step, memory: memory}
		own := c.sessions[a.Role]
		own.memory = memory
		c.sessions[a.Role] = own
	}
}

// inheritSessions gives a thread the sessions in which other threads did the steps of its chain, for the roles
// that have not worked in it.
func (c *Thread) inheritSessions() {
	for role, s := range c.stepSessions {
		if own, ok := c.sessions[role]; !ok || own.foreign {
			c.sessions[role] = s
		}
	}
	// A forked action continues the conversation, never the session that planned it.
	id := c.Def.ActionID()
	if s, ok := c.stepSessions[c.Main]; ok && id != "" && c.Main != id {
		if own, ok := c.sessions[id]; !ok || own.foreign {
			c.sessions[id] = s
		}
	}
}

// chooseSession decides in which session an attempt works: the instance's own, a branch of one that it
// inherited, or a new one. The record notes when a session is lost and the prompt has to repeat all that the
// session knew.
func (e *Runner) chooseSession(ctx context.Context, c *Thread, p *Prepared, ask *prompt.Draft) error {
	s, ok := c.sessions[p.Row.Role]
	if !ok {
		return nil
	}
	if n := len(c.Tries); n > 0 && p.strict && p.tries.note == "" && c.Tries[n-1].Status == store.AttemptInterrupted {
		s.gone = true // not all it did is known, and its files were put back
		if from, ok := c.stepSessions[c.Main]; ok && c.Def.ActionID() != "" && c.Main != p.Row.Role {
			s = from // branch off once more
		}
	}
	held, err := e.held(ctx, c, s)
	if err != nil {
		return err
	}
	if !e.fresh(c, s) || len(c.Tries) == 0 && c.Crowded(held) {
		return nil
	}
	memory := s.memory
	if memory == nil {
		memory = &thread.Memory{Tokens: int64(held), Summary: c.beginning()}
	}
	quota := max(ask.Quota-int(memory.Tokens), ask.Quota/10)
	req := e.inSession(c, p.Row.Role, s.id)
	if err := e.bringSession(ctx, p, s, cmp.Or(s.home, req.Home)); err != nil {
		return err
	}
	switch {
	case s.gone:
	case !s.foreign:
		if continues(p.worker, req) {
			p.in.session, p.in.memory, ask.Since, ask.Quota = s.id, memory, s.knows, quota
			return nil
		}
	default:
		req.Session, req.From = "", &agent.Branch{Home: s.home, Session: s.id, Turn: s.turn}
		if a, ok := p.worker.Agent.(agent.Forker); ok && s.agent == p.worker.Name && a.Forks(req) {
			p.in.from, p.in.memory, ask.Since, ask.OtherRole = req.From, memory, s.knows, s.role != p.Row.Role
			ask.Quota = quota
			return nil
		}
	}
	p.in.lost = s.knows
	return nil
}

// bringSession restores from the record a session that is missing from its home, as it was after the last step
// of the thread that it knows.
func (e *Runner) bringSession(ctx context.Context, p *Prepared, s session, home string) error {
	carrier, ok := p.worker.Agent.(agent.SessionExporter)
	if !ok || s.gone || s.knows.IsZero() || home == "" {
		return nil
	}
	dir, there := carrier.SessionFiles(home, s.id)
	if len(there) > 0 {
		return nil
	}
	state, err := e.cfg.Record.Nodes().State(ctx, s.knows)
	if err != nil {
		return fmt.Errorf("bring session %s: %w", s.id, err)
	}
	d, err := e.cfg.Record.Nodes().Detail(ctx, state.Detail)
	if err != nil {
		return fmt.Errorf("bring session %s: %w", s.id, err)
	}
	if d == nil || d.Session != s.id || d.SessionFiles.IsZero() {
		return nil
	}
	return e.restoreSession(ctx, d.SessionFiles, dir)
}

// inSession returns the request for an agent that is to continue a session for a role.
func (e *Runner) inSession(c *Thread, role, session string) agent.Request {
	return agent.Request{
		Place: agent.Place{Task: c.Row.Task, Thread: c.Row.ID, Role: role},
		Home:  e.home(c.Row.Task), Session: session,
	}
}

func continues(w Worker, req agent.Request) bool {
	a, ok := w.Agent.(agent.Continuer)
	return ok && a.Continues(req)
}

// vendor returns what is known about the session in which the attempt will work.
func (p *Prepared) vendor(home string) agent.Vendor {
	v := agent.Vendor{Session: p.in.session}
	if n := len(p.tries.earlier); n > 0 && p.in.session != "" {
		last := p.tries.earlier[n-1]
		v.Corrects = last.Failure != nil && last.Failure.Kind == agent.InvalidOutput && last.Session == p.in.session
	}
	if a, ok := p.worker.Agent.(agent.Homed); ok {
		v.Home = a.SessionHome(home)
	}
	if from := p.in.from; from != nil {
		v.From, v.Turn = from.Session, from.Turn
	}
	return v
}

// lostSession returns the step up to which a lost session knew the thread, nil if none was lost.
func (p *Prepared) lostSession() []thread.ContextUse {
	if p.in.lost.IsZero() {
		return nil
	}
	return []thread.ContextUse{{From: p.in.lost, To: p.in.lost, Form: thread.FormLossy}}
}
