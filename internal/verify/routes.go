package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// definitions holds the flow of every start, by the start's hash. Those that
// cannot be read are absent: they are reported with their start.
type definitions map[dag.Hash]*flow.Definition

// define reads the flow that a start names.
func (c *check) define(o *object) {
	bundle := c.want(o, "bundle", o.start.Hash, dag.TypeFlow)
	if bundle == nil {
		return
	}
	def, err := bundle.definition(o.start.Name)
	if err != nil {
		c.wrong(o.hash, "start: flow %q of its bundle %s: %v", o.start.Name, bundle.hash, err)
		return
	}
	c.defs[o.hash] = def
}

// definition decodes a flow of a bundle, once.
func (o *object) definition(name string) (*flow.Definition, error) {
	if def := o.defs[name]; def != nil {
		return def, nil
	}
	raw, ok := o.flow.Flows[name]
	if !ok {
		return nil, errors.New("is not there")
	}
	def := new(flow.Definition)
	if err := json.Unmarshal(raw, def); err != nil {
		return nil, fmt.Errorf("cannot be decoded: %w", err)
	}
	if o.defs == nil {
		o.defs = make(map[string]*flow.Definition)
	}
	o.defs[name] = def
	return def, nil
}

// routes asks the flow of each step whether it leads there.
func (c *check) routes(ctx context.Context, states []*object) error {
	found := make([]*Problem, len(states))
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(states)) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(states); i = int(next.Add(1)) - 1 {
				what, err := c.route(ctx, states[i])
				if err != nil {
					return err
				}
				if what != "" {
					found[i] = &Problem{states[i].hash, what, Integrity}
				}
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	for _, p := range found {
		if p != nil {
			c.problems = append(c.problems, *p)
		}
	}
	return err
}

// route tells what is wrong with how o was come to, if anything. It passes over
// what was not routed (what people and compactions added, a thread cancelled),
// and over what the chain alone does not decide: joins, the steps after them, and
// decisions other than to run a role or to end.
func (c *check) route(ctx context.Context, o *object) (string, error) {
	s := o.state
	def := c.defs[s.Start]
	if def == nil || s.Paths != nil || thread.Reserved(s.Role) && s.Role != thread.RoleEnd {
		return "", nil
	}
	end, ended := ending{}, s.Role == thread.RoleEnd
	if ended {
		var ok bool
		if end, ok = endOf(s); !ok || end.Code == thread.CodeCancelled {
			return "", nil
		}
	}
	last, ok, err := c.last(ctx, s)
	if err != nil || !ok {
		return "", err
	}
	start := c.objects[s.Start].start
	prompt, ok, err := c.text(ctx, start.Prompt)
	if err != nil || !ok {
		return "", err
	}
	switch d := flow.Next(def, flow.At{Flow: start.Name, Prompt: prompt}, last).(type) {
	case flow.Run:
		if s.Role != d.Role {
			return fmt.Sprintf("state of %s: flow %s leads to %s here", s.Role, start.Name, d.Role), nil
		}
	case flow.End:
		if !ended {
			return fmt.Sprintf("state of %s: flow %s ends here", s.Role, start.Name), nil
		}
		if end.Code != d.Code {
			return fmt.Sprintf("state of %s: has return code %d, flow %s ends with %d here", s.Role, end.Code, start.Name, d.Code), nil
		}
	case flow.Blocked:
		return fmt.Sprintf("state of %s: flow %s goes no further here: %s", s.Role, start.Name, d.Reason), nil
	}
	return "", nil
}

// last returns what routing looks at before s: the last routed step, and what
// people added since. Not ok: it is broken, or more than a chain.
func (c *check) last(ctx context.Context, s *thread.State) (steps []flow.Step, ok bool, err error) {
	for h := before(s); h != s.Start; {
		o, ok := c.sound(h)
		if !ok || o.state == nil || o.state.Paths != nil {
			return nil, false, nil
		}
		routed := !thread.Reserved(o.state.Role)
		if routed || o.state.Role == thread.RoleInput {
			body, ok, err := c.text(ctx, o.state.Content)
			if err != nil || !ok {
				return nil, false, err
			}
			var meta map[string]any
			if json.Unmarshal(o.state.Meta, &meta) != nil {
				return nil, false, nil
			}
			steps = append(steps, flow.Step{Role: o.state.Role, Meta: meta, Body: body})
		}
		if routed {
			break
		}
		h = before(o.state)
	}
	slices.Reverse(steps)
	return steps, true, nil
}

// text returns the text of a content, which may have to be read again.
func (c *check) text(ctx context.Context, h dag.Hash) (string, bool, error) {
	o, ok := c.sound(h)
	if !ok || o.typ != dag.TypeContent {
		return "", false, nil
	}
	if o.text != nil {
		return *o.text, true, nil
	}
	data, _, err := c.read(ctx, h)
	if ctx.Err() != nil || errors.Is(err, store.ErrBroken) {
		return "", false, err
	}
	if err != nil {
		return "", false, nil // it was sound a moment ago: collected meanwhile
	}
	n, err := dag.Decode(data)
	if err != nil {
		return "", false, err
	}
	var text string
	if err := json.Unmarshal(n.Payload, &text); err != nil {
		return "", false, err
	}
	return text, true, nil
}
