package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Take is a step that an agent did.
type Take struct {
	Role   string
	State  *thread.State
	Detail *thread.Detail
}

// A scene is the place of a step in a task: its thread, its role, and the visit of the role. It is the same in
// every run of a flow.
type scene struct {
	thread string // see Player.Where
	role   string
	visit  int
}

// A script has the steps that agents did in a task, by scene. Only summaries share a scene.
type script struct {
	nodes  *thread.Reader
	takes  map[scene][]Take
	points map[string]bool // by path: its join was recorded with a pointer
	all    []Take          // in the order of the conversation
	added  []string        // input that people added, by role and text
}

// read reads the steps up to a head.
func read(ctx context.Context, nodes *thread.Reader, head dag.Hash) (*script, error) {
	s := &script{nodes: nodes, takes: map[scene][]Take{}, points: map[string]bool{}}
	if err := s.chain(ctx, "", head, dag.Hash{}); err != nil {
		return nil, fmt.Errorf("read what is recorded: %w", err)
	}
	return s, nil
}

// chain reads the steps of one thread, from its head back to where it branched off from another one. The steps
// of a path that a join continues are read with the path.
func (s *script) chain(ctx context.Context, name string, head, until dag.Hash) error {
	steps, err := s.nodes.Steps(ctx, head)
	if err != nil || len(steps) == 0 {
		return err
	}
	joined := map[dag.Hash]dag.Hash{} // fork → end of the path that its last join continues
	for _, step := range steps {
		if parent := parentOf(step); step.State.Paths != nil && parent != step.State.Fork {
			joined[step.State.Fork] = parent
		}
	}
	shared := slices.ContainsFunc(steps, func(step thread.Step) bool { return step.Hash == until })
	visits, routed := map[string]int{}, map[dag.Hash]int{} // routed: by step, the number of steps so far
	passed := joined[steps[0].State.Start]
	count := 0
	for _, step := range steps {
		if st := step.State; !shared && passed.IsZero() {
			if err := s.below(ctx, name, step, routed); err != nil {
				return err
			}
			if err := s.add(ctx, scene{name, st.Role, visits[st.Role]}, step); err != nil {
				return err
			}
		}
		if thread.Routed(step.State.Role) {
			if count++; step.State.Paths == nil {
				visits[step.State.Role]++
			}
		}
		routed[step.Hash] = count
		shared = shared && step.Hash != until
		switch {
		case step.Hash == passed:
			passed = dag.Hash{}
		case !shared && passed.IsZero():
			passed = joined[step.Hash]
		}
	}
	return nil
}

// below reads the threads that a step joined or called. routed has the number of steps up to each step.
func (s *script) below(ctx context.Context, name string, step thread.Step, routed map[dag.Hash]int) error {
	st := step.State
	points, err := s.nodes.Points(ctx, st)
	if err != nil {
		return err
	}
	for _, p := range st.Paths {
		s.points[pathName(name, p.ID, routed[st.Fork])] = points
		if p.Status == store.Cancelled {
			continue
		}
		if err := s.chain(ctx, pathName(name, p.ID, routed[st.Fork]), p.Head, st.Fork); err != nil {
			return err
		}
	}
	if st.ChildThread.IsZero() {
		return nil
	}
	return s.chain(ctx, childName(name, routed[parentOf(step)]), st.ChildThread, dag.Hash{})
}

// parentOf returns the previous step, zero for the first one.
func parentOf(s thread.Step) dag.Hash {
	if len(s.State.Ancestors) == 0 {
		return dag.Hash{}
	}
	return s.State.Ancestors[0]
}

// add adds a step if an agent did it. It notes input that a person added without being asked.
func (s *script) add(ctx context.Context, at scene, step thread.Step) error {
	if step.State.Role == thread.RoleInput {
		var input struct{ Gate, Source string }
		if err := json.Unmarshal(step.State.Meta, &input); err != nil {
			return err
		}
		text, err := s.nodes.Text(ctx, step.State.Content)
		if input.Gate == "" {
			s.added = append(s.added, fmt.Sprintf("by %s: %q", input.Source, agent.Clip(text, 60)))
		}
		return err
	}
	if step.State.Detail.IsZero() {
		return nil
	}
	d, err := s.nodes.Detail(ctx, step.State.Detail)
	if err != nil || d.Attempt == "" {
		return err
	}
	t := Take{Role: step.State.Role, State: step.State, Detail: d}
	s.takes[at], s.all = append(s.takes[at], t), append(s.all, t)
	return nil
}

// pathName and childName return the name of the thread of a path or an action, and of a call. The name has the
// number of steps of the flow before the thread began.
func pathName(parent, path string, steps int) string {
	return fmt.Sprintf("%s/%s@%d", parent, path, steps)
}

func childName(parent string, steps int) string { return fmt.Sprintf("%s>@%d", parent, steps) }

// tries returns the attempts at a step that a replay repeats: those whose answer could not be used, since the
// next one knows of them, and the last. It omits attempts that were cut off: nothing in the calls to a model
// says why.
func (t Take) tries() []dag.Hash {
	var calls []dag.Hash
	for _, a := range t.Detail.Attempts {
		if a.Failure != nil && a.Failure.Kind == store.FailureInvalidOutput && !a.Calls.IsZero() {
			calls = append(calls, a.Calls)
		}
	}
	return slices.Concat(calls, []dag.Hash{t.Detail.Calls})
}
