package verify

import (
	"bytes"
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// checkChild compares a step with the thread it called. The call was made at the step's parent; only inputs and
// compactions may come between.
func (c *check) checkChild(o *object) {
	s := o.state
	if !thread.Routed(s.Role) || s.Paths != nil {
		c.wrong(o.hash, "state of %s: has a childThread, which only roles may have", s.Role)
	}
	last := c.expectNode(o, "childThread", s.ChildThread, dag.TypeState)
	if last == nil {
		return
	}
	if last.state.Role != thread.RoleEnd {
		c.wrong(o.hash, "state of %s: its childThread %s is not the last step of a thread", s.Role, last.hash)
	}
	first, ok := c.sound(last.state.Start)
	if !ok || first.start == nil {
		return
	}
	if own, ok := c.sound(s.Start); ok && own.start != nil && own.start.Hash != first.start.Hash {
		c.wrong(o.hash, "state of %s: its childThread runs another bundle", s.Role)
	}
	for h := s.Previous(); ; {
		if h == first.start.ParentState {
			return
		}
		p, ok := c.sound(h)
		if !ok {
			return
		}
		if p.state == nil || thread.Routed(p.state.Role) {
			break
		}
		h = p.state.Previous()
	}
	c.wrong(o.hash, "state of %s: its childThread was called from %s, not from its parent", s.Role,
		first.start.ParentState)
}

// checkCall compares a step of a role that calls another flow with the result of
// that call: the text of the child's last routed step, and its meta if the role's
// schema accepts it.
func (c *check) checkCall(ctx context.Context, o *object, def *flow.Definition,
	d flow.Call) (wrong []string, err error) {
	s := o.state
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("state of %s: its ", s.Role)+fmt.Sprintf(format, args...))
	}
	end, ok := c.sound(s.ChildThread)
	if !ok || end.state == nil {
		return nil, nil
	}
	ending, ok := endOf(end.state)
	first, sound := c.sound(end.state.Start)
	if !ok || end.state.Role != thread.RoleEnd || !sound || first.start == nil {
		return nil, nil // already reported for the child
	}
	if first.start.Name != d.Flow {
		say("childThread ran the flow %s, flow %s calls %s", first.start.Name, def.Name, d.Flow)
	}
	if first.start.ParentState == s.Previous() {
		prompt, err := thread.NewContent(d.Prompt, nil)
		if err != nil {
			return wrong, nil
		}
		if prompt.Hash != first.start.Prompt {
			say("childThread was given another prompt than flow %s gives it", def.Name)
		}
	}
	last, err := c.lastRouted(end.state.Previous())
	if err != nil {
		return wrong, nil
	}
	content, err := thread.NewContent("", nil)
	if err != nil {
		return wrong, nil
	}
	want := content.Hash
	if last.State != nil {
		want = last.State.Content
	}
	if s.Content != want {
		say("content is not the content of the last step of its childThread")
	}
	meta, _, err := record.Returned(def, s.Role, thread.EndStatus(ending.Code), end.state.Meta, last.State)
	if err == nil && !bytes.Equal(meta, s.Meta) {
		say("meta is not what its childThread returned, %s", meta)
	}
	return wrong, ctx.Err()
}
