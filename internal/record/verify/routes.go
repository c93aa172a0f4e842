package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// definitions holds the flow of every start, by the start's hash. A flow that cannot be read is absent; the
// problem is reported for its start.
type definitions map[dag.Hash]*flow.Definition

// loadDefinition reads the flow that a start names.
func (c *check) loadDefinition(o *object) {
	bundle := c.expectNode(o, "bundle", o.start.Hash, dag.TypeFlow)
	if bundle == nil {
		return
	}
	def, err := bundle.bundle.definition(o.start.Name)
	if err != nil {
		c.wrong(o.hash, "start: flow %q of its bundle %s: %v", o.start.Name, bundle.hash, err)
		return
	}
	c.defs[o.hash] = def
}

// definition decodes a flow of a bundle, once.
func (b *bundle) definition(name string) (*flow.Definition, error) {
	if def := b.defs[name]; def != nil {
		return def, nil
	}
	raw, ok := b.Flows[name]
	if !ok {
		return nil, errors.New("is not there")
	}
	def := new(flow.Definition)
	if err := json.Unmarshal(raw, def); err != nil {
		return nil, fmt.Errorf("cannot be decoded: %w", err)
	}
	if b.defs == nil {
		b.defs = make(map[string]*flow.Definition)
	}
	b.defs[name] = def
	return def, nil
}

// checkRoutes checks, in parallel, that the flow of each step leads to it.
func (c *check) checkRoutes(ctx context.Context, states []*object) error {
	found := make([][]string, len(states))
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(states)) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(states); i = int(next.Add(1)) - 1 {
				var err error
				if found[i], err = c.checkRoute(ctx, states[i]); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	for i, problems := range found {
		for _, what := range problems {
			c.wrong(states[i].hash, "%s", what)
		}
	}
	return err
}

// checkRoute returns the ways in which o contradicts its flow's graph. It skips steps
// that no flow leads to: inputs, compactions, the end of a cancelled thread, and that of a spawned action which
// ran out of attempts.
func (c *check) checkRoute(ctx context.Context, o *object) ([]string, error) {
	s := o.state
	def := c.defs[s.Start]
	switch {
	case def == nil || o.chain.position == nil:
		return nil, nil
	}
	if what, err := c.entryMismatch(ctx, o); err != nil || what != "" {
		return []string{what}, err
	}
	switch {
	case s.Paths != nil:
		return c.checkJoin(ctx, o, def)
	case !thread.Routed(s.Role) && s.Role != thread.RoleEnd:
		return nil, nil
	}
	if s.Role == thread.RoleEnd {
		end, ok := endOf(s)
		failed := end.Code == 1 && strings.HasPrefix(end.Summary, thread.EndFailed) && def.ActionID() != ""
		if !ok || end.Code == thread.CodeCancelled || failed {
			return nil, nil
		}
	}
	at, last, ok, err := c.flowInput(ctx, previous(s), s.Start)
	if err != nil || !ok {
		return nil, err
	}
	at.Path = o.chain.position.path
	def = c.definitionAt(s.Start, o.chain.position)
	d := flow.Next(def, at, last)
	if what := c.decisionMismatch(s, at.Flow, d); what != "" {
		return []string{what}, nil
	}
	if call, ok := d.(flow.Call); ok {
		return c.checkCall(ctx, o, def, call)
	}
	return nil, nil
}

// entryMismatch returns what is wrong with the path that o names, or "". A step is in the path of the step
// before it, or enters a path of the fork that the flow reaches there.
func (c *check) entryMismatch(ctx context.Context, o *object) (string, error) {
	s := o.state
	from, enters := c.enters(o)
	if !enters {
		return "", nil
	}
	if s.Paths == nil {
		at, last, ok, err := c.flowInput(ctx, previous(s), s.Start)
		if err != nil || !ok {
			return "", err
		}
		at.Path = from.path
		if d, ok := flow.Next(c.definitionAt(s.Start, from), at, last).(flow.Fork); ok &&
			slices.ContainsFunc(d.Paths, func(b flow.BranchPath) bool { return b.ID == s.Path.ID }) {
			return "", nil
		}
	}
	for outer := from.outer; outer != nil; outer = outer.outer {
		if outer.path == s.Path.ID {
			return fmt.Sprintf("state of %s: leaves path %s, which only its join does", s.Role, from.path), nil
		}
	}
	return fmt.Sprintf("state of %s: says the path %q, which does not begin here", s.Role, s.Path.ID), nil
}

