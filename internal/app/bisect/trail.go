package bisect

import (
	"context"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// A State is how the files of a task were after a step.
type State struct {
	Tree   string   `json:"tree"`   // git tree
	Step   string   `json:"step"`   // as people name it: k7f2/3, or k7f2/0 for the beginning
	Hash   dag.Hash `json:"hash"`   // of the step, or zero
	ByHand bool     `json:"byHand"` // people changed the files between the step and the next one
	Role   string   `json:"role"`   // this and the rest: "" at the beginning, and if people changed the files
	Agent  string   `json:"agent"`
	Model  string   `json:"model"`
	Prompt string   `json:"prompt"` // the first line of what the step was asked

	sides []side // of a join
}

// A side is a path that a join merged.
type side struct {
	row   store.Thread
	begun string // git trees
	ended string
}

// trail returns the states that the files of a thread went through after the step until, oldest first, each with
// another tree than the one before. The paths of a join count as one state.
func (f *Finder) trail(ctx context.Context, row store.Thread, until dag.Hash) ([]State, error) {
	steps, err := f.Reader.Steps(ctx, row, 1, 0)
	if err != nil {
		return nil, err
	}
	name := f.Reader.Names().Of(ctx, row)
	var states []State
	add := func(s State) {
		if len(states) == 0 || states[len(states)-1].Tree != s.Tree {
			states = append(states, s)
		}
	}
	own := ownSteps(steps, until)
	last := State{Step: fmt.Sprintf("%s/%d", name, 0)}
	if len(own) > 0 && own[0].N > 1 {
		before := steps[own[0].N-2]
		last.Step, last.Hash = fmt.Sprintf("%s/%d", name, before.N), before.Hash
	}
	for _, s := range own {
		if s.Child != "" {
			child, err := f.Reader.Store.Thread(ctx, s.Child)
			if err != nil {
				return nil, err
			}
			child.Head = s.ChildThread
			called, err := f.trail(ctx, child, dag.Hash{})
			if err != nil {
				return nil, err
			}
			for _, c := range called {
				add(c)
			}
		}
		if d := s.Detail; d != nil && d.TreeBefore != nil && d.TreeAfter != nil {
			by := last
			by.Tree, by.ByHand = *d.TreeBefore, len(states) > 0
			add(by)
			at, err := f.state(ctx, name, s)
			if err != nil {
				return nil, err
			}
			add(at)
		}
		last = State{Step: fmt.Sprintf("%s/%d", name, s.N), Hash: s.Hash}
	}
	return states, nil
}

// ownSteps returns the steps after until without those of paths that a join continues: they worked in files of their
// own.
func ownSteps(steps []view.Step, until dag.Hash) (own []view.Step) {
	var past dag.Hash
	for i := len(steps) - 1; i >= 0 && steps[i].Hash != until; i-- {
		s := steps[i]
		if !past.IsZero() && s.Hash != past {
			continue
		}
		past = dag.Hash{}
		if s.Paths != nil {
			past = s.Fork
		}
		own = append([]view.Step{s}, own...)
	}
	return own
}

// state returns the state after a step.
func (f *Finder) state(ctx context.Context, name string, s view.Step) (State, error) {
	d := s.Detail
	at := State{Tree: *d.TreeAfter, Step: fmt.Sprintf("%s/%d", name, s.N), Hash: s.Hash, Role: s.Role, Agent: d.Agent,
		Model: d.Model}
	if !d.Prompt.IsZero() {
		text, err := prompt.Read(ctx, f.Reader.Nodes, d.Prompt)
		if err != nil {
			return at, err
		}
		at.Prompt = asked(text)
	}
	if d.Merge == nil {
		return at, nil
	}
	for _, m := range d.Merge.Sides {
		for _, p := range s.Paths {
			if !m.Merged || p.ID != m.Path {
				continue
			}
			row, err := f.Reader.Store.Thread(ctx, p.Thread)
			if err != nil {
				return at, err
			}
			row.Head = p.Head
			at.sides = append(at.sides, side{row: row, begun: m.Base, ended: m.Tree})
		}
	}
	return at, nil
}

// asked returns the first line of what is to be done now, in a whole prompt.
func asked(text string) string {
	_, now := prompt.Split(text)
	line, _, _ := strings.Cut(strings.TrimSpace(now), "\n")
	return line
}

// forkOf returns the step at which a path left, zero if it is a thread of its own.
func forkOf(row store.Thread) dag.Hash {
	if row.Kind == store.KindPath && row.Parent != nil {
		return row.Parent.From
	}
	return dag.Hash{}
}
