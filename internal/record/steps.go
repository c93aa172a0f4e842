package record

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Nodes are what steps are read from: a [thread.Reader], or the nodes that package verify has checked.
type Nodes interface {
	// Walk yields the steps from head back to the first one, newest first.
	Walk(ctx context.Context, head dag.Hash) iter.Seq2[thread.Step, error]
	State(ctx context.Context, h dag.Hash) (*thread.State, error)
	// Text returns the text of a content.
	Text(ctx context.Context, h dag.Hash) (string, error)
	// Detail may return nil: the step has none.
	Detail(ctx context.Context, h dag.Hash) (*thread.Detail, error)
}

// Steps reads steps as package flow sees them.
type Steps struct {
	nodes Nodes
	said  func(context.Context, *thread.State) (string, error) // the text of a step
}

// NewSteps returns a reader of steps with their texts as recorded.
func NewSteps(nodes Nodes) Steps {
	return Steps{nodes, func(ctx context.Context, s *thread.State) (string, error) {
		return nodes.Text(ctx, s.Content)
	}}
}

// Last returns the steps by which [flow.Next] decides what follows head, oldest first: the last step of a role or
// a join, and the gates and inputs after it. Before the step of a role that goes on until a command succeeds is the
// last run of that. def is the flow that the thread runs at head.
func (r Steps) Last(ctx context.Context, def *flow.Definition, head dag.Hash) ([]flow.Step, error) {
	var last []flow.Step
	command := "" // the role of the runs, once its own step is known
	for s, err := range r.nodes.Walk(ctx, head) {
		if err != nil {
			return nil, err
		}
		routed := thread.Routed(s.State.Role)
		_, until := flow.UntilOf(s.State.Role)
		switch {
		case command != "" && (routed || until && s.State.Role != command):
			slices.Reverse(last)
			return last, nil
		case !routed && !until && s.State.Role != thread.RoleInput, command != "" && !until:
			continue
		}
		step, err := r.step(ctx, s.State)
		if err != nil {
			return nil, err
		}
		last = append(last, step)
		if s.State.Role == thread.RoleJoin {
			planned, err := r.planned(ctx, s.State)
			if err != nil {
				return nil, err
			}
			last = append(last, planned)
		}
		if _, gate := def.Gates[s.State.Role]; command != "" || routed && !gate {
			if command != "" || def.Roles[s.State.Role].Until == nil {
				break
			}
			command = flow.UntilRole(s.State.Role)
		}
	}
	slices.Reverse(last)
	return last, nil
}

// planned returns the step that planned the actions of a join.
func (r Steps) planned(ctx context.Context, join *thread.State) (flow.Step, error) {
	s, err := r.nodes.State(ctx, join.Fork)
	if err != nil {
		return flow.Step{}, err
	}
	return r.step(ctx, s)
}

// step returns a step as package flow sees it.
func (r Steps) step(ctx context.Context, s *thread.State) (flow.Step, error) {
	text, err := r.said(ctx, s)
	if err != nil {
		return flow.Step{}, err
	}
	step := flow.Step{Role: s.Role, Body: text, Meta: fields(s.Meta)}
	if s.Paths == nil {
		return step, nil
	}
	ends, _, err := r.PathEnds(ctx, s)
	if err != nil {
		return flow.Step{}, err
	}
	step.Paths = make(map[string]flow.PathResult, len(ends))
	for _, p := range ends {
		step.Paths[p.Row.Path.ID] = flow.PathResult{Status: string(p.Row.Status), Failure: string(p.Row.Reason.Failure),
			Text: p.Text, Meta: fields(p.Meta)}
	}
	return step, nil
}

// PathEnds returns how the paths of a join ended, in its order; of a cancelled path nothing is read. older reports
// whether the join was written before the kinds of failures were recorded.
func (r Steps) PathEnds(ctx context.Context, join *thread.State) (ends []thread.PathEnd, older bool, err error) {
	failures, older, err := thread.Failures(join.Meta)
	if err != nil {
		return nil, false, err
	}
	for _, p := range join.Paths {
		end := thread.PathEnd{Row: store.Thread{ID: p.Thread, Head: p.Head, Status: p.Status,
			Path:   &store.Path{ID: p.ID, Fork: join.Fork, Join: join.Role},
			Reason: &store.Reason{Failure: failures[p.ID]}}}
		if p.Status != store.Cancelled {
			if end, err = r.PathEnd(ctx, end.Row); err != nil {
				return nil, false, err
			}
		}
		ends = append(ends, end)
	}
	return ends, older, nil
}

// PathEnd reads how a path ended. What an action came to is its outcome.
func (r Steps) PathEnd(ctx context.Context, p store.Thread) (thread.PathEnd, error) {
	end := thread.PathEnd{Row: p}
	last, err := thread.LastRouted(r.nodes.Walk(ctx, p.Head), p.Path.Fork)
	if err != nil {
		return end, fmt.Errorf("read path %s: %w", p.ID, err)
	}
	if last.State == nil {
		return end, nil
	}
	end.Meta = last.State.Meta
	instance := Action(p)
	if instance == "" {
		if end.Text, err = r.said(ctx, last.State); err != nil {
			return end, fmt.Errorf("read path %s: %w", p.ID, err)
		}
		return end, nil
	}
	d, err := r.nodes.Detail(ctx, last.State.Detail)
	if err != nil {
		return end, fmt.Errorf("read path %s: %w", p.ID, err)
	}
	if d != nil && d.Instance != "" {
		instance = d.Instance
	}
	if meta := fields(end.Meta); meta != nil {
		end.Text = flow.Outcome(instance, meta)
	}
	return end, nil
}

// fields returns the fields of a meta, nil for none; meta was checked when it was written.
func fields(meta json.RawMessage) map[string]any {
	var m map[string]any
	if json.Unmarshal(meta, &m) != nil {
		return nil
	}
	return m
}
