package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// checkRules applies the rules to each object and its neighbors. By induction, a
// chain is correct if every step agrees with its parent.
//
// The order matters: plans need the definitions of starts, positions need plans, and
// routes need positions. Only routes run concurrently; by then all maps are filled.
func (c *check) checkRules(ctx context.Context, reached []*object) error {
	var states, starts []*object
	for _, o := range reached {
		switch {
		case o.problem != nil:
		case o.state != nil:
			c.checkState(o)
			states = append(states, o)
		case o.start != nil:
			c.checkStart(o)
			starts = append(starts, o)
		case o.typ == dag.TypeContent:
			for _, h := range o.refs {
				if a, ok := c.sound(h); ok && a.typ == "" {
					c.wrong(o.hash, "content: its artifact %s is a blob", h)
				}
			}
		case o.typ == dag.TypeArtifact:
			if b, ok := c.sound(o.artifact.Blob); ok && b.size != o.artifact.Size {
				c.wrong(o.hash, "artifact: says %d bytes, its blob %s has %d", o.artifact.Size, o.artifact.Blob, b.size)
			}
		case o.typ == dag.TypeDetail:
			c.checkDetail(o)
		case o.typ == dag.TypeTree:
			c.checkFiles(o)
		case o.typ == dag.TypeSession:
			c.checkSession(o)
		}
	}
	if err := c.checkActions(ctx, starts); err != nil {
		return err
	}
	for _, o := range states {
		c.plan(o.hash)
	}
	if err := c.checkEvidence(ctx, states); err != nil {
		return err
	}
	if err := c.checkCalls(ctx, reached); err != nil {
		return err
	}
	if err := c.checkPrompts(ctx, reached); err != nil {
		return err
	}
	c.locateAll(states)
	return c.checkRoutes(ctx, states)
}

// expectNode returns the node of type typ that a field of o names, or nil. It reports
// the problem unless the named object has a problem itself.
func (c *check) expectNode(o *object, field string, h dag.Hash, typ string) *object {
	if h.IsZero() {
		c.wrong(o.hash, "%s: has no %s", o.typ, field)
		return nil
	}
	to, ok := c.sound(h)
	if !ok {
		return nil
	}
	if to.typ != typ {
		c.wrong(o.hash, "%s: its %s %s is a %s", o.typ, field, h, to.kindName())
		return nil
	}
	return to
}

// kindName names the kind of an object in a problem.
func (o *object) kindName() string {
	if o.typ == "" {
		return "blob"
	}
	return o.typ + " node"
}

// checkState compares a state with the nodes it names.
func (c *check) checkState(o *object) {
	s := o.state
	c.expectNode(o, "start", s.Start, dag.TypeStart)
	if len(s.Ancestors) > 0 {
		if parent := c.expectNode(o, "parent", s.Ancestors[0], dag.TypeState); parent != nil {
			c.checkAncestors(o, parent)
		}
	}
	content := c.expectNode(o, "content", s.Content, dag.TypeContent)
	if !s.Detail.IsZero() {
		c.expectNode(o, "detail", s.Detail, dag.TypeDetail)
	}
	if s.Role == "" {
		c.wrong(o.hash, "state: has no role")
	}
	if len(s.Meta) == 0 || s.Meta[0] != '{' {
		c.wrong(o.hash, "state of %s: its meta is not an object", s.Role)
	}
	if _, _, err := thread.CommentOf(s); err != nil {
		c.wrong(o.hash, "state of %s: %v", s.Role, err)
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
		c.checkChild(o)
	}
	c.checkJoinNode(o)
}