// decisionMismatch returns how a step contradicts d, the decision of its flow, or "".
func (c *check) decisionMismatch(s *thread.State, name string, d flow.Decision) string {
	say := func(format string, args ...any) string {
		return fmt.Sprintf("state of %s: ", s.Role) + fmt.Sprintf(format, args...)
	}
	var end ending
	ended := s.Role == thread.RoleEnd
	if ended {
		end, _ = endOf(s)
	}
	switch d := d.(type) {
	case flow.Run:
		switch {
		case s.Role != d.Role:
			return say("flow %s leads to %s here", name, d.Role)
		case !s.ChildThread.IsZero():
			return say("has a childThread, but in flow %s an agent does its work", name)
		}
	case flow.Call:
		switch {
		case s.Role != d.Role:
			return say("flow %s leads to %s here", name, d.Role)
		case s.ChildThread.IsZero():
			return say("has no childThread, but in flow %s the flow %s does its work", name, d.Flow)
		}
	case flow.Fork:
		return say("flow %s leads to the fork %s here, and no path of it begins so", name, d.Node)
	case flow.AtJoin:
		// A manual fork made inside a path ends at the join, where no thread waits for it.
		if !ended || end.Code != thread.CodeDone || end.Summary != d.Summary() {
			return say("flow %s leads to the join %s here", name, d.Join)
		}
	case flow.Gate:
		if d.Input || s.Role != d.Node {
			return say("flow %s leads to the gate %s here", name, d.Node)
		}
	case flow.End:
		switch {
		case !ended:
			return say("flow %s ends here", name)
		case end.Code != d.Code:
			return say("has return code %d, flow %s ends with %d here", end.Code, name, d.Code)
		}
	case flow.Blocked:
		return say("flow %s goes no further here: %s", name, d.Reason)
	}
	return ""
}

// flowInput returns the arguments of [flow.Next] for what follows the node h of a
// chain; the caller sets the path. ok is false if the chain is broken there.
func (c *check) flowInput(ctx context.Context, h, start dag.Hash) (at flow.At, last []flow.Step, ok bool, err error) {
	if last, ok, err = c.lastSteps(ctx, h, start); err != nil || !ok {
		return at, nil, false, err
	}
	st, ok := c.sound(start)
	if !ok || st.start == nil {
		return at, nil, false, nil
	}
	at.Flow = st.start.Name
	at.Prompt, ok, err = c.text(ctx, st.start.Prompt)
	return at, last, ok, err
}

// lastSteps returns the steps that routing looks at after the node h, oldest first: the last routed step other
// than a gate, and the gates and inputs since; a gate passes its input on. Before a join of actions it adds the
// step that planned them. ok is false if the chain is broken.
func (c *check) lastSteps(ctx context.Context, h, start dag.Hash) (steps []flow.Step, ok bool, err error) {
	for h != start {
		o, ok := c.sound(h)
		if !ok || o.state == nil {
			return nil, false, nil
		}
		routed, gate := thread.Routed(o.state.Role), false
		if def := c.definitionOf(h, start); def != nil {
			_, gate = def.Gates[o.state.Role]
		}
		if routed || o.state.Role == thread.RoleInput {
			step, ok, err := c.flowStep(ctx, o.state)
			if err != nil || !ok {
				return nil, false, err
			}
			steps = append(steps, step)
		}
		if o.state.Role == thread.RoleJoin { // its actions were planned at its fork
			p, ok := c.sound(o.state.Fork)
			if !ok || p.state == nil {
				return nil, false, nil
			}
			step, ok, err := c.flowStep(ctx, p.state)
			if err != nil || !ok {
				return nil, false, err
			}
			steps = append(steps, step)
		}
		if routed && !gate {
			break
		}
		h = previous(o.state)
	}
	slices.Reverse(steps)
	return steps, true, nil
}

// flowStep returns a step as package flow sees it. ok is false if part of it is damaged or missing.
func (c *check) flowStep(ctx context.Context, s *thread.State) (step flow.Step, ok bool, err error) {
	step.Role = s.Role
	if step.Body, ok, err = c.text(ctx, s.Content); err != nil || !ok {
		return step, false, err
	}
	if json.Unmarshal(s.Meta, &step.Meta) != nil {
		return step, false, nil
	}
	if s.Paths == nil {
		return step, true, nil
	}
	failures, _, err := thread.Failures(s.Meta)
	if err != nil {
		return step, false, nil // already reported for its join
	}
	step.Paths = make(map[string]flow.PathResult, len(s.Paths))
	for _, p := range s.Paths {
		r := flow.PathResult{Status: string(p.Status), Failure: string(failures[p.ID])}
		if p.Status != store.Cancelled {
			own, ok := c.lastOwnStep(p.Head, s.Fork)
			if !ok {
				return step, false, nil
			}
			if own != nil {
				if r.Text, ok, err = c.text(ctx, own.Content); err != nil || !ok {
					return step, false, err
				}
				if json.Unmarshal(own.Meta, &r.Meta) != nil {
					return step, false, nil
				}
				if s.Role == thread.RoleJoin {
					r.Text = flow.Outcome(c.instance(own, p.ID), r.Meta) // a join records nothing else about an action
				}
			}
		}
		step.Paths[p.ID] = r
	}
	return step, true, nil
}

// text returns the text of a content, from the store if it is not cached.
func (c *check) text(ctx context.Context, h dag.Hash) (string, bool, error) {
	o, ok := c.sound(h)
	if !ok || o.typ != dag.TypeContent {
		return "", false, nil
	}
	if o.text != nil {
		return *o.text, true, nil
	}
	data, _, err := c.readObject(ctx, h)
	if ctx.Err() != nil || errors.Is(err, store.ErrBroken) {
		return "", false, err
	}
	if err != nil {
		return "", false, nil // collected meanwhile
	}
	n, err := dag.Decode(data)
	if err != nil {
		return "", false, err
	}
	text, err := dag.Unquote(n.Payload)
	return text, err == nil, err
}
