package record

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Position is the state of a thread that determines its next step.
type Position struct {
	Row      store.Thread
	Def      *flow.Definition
	Tip      thread.Tip
	Prompt   string         // the thread's
	Task     dag.Hash       // the content that has it
	Last     []flow.Step    // as [flow.Next] wants them
	Before   []flow.Step    // the steps that led to the last routed step
	Visits   map[string]int // how often each role has run
	Stamp    int64          // when the head was made, Unix ms: part of the ids of what is made from it
	Depth    int            // of the start
	Caller   dag.Hash       // the caller's head, zero for a thread that was not called
	Parent   string         // what a prompt says about the caller
	Lent     prompt.Exports // what a prompt says the agent can read of the caller
	Talk     int            // bytes of the conversation since the last summary, and of the summary
	Framed   int            // bytes of it in a prompt
	Summary  dag.Hash       // the step of the last summary, zero for none
	Summed   int            // bytes of the last summary
	Main     string         // the last role of the conversation that does not plan
	Gathered dag.Hash       // the detail of the join of a plan's actions, zero when none was joined

	next flow.Decision // cached: a thread that waits for many paths asks for it once for each
}

// Position reads the position of a thread, and also returns the steps of its chain, oldest first.
func (r *Reader) Position(ctx context.Context, row store.Thread) (*Position, []thread.Step, error) {
	def, err := r.Definition(ctx, row)
	if err != nil {
		return nil, nil, err
	}
	p := &Position{Row: row, Def: def, Visits: make(map[string]int)}
	if p.Tip, err = r.nodes.Tip(ctx, row.Head); err != nil {
		return nil, nil, err
	}
	start, err := r.nodes.Start(ctx, row.Start)
	if err != nil {
		return nil, nil, err
	}
	if p.Prompt, err = r.nodes.Text(ctx, start.Prompt); err != nil {
		return nil, nil, err
	}
	p.Task, p.Depth, p.Caller = start.Prompt, start.Depth, start.ParentState
	if !p.Caller.IsZero() && def.ActionID() == "" {
		if p.Parent, p.Lent, err = prompt.Caller(ctx, r.nodes, p.Caller, r.steps().said); err != nil {
			return nil, nil, err
		}
	}
	steps, err := r.nodes.Steps(ctx, row.Head)
	if err != nil {
		return nil, nil, err
	}
	if p.Stamp, err = r.stamp(ctx, row, steps); err != nil {
		return nil, nil, err
	}
	for s := range r.nodes.WithTexts(ctx, steps) {
		if err := r.Advance(ctx, p, s); err != nil {
			return nil, nil, err
		}
	}
	return p, steps, nil
}

// stamp returns when a thread's head was made, which is part of the ids of what is made from it. A path shares
// the start of its parent.
func (r *Reader) stamp(ctx context.Context, row store.Thread, steps []thread.Step) (int64, error) {
	if n := len(steps); n > 0 {
		return steps[n-1].State.Timestamp, nil
	}
	for row.Kind == store.KindPath {
		var err error
		if row, err = r.rows.Thread(ctx, row.Parent.Thread); err != nil {
			return 0, err
		}
	}
	return row.CreatedAt, nil
}

// Clone returns a copy of the position that can change independently.
func (p *Position) Clone() Position {
	n := *p
	n.next, n.Visits = nil, maps.Clone(p.Visits)
	n.Last, n.Before = slices.Clip(p.Last), slices.Clip(p.Before)
	return n
}

// Advance moves a position on by the next step.
func (r *Reader) Advance(ctx context.Context, p *Position, s thread.Step) error {
	p.next = nil
	step, err := r.steps().step(ctx, s.State)
	if err != nil {
		return err
	}
	if !slices.Contains(p.Def.Context.Pin, s.State.Role) {
		said := len(step.Body)
		brief, err := r.nodes.Brief(ctx, s.State)
		if err != nil {
			return err
		}
		if brief != nil {
			said = len(brief.Text(""))
		}
		if !s.State.Compact.IsZero() {
			p.Talk, p.Framed, p.Summary, p.Summed = 0, 0, s.Hash, len(step.Body)
		}
		p.Talk += said
		p.Framed += said + prompt.FrameBytes(s)
	}
	_, gate := p.Def.Gates[s.State.Role]
	_, until := flow.UntilOf(s.State.Role)
	switch {
	case gate, s.State.Role == thread.RoleInput:
		p.Last = append(p.Last, step)
	case until:
		p.Visits[s.State.Role]++
		p.Last = append(p.Last, step)
	case s.State.Role == thread.RoleJoin:
		planned, err := r.steps().planned(ctx, s.State)
		if err != nil {
			return err
		}
		p.Before, p.Last = nil, []flow.Step{planned, step}
		p.Gathered = s.State.Detail
	case thread.Routed(s.State.Role):
		if !p.Def.GoesOn(p.Last) {
			p.Before = p.Last
		}
		p.Last = append(p.Def.Ran(p.Last, s.State.Role), step)
		if s.State.Paths == nil {
			p.Visits[s.State.Role]++
			if !slices.Contains(p.Def.Plans(), s.State.Role) {
				p.Main = s.State.Role
			}
		}
	}
	return nil
}

// Next returns what follows the position.
func (p *Position) Next() flow.Decision {
	if p.next == nil {
		p.next = flow.Next(p.Def, p.At(), p.Last)
	}
	return p.next
}

// At returns the thread's place in its flow.
func (p *Position) At() flow.At {
	at := flow.At{Flow: p.Row.Flow, Prompt: p.Prompt}
	if p.Row.Path != nil && p.Row.Kind != store.KindWorker {
		at.Path = p.Row.Path.ID
	}
	return at
}

// Where returns the directory inside the tree in which a decision runs. A role that goes on stays in its first
// directory.
func (p *Position) Where(location string) string {
	if p.Def.GoesOn(p.Last) {
		switch first := flow.Next(p.Def, p.At(), p.Before).(type) {
		case flow.Run:
			return first.Location
		case flow.Call:
			return first.Location
		}
	}
	return location
}

// InPlan reports whether role plans or carries out an action of a plan. After an interruption, such an agent
// starts over.
func (p *Position) InPlan(role string) bool {
	return p.Def.Roles[role].Plan || p.Def.ActionID() != ""
}

// PathEnd reads how a path ended, with its text as recorded. It also returns the path's own steps, oldest first.
func (r *Reader) PathEnd(ctx context.Context, p store.Thread) (thread.PathEnd, []thread.Step, error) {
	var own []thread.Step
	for s, err := range r.nodes.Walk(ctx, p.Head) {
		if err != nil {
			return thread.PathEnd{Row: p}, nil, fmt.Errorf("read path %s: %w", p.ID, err)
		}
		if s.Hash == p.Path.Fork {
			break
		}
		own = append(own, s)
	}
	slices.Reverse(own)
	end, err := NewSteps(r.nodes).PathEnd(ctx, p)
	return end, own, err
}

// steps reads steps as routes see them.
func (r *Reader) steps() Steps {
	if r.AsRecorded {
		return NewSteps(r.nodes)
	}
	return Steps{r.nodes, r.nodes.Said}
}
