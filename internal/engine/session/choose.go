package session

import (
	"cmp"
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Request asks for the session of an attempt.
type Request struct {
	Role      string
	Agent     agent.Agent
	AgentName string
	Tries     []store.Attempt // the earlier attempts at the step
	HasNote   bool            // the prompt says something about the last of them
	Quota     int             // tokens that the prompt has for steps
}

// A Choice is the session in which an attempt works. Its zero value is a new one.
type Choice struct {
	Session   string         // to continue
	From      *agent.Branch  // to branch off from
	Memory    *thread.Memory // what it holds before the attempt; nil: it is new
	Since     dag.Hash       // the last step that it knows, zero for none
	By        string         // the attempt from which the role's own session knows that, or ""
	OtherRole bool           // it was another role's
	Quota     int            // tokens that the prompt still has for steps
	Lost      dag.Hash       // the last step that a lost session knew: the prompt has to repeat all up to there
}

// Choose decides in which session an attempt works.
func (k *Keeper) Choose(ctx context.Context, at *record.Position, all Sessions, r Request) (Choice, error) {
	none := Choice{Quota: r.Quota}
	s, ok := all.own[r.Role]
	if !ok {
		return none, nil
	}
	if n := len(r.Tries); n > 0 && at.InPlan(r.Role) && !r.HasNote && r.Tries[n-1].Status == store.AttemptInterrupted {
		s.gone = true // not all it did is known, and its files were put back
		if from, ok := all.steps[at.Main]; ok && at.Def.ActionID() != "" && at.Main != r.Role {
			s = from // branch off once more
		}
	}
	none.By = s.by
	held, err := k.held(ctx, at, s)
	if err != nil {
		return none, err
	}
	if !k.fresh(at, s) || len(r.Tries) == 0 && Crowded(at, held) {
		return none, nil
	}
	memory := s.memory
	if memory == nil {
		memory = &thread.Memory{Tokens: int64(held), Summary: Beginning(at)}
	}
	found := Choice{Memory: memory, Since: s.knows, By: none.By, Quota: max(r.Quota-int(memory.Tokens), r.Quota/10)}
	req := k.request(at, r.Role, s.id)
	if err := k.restoreMissing(ctx, r, s, cmp.Or(s.home, req.Home)); err != nil {
		return none, err
	}
	switch {
	case s.gone:
	case !s.foreign:
		if continues(r.Agent, req) {
			found.Session = s.id
			return found, nil
		}
	default:
		req.Session, req.From = "", &agent.Branch{Home: s.home, Session: s.id, Turn: s.turn}
		if a, ok := r.Agent.(agent.Forker); ok && s.agent == r.AgentName && a.Forks(req) {
			found.From, found.OtherRole = req.From, s.role != r.Role
			return found, nil
		}
	}
	none.Lost = s.knows
	return none, nil
}

// restoreMissing restores from the record a session that is missing from its home, as it was after the last step of the
// thread that it knows. Files of another agent's session mean nothing to r's.
func (k *Keeper) restoreMissing(ctx context.Context, r Request, s session, home string) error {
	exporter, ok := r.Agent.(agent.SessionExporter)
	if !ok || s.gone || s.knows.IsZero() || home == "" {
		return nil
	}
	dir, there := exporter.SessionFiles(home, s.id)
	if len(there) > 0 {
		return nil
	}
	d, err := k.detail(ctx, s.knows)
	if err != nil {
		return fmt.Errorf("restore session %s: %w", s.id, err)
	}
	if d == nil || d.Session != s.id || d.Agent != r.AgentName || d.SessionFiles.IsZero() {
		return nil
	}
	return k.restore(ctx, d.SessionFiles, dir)
}

// request returns the request for an agent that is to continue a session for a role.
func (k *Keeper) request(at *record.Position, role, session string) agent.Request {
	return agent.Request{
		Place: agent.Place{Task: at.Row.Task, Thread: at.Row.ID, Role: role},
		Home:  k.cfg.Home(at.Row.Task), Session: session,
	}
}

func continues(a agent.Agent, req agent.Request) bool {
	c, ok := a.(agent.Continuer)
	return ok && c.Continues(req)
}

// Continues reports whether an agent would continue the own session of a role.
func (k *Keeper) Continues(at *record.Position, all Sessions, role string, a agent.Agent) bool {
	s := all.own[role]
	return !s.gone && !s.foreign && s.id != "" && continues(a, k.request(at, role, s.id))
}

// Vendor returns what the agent's desk has to know about the session. tries are the earlier attempts at the step.
func (c Choice) Vendor(a agent.Agent, home string, tries []store.Attempt) agent.Vendor {
	v := agent.Vendor{Session: c.Session}
	if n := len(tries); n > 0 && c.Session != "" {
		last := tries[n-1]
		v.Corrects = last.Failure != nil && last.Failure.Kind == agent.InvalidOutput && last.Session == c.Session
	}
	if a, ok := a.(agent.Homed); ok {
		v.Home = a.SessionHome(home)
	}
	if c.From != nil {
		v.From, v.Turn = c.From.Session, c.From.Turn
	}
	return v
}

// Uses returns what the record says about the context of an attempt: that a session was lost, and up to which step it
// knew the thread.
func (c Choice) Uses() []thread.ContextUse {
	if c.Lost.IsZero() {
		return nil
	}
	return []thread.ContextUse{{From: c.Lost, To: c.Lost, Form: thread.FormLossy}}
}
