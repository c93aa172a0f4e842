package engine

import (
	"context"
	"math"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
)

// maxLent is how many of the steps left out of a prompt the agent can read.
const maxLent = 64

// lend puts what the prompt does not hold whole where the agent can read it.
func (e *Engine) lend(ctx context.Context, desk Desk, uses []thread.ContextUse) error {
	if desk.Agent().Context == "" {
		return nil
	}
	for _, u := range uses {
		last, most := u.From, math.MaxInt
		switch u.Form {
		case thread.FormOmitted:
			last, most = dag.Hash{}, maxLent
		case thread.FormMeta:
		default:
			continue
		}
		for s, err := range e.cfg.Reader.Walk(ctx, u.To) {
			if err != nil {
				return err
			}
			for _, h := range []dag.Hash{s.Hash, s.State.Content} {
				obj, err := e.cfg.Store.Get(ctx, h)
				if err != nil {
					return err
				}
				if err := desk.Keep(h.String(), obj.Data); err != nil {
					return err
				}
			}
			if most--; most == 0 || s.Hash == last {
				break
			}
		}
	}
	return nil
}

// lendParents puts the chain of callers where the agent can read it, from the
// call up to the top: starts, prompts and, of each caller, the newest steps.
func (e *Engine) lendParents(ctx context.Context, c *cursor, desk Desk) error {
	if desk.Agent().Context == "" {
		return nil
	}
	keep := func(hashes ...dag.Hash) error {
		for _, h := range hashes {
			obj, err := e.cfg.Store.Get(ctx, h)
			if err != nil {
				return err
			}
			if err := desk.Keep(h.String(), obj.Data); err != nil {
				return err
			}
		}
		return nil
	}
	if !c.caller.IsZero() {
		start, err := e.cfg.Reader.Start(ctx, c.row.Start)
		if err != nil {
			return err
		}
		if err := keep(c.row.Start, start.Prompt); err != nil {
			return err
		}
	}
	for h := c.caller; !h.IsZero(); {
		most := maxLent
		for s, err := range e.cfg.Reader.Walk(ctx, h) {
			if err != nil {
				return err
			}
			if err := keep(s.Hash, s.State.Content); err != nil {
				return err
			}
			if most--; most == 0 {
				break
			}
		}
		at, err := e.cfg.Reader.StartOf(ctx, h)
		if err != nil {
			return err
		}
		start, err := e.cfg.Reader.Start(ctx, at)
		if err != nil {
			return err
		}
		if err := keep(at, start.Prompt); err != nil {
			return err
		}
		h = start.ParentState
	}
	return nil
}

// parentState names the caller's head for an agent's environment.
func (c *cursor) parentState() string {
	if c.caller.IsZero() {
		return ""
	}
	return c.caller.String()
}
