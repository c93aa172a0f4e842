package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
)

// rules applies to each object what can be said of it and its neighbours. When
// every step is right beside its parent, the whole chain is right.
func (c *check) rules(ctx context.Context, reached []*object) error {
	var states, starts []*object
	for _, o := range reached {
		switch {
		case o.problem != nil:
		case o.state != nil:
			c.state(o)
			states = append(states, o)
		case o.start != nil:
			c.start(o)
			starts = append(starts, o)
		case o.typ == dag.TypeContent:
			for _, h := range o.refs {
				if a, ok := c.sound(h); ok && a.typ == "" {
					c.wrong(o.hash, "content: its artifact %s is a blob", h)
				}
			}
		case o.typ == dag.TypeArtifact:
			if b, ok := c.sound(o.blob); ok && b.size != o.claimed {
				c.wrong(o.hash, "artifact: says %d bytes, its blob %s has %d", o.claimed, o.blob, b.size)
			}
		case o.typ == dag.TypeDetail:
			c.detail(o)
		}
	}
	if err := c.actions(ctx, starts); err != nil {
		return err
	}
	for _, o := range states {
		c.plan(o.hash)
	}
	if err := c.prompts(ctx, reached); err != nil {
		return err
	}
	c.locate(states)
	return c.routes(ctx, states)
}

// want returns the node of type typ that field of o names, or nil, with the
// problem noted unless it lies in the named object itself.
func (c *check) want(o *object, field string, h dag.Hash, typ string) *object {
	if h.IsZero() {
		c.wrong(o.hash, "%s: has no %s", o.typ, field)
		return nil
	}
	to, ok := c.sound(h)
	if !ok {
		return nil
	}
	if to.typ != typ {
		c.wrong(o.hash, "%s: its %s %s is a %s", o.typ, field, h, to.name())
		return nil
	}
	return to
}

func (o *object) name() string {
	if o.typ == "" {
		return "blob"
	}
	return o.typ + " node"
}

// before returns what a state follows: its parent, or its start.
func before(s *thread.State) dag.Hash {
	if len(s.Ancestors) > 0 {
		return s.Ancestors[0]
	}
	return s.Start
}

func (c *check) state(o *object) {
	s := o.state
	c.want(o, "start", s.Start, dag.TypeStart)
	if len(s.Ancestors) > 0 {
		if parent := c.want(o, "parent", s.Ancestors[0], dag.TypeState); parent != nil {
			c.follows(o, parent)
		}
	}
	content := c.want(o, "content", s.Content, dag.TypeContent)
	if !s.Detail.IsZero() {
		c.want(o, "detail", s.Detail, dag.TypeDetail)
	}
	if s.Role == "" {
		c.wrong(o.hash, "state: has no role")
	}
	if len(s.Meta) == 0 || s.Meta[0] != '{' {
		c.wrong(o.hash, "state of %s: its meta is not an object", s.Role)
	}
	switch compact := s.Role == thread.RoleCompact; {
	case compact && (s.Compact.IsZero() || s.Compact != s.Content):
		c.wrong(o.hash, "state of %s: its compact is not its content", s.Role)
	case !compact && !s.Compact.IsZero():
		c.wrong(o.hash, "state of %s: has a compact, which only %s may have", s.Role, thread.RoleCompact)
	}
	if s.Role == thread.RoleEnd {
		if end, ok := endOf(s); !ok {
			c.wrong(o.hash, "state of %s: its meta is not {returnCode, summary}", s.Role)
		} else if content != nil && content.text != nil && *content.text != end.Summary {
			c.wrong(o.hash, "state of %s: its content is not its summary", s.Role)
		}
	}
	if !s.ChildThread.IsZero() {
		c.child(o)
	}
	c.join(o)
}

// detail holds a detail against its prompt and its evidence.
func (c *check) detail(o *object) {
	if p, ok := c.sound(o.prompt); ok && p.typ != dag.TypePrompt && p.typ != dag.TypeContent {
		c.wrong(o.hash, "detail: its prompt %s is of type %s", o.prompt, p.typ)
	}
	for _, h := range o.proofs {
		if e := c.want(o, "evidence", h, dag.TypeEvidence); e != nil && e.by != o.by {
			c.wrong(o.hash, "detail: its evidence %s is by %q, it is itself by %q", h, e.by, o.by)
		}
	}
}

