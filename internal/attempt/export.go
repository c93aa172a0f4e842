package attempt

import (
	"context"
	"math"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
)

// maxExported is how many of the steps left out of a prompt the agent can read.
const maxExported = 64

// exportContext puts what the prompt does not hold whole where the agent can read it.
func (e *Runner) exportContext(ctx context.Context, desk Desk, uses []thread.ContextUse) error {
	if desk.Agent().Context == "" {
		return nil
	}
	for _, u := range uses {
		last, most := u.From, math.MaxInt
		switch u.Form {
		case thread.FormOmitted:
			last, most = dag.Hash{}, maxExported
		case thread.FormMeta:
		default:
			continue
		}
		for s, err := range e.cfg.Record.Nodes().Walk(ctx, u.To) {
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

// exportCallers puts the chain of callers where the agent can read it, from the
// call up to the top: starts, prompts and, of each caller, the newest steps.
func (e *Runner) exportCallers(ctx context.Context, c *Thread, desk Desk) error {
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
	if !c.Caller.IsZero() {
		start, err := e.cfg.Record.Nodes().Start(ctx, c.Row.Start)
		if err != nil {
			return err
		}
		if err := keep(c.Row.Start, start.Prompt); err != nil {
			return err
		}
	}
	for h := c.Caller; !h.IsZero(); {
		most := maxExported
		for s, err := range e.cfg.Record.Nodes().Walk(ctx, h) {
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
		at, err := e.cfg.Record.Nodes().StartOf(ctx, h)
		if err != nil {
			return err
		}
		start, err := e.cfg.Record.Nodes().Start(ctx, at)
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
func (c *Thread) parentState() string {
	if c.Caller.IsZero() {
		return ""
	}
	return c.Caller.String()
}