// checkDetail compares a detail with its prompt and evidence.
func (c *check) checkDetail(o *object) {
	if p, ok := c.sound(o.detail.Prompt); ok && p.typ != dag.TypePrompt && p.typ != dag.TypeContent {
		c.wrong(o.hash, "detail: its prompt %s is of type %s", o.detail.Prompt, p.typ)
	}
	for _, h := range o.detail.Evidence {
		if e := c.expectNode(o, "evidence", h, dag.TypeEvidence); e != nil && e.evidence.By != o.detail.Instance {
			c.wrong(o.hash, "detail: its evidence %s is by %q, it is itself by %q", h, e.evidence.By,
				o.detail.Instance)
		}
	}
	if h := o.detail.SessionFiles; !h.IsZero() {
		if s := c.expectNode(o, "session", h, dag.TypeSession); s != nil && s.carried.ID != o.detail.Session {
			c.wrong(o.hash, "detail: its session files %s are of session %q, it was done in %q", h, s.carried.ID,
				o.detail.Session)
		}
	}
	if o.detail.Files.IsZero() {
		return
	}
	after := "" // unknown
	if o.detail.TreeAfter != nil {
		after = *o.detail.TreeAfter
	}
	if f := c.expectNode(o, "files", o.detail.Files, dag.TypeTree); f != nil && f.files.Tree != after {
		c.wrong(o.hash, "detail: its files %s are of git tree %q, the step left %q", o.detail.Files, f.files.Tree, after)
	}
}

// checkFiles checks the objects that a step's files name. Git checks what is in the bundle when it unpacks it.
func (c *check) checkFiles(o *object) {
	if b, ok := c.sound(o.files.Bundle); ok && b.typ != "" {
		c.wrong(o.hash, "tree: its bundle %s is a %s", o.files.Bundle, b.kindName())
	}
	if !o.files.Base.IsZero() {
		c.expectNode(o, "base", o.files.Base, dag.TypeTree)
	}
}

// checkSession checks that a session's bytes are a blob, and that the node before it is of the same session.
func (c *check) checkSession(o *object) {
	if b, ok := c.sound(o.carried.Bytes); ok && b.typ != "" {
		c.wrong(o.hash, "session: its bytes %s are a %s", o.carried.Bytes, b.kindName())
	}
	if o.carried.Prev.IsZero() {
		return
	}
	if p := c.expectNode(o, "prev", o.carried.Prev, dag.TypeSession); p != nil && p.carried.ID != o.carried.ID {
		c.wrong(o.hash, "session: the one before, %s, is of session %q, it is of %q", o.carried.Prev, p.carried.ID,
			o.carried.ID)
	}
}

// checkAncestors compares a state with its parent.
func (c *check) checkAncestors(o, parent *object) {
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

// An ending is the meta of an __end__ step. Pointers distinguish a missing key from a zero value.
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

// mayPassThrough reports whether the chain that ends at from contains target; with
// calls, also the chains of its callers. A broken chain has been reported, and is
// given the benefit of the doubt.
func (c *check) mayPassThrough(from, target dag.Hash, calls bool) bool {
	through, known := c.passesThrough(from, target, calls)
	return through || !known
}

// passesThrough is like [check.mayPassThrough], but reports separately whether the
// answer is known: it is not for a chain that is broken before target. The walk
// moves a whole window of ancestors at a time.
func (c *check) passesThrough(from, target dag.Hash, calls bool) (through, known bool) {
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
			h = o.state.Start
			if len(a) > 0 {
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

// checkStart compares a start with its prompt, bundle and caller. Its depth is one
// more than its caller's; by induction, it is the number of callers above.
func (c *check) checkStart(o *object) {
	s := o.start
	c.expectNode(o, "prompt", s.Prompt, dag.TypeContent)
	c.loadDefinition(o)
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
		c.wrong(o.hash, "start: its parentState %s is a %s", s.ParentState, caller.kindName())
		return
	}
	if s.Depth != above.start.Depth+1 {
		c.wrong(o.hash, "start: has depth %d, its caller %d", s.Depth, above.start.Depth)
	}
}

// countSteps numbers the steps of each chain, -1 after a break. It walks back to the
// nearest step with a number and then fills in the steps on the way, so that each
// step is visited once, however many heads share a chain.
func (c *check) countSteps(reached []*object) {
	for _, o := range reached {
		var open []*object
		steps := int32(0)
		for o != nil && o.problem == nil && o.state != nil {
			if o.chain.steps != 0 {
				steps = o.chain.steps
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
			o.chain.steps = steps
		}
	}
}