// follows holds a state against its parent.
func (c *check) follows(o, parent *object) {
	s, p := o.state, parent.state
	want := append([]dag.Hash{parent.hash}, p.Ancestors...)
	if want = want[:min(len(want), thread.Window)]; !slices.Equal(s.Ancestors, want) {
		c.wrong(o.hash, "state of %s: its ancestors are not its parent and the parent's ancestors", s.Role)
	}
	if s.Start != p.Start {
		c.wrong(o.hash, "state of %s: its start %s is not its parent's, %s", s.Role, s.Start, p.Start)
	}
	if p.Role == thread.RoleEnd {
		c.wrong(o.hash, "state of %s: follows the end of its thread, %s", s.Role, parent.hash)
	}
}

// An ending is the meta of an __end__ step.
type ending struct {
	ReturnCode *int    `json:"returnCode"`
	Text       *string `json:"summary"`
	Code       int     `json:"-"`
	Summary    string  `json:"-"`
}

// endOf reads the meta of an __end__ step, which has exactly two keys.
func endOf(s *thread.State) (e ending, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(s.Meta))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || e.ReturnCode == nil || e.Text == nil {
		return ending{}, false
	}
	e.Code, e.Summary = *e.ReturnCode, *e.Text
	return e, true
}

// passes tells whether the chain that ends at from goes through target; with
// calls, also when it is reached through the callers of the chain. A chain that
// is broken was reported, and is given the benefit of the doubt.
func (c *check) passes(from, target dag.Hash, calls bool) bool {
	through, known := c.through(from, target, calls)
	return through || !known
}

// through is passes for those who have to know it: a chain that is broken before
// it comes to target is not known to go through it.
func (c *check) through(from, target dag.Hash, calls bool) (through, known bool) {
	for h := from; !h.IsZero() && h != target; {
		o, ok := c.sound(h)
		switch {
		case !ok:
			return false, false
		case o.state != nil:
			a := o.state.Ancestors
			if slices.Contains(a, target) {
				return true, true
			}
			if h = o.state.Start; len(a) > 0 {
				h = a[len(a)-1]
			}
		case o.start != nil && calls:
			h = o.start.ParentState
		default:
			return false, true
		}
		if h.IsZero() {
			return false, true
		}
	}
	return !from.IsZero(), true
}

// start holds a start against its prompt, bundle and caller. Depth is one more
// than the caller's: where that holds of every start, it is the length of the
// walk up.
func (c *check) start(o *object) {
	s := o.start
	c.want(o, "prompt", s.Prompt, dag.TypeContent)
	c.define(o)
	if s.ParentState.IsZero() {
		if s.Depth != 0 {
			c.wrong(o.hash, "start: has depth %d and no caller", s.Depth)
		}
		return
	}
	caller, ok := c.sound(s.ParentState)
	if !ok {
		return
	}
	above := caller
	if caller.state != nil {
		if above, ok = c.sound(caller.state.Start); !ok {
			return
		}
	}
	if above.start == nil {
		c.wrong(o.hash, "start: its parentState %s is a %s", s.ParentState, caller.name())
		return
	}
	if s.Depth != above.start.Depth+1 {
		c.wrong(o.hash, "start: has depth %d, its caller %d", s.Depth, above.start.Depth)
	}
}

// measure counts the steps of each chain; -1 where the chain is broken.
func (c *check) measure(reached []*object) {
	for _, o := range reached {
		var open []*object
		steps := int32(0)
		for o != nil && o.problem == nil && o.state != nil {
			if o.steps != 0 {
				steps = o.steps
				break
			}
			open = append(open, o)
			if len(o.state.Ancestors) == 0 {
				break
			}
			parent, ok := c.sound(o.state.Ancestors[0])
			if !ok || parent.state == nil {
				steps = -1
				break
			}
			o = parent
		}
		for _, o := range slices.Backward(open) {
			if steps >= 0 {
				steps++
			}
			o.steps = steps
		}
	}
}
