package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
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
	err := inParallel(ctx, len(states), func(ctx context.Context, i int) (err error) {
		found[i], err = c.checkRoute(ctx, states[i])
		return err
	})
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
	if def == nil || o.chain.position == nil {
		return nil, nil
	}
	if what, err := c.entryMismatch(ctx, o); err != nil || what != "" {
		return []string{what}, err
	}
	_, until := flow.UntilOf(s.Role)
	switch {
	case s.Paths != nil:
		return c.checkJoin(ctx, o, def)
	case !thread.Routed(s.Role) && s.Role != thread.RoleEnd && !until:
		return nil, nil
	}
	if s.Role == thread.RoleEnd {
		end, ok := endOf(s)
		failed := end.Code == 1 && strings.HasPrefix(end.Summary, thread.EndFailed) && def.ActionID() != ""
		if !ok || end.Code == thread.CodeCancelled || failed {
			return nil, nil
		}
	}
	def = c.definitionAt(s.Start, o.chain.position)
	d, ok, err := c.next(ctx, def, s.Previous(), s.Start, o.chain.position.path)
	if err != nil || !ok {
		return nil, err
	}
	if what := c.decisionMismatch(s, d); what != "" {
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
		d, ok, err := c.next(ctx, c.definitionAt(s.Start, from), s.Previous(), s.Start, from.path)
		if err != nil || !ok {
			return "", err
		}
		if d, ok := d.(flow.Fork); ok &&
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
func (c *check) decisionMismatch(s *thread.State, d flow.Decision) string {
	name := c.objects[s.Start].start.Name
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

// next returns what the flow def decides after the node h of a chain, in a path. ok is false if the chain, or a text of
// it, is damaged there.
func (c *check) next(ctx context.Context, def *flow.Definition, h, start dag.Hash,
	path string) (d flow.Decision, ok bool, err error) {
	st, ok := c.sound(start)
	if !ok || st.start == nil {
		return nil, false, nil
	}
	nodes := soundNodes{c}
	prompt, err := nodes.Text(ctx, st.start.Prompt)
	if err != nil {
		return nil, false, c.fatal(ctx, err)
	}
	last, err := record.NewSteps(nodes).Last(ctx, def, h)
	if err != nil {
		return nil, false, c.fatal(ctx, err)
	}
	return flow.Next(def, flow.At{Flow: st.start.Name, Path: path, Prompt: prompt}, last), true, nil
}
