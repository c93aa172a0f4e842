package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Take is a step that an agent did.
type Take struct {
	Role   string
	State  *thread.State
	Detail *thread.Detail

	at scene
}

// A scene is the place of a step in a task: its thread, its role, and the visit of the role. It is the same in
// every run of a flow.
type scene struct {
	thread string // see Player.Where
	role   string
	visit  int
}

// A script has the steps that agents did in a task, by scene, and what else happened to its threads. Only summaries
// share a scene.
type script struct {
	nodes    *thread.Reader
	takes    map[scene][]Take
	all      []Take          // in the order of the conversation
	points   map[string]bool // by path: its join was recorded with a pointer
	cues     map[spot]thread.Cue
	verdicts map[spot]*thread.Verdict // by where the fork was
	failures map[spot]failure
}

// read reads the steps up to a head.
func read(ctx context.Context, nodes *thread.Reader, head dag.Hash) (*script, error) {
	s := &script{nodes: nodes, takes: map[scene][]Take{}, points: map[string]bool{}, cues: map[spot]thread.Cue{},
		verdicts: map[spot]*thread.Verdict{}, failures: map[spot]failure{}}
	steps, err := s.chain(ctx, "", head, dag.Hash{})
	if err != nil {
		return nil, fmt.Errorf("read what is recorded: %w", err)
	}
	if !ended(steps) {
		s.cues[spot{"", len(steps)}] = thread.Cue{End: store.Blocked,
			Why: store.Reason{Kind: store.ReasonInput, Message: "no more of the task is recorded"}}
	}
	return s, nil
}

// ended reports whether the last step is the end of a thread.
func ended(steps []thread.Step) bool {
	return len(steps) > 0 && steps[len(steps)-1].State.Role == thread.RoleEnd
}

// chain reads the steps of one thread, from its head back to where it branched off from another one, and returns all up
// to its head. The steps of a path that a join continues are read with the path.
func (s *script) chain(ctx context.Context, name string, head, until dag.Hash) ([]thread.Step, error) {
	steps, err := s.nodes.Steps(ctx, head)
	if err != nil || len(steps) == 0 {
		return steps, err
	}
	joined := map[dag.Hash]dag.Hash{} // fork → end of the path that its last join continues
	for _, step := range steps {
		if parent := parentOf(step); step.State.Paths != nil && parent != step.State.Fork {
			joined[step.State.Fork] = parent
		}
	}
	shared := slices.ContainsFunc(steps, func(step thread.Step) bool { return step.Hash == until })
	visits, at := map[string]int{}, map[dag.Hash]count{}
	passed := joined[steps[0].State.Start]
	routed := 0
	for i, step := range steps {
		if st := step.State; !shared && passed.IsZero() {
			if err := s.below(ctx, name, step, at); err != nil {
				return nil, err
			}
			if err := s.cue(ctx, spot{name, i}, step); err != nil {
				return nil, err
			}
			if err := s.add(ctx, scene{name, st.Role, visits[st.Role]}, step); err != nil {
				return nil, err
			}
		}
		_, command := flow.UntilOf(step.State.Role)
		if thread.Routed(step.State.Role) {
			routed++
		}
		if (command || thread.Routed(step.State.Role)) && step.State.Paths == nil {
			visits[step.State.Role]++
		}
		at[step.Hash] = count{i + 1, routed}
		shared = shared && step.Hash != until
		switch {
		case step.Hash == passed:
			passed = dag.Hash{}
		case !shared && passed.IsZero():
			passed = joined[step.Hash]
		}
	}
	return steps, nil
}

// A count is how many steps there are up to one: all of them, and those that the flow routes.
type count struct{ steps, routed int }

// below reads the threads that a step joined or called. at has the count at each step before it.
func (s *script) below(ctx context.Context, name string, step thread.Step, at map[dag.Hash]count) error {
	st := step.State
	if st.Paths != nil {
		if err := s.verdict(spot{name, at[st.Fork].steps}, st); err != nil {
			return err
		}
	}
	failures, err := s.failuresOf(ctx, st)
	if err != nil {
		return err
	}
	points, err := s.nodes.Points(ctx, st)
	if err != nil {
		return err
	}
	for _, p := range st.Paths {
		path := pathName(name, p.ID, at[st.Fork].routed)
		s.points[path] = points
		steps, err := s.chain(ctx, path, p.Head, st.Fork)
		if err != nil {
			return err
		}
		end := spot{path, len(steps)}
		if ended(steps) {
			end.steps-- // it failed before
		}
		if f, ok := failures[p.ID]; ok {
			s.failed(end, p.Thread, f)
		} else if p.Status == store.Cancelled && !ended(steps) {
			s.cues[end] = thread.Cue{End: store.Cancelled}
		}
	}
	if st.ChildThread.IsZero() {
		return nil
	}
	_, err = s.chain(ctx, childName(name, at[parentOf(step)].routed), st.ChildThread, dag.Hash{})
	return err
}

// parentOf returns the previous step, zero for the first one.
func parentOf(s thread.Step) dag.Hash {
	if len(s.State.Ancestors) == 0 {
		return dag.Hash{}
	}
	return s.State.Ancestors[0]
}

// add adds a step if an agent did it.
func (s *script) add(ctx context.Context, at scene, step thread.Step) error {
	if step.State.Detail.IsZero() {
		return nil
	}
	d, err := s.nodes.Detail(ctx, step.State.Detail)
	if err != nil || d.Attempt == "" {
		return err
	}
	t := Take{Role: step.State.Role, State: step.State, Detail: d, at: at}
	s.takes[at], s.all = append(s.takes[at], t), append(s.all, t)
	return nil
}

// pathName and childName return the name of the thread of a path or an action, and of a call. The name has the
// number of steps of the flow before the thread began.
func pathName(parent, path string, steps int) string {
	return fmt.Sprintf("%s/%s@%d", parent, path, steps)
}

func childName(parent string, steps int) string { return fmt.Sprintf("%s>@%d", parent, steps) }

// maxCorrections is how many answers in a row can be invalid and be followed by another one.
const maxCorrections = 2

// tries returns the attempts at a step that a replay repeats: the last, which became the step, and before it those
// whose answer could not be used, if the last one was told so; told is its prompt. It omits attempts that were cut off:
// nothing in the calls to a model says why.
func (t Take) tries(told string) []thread.EarlierAttempt {
	list := t.Detail.Attempts
	n := len(list)
	for n > 0 && len(list)-n < maxCorrections {
		f := list[n-1].Failure
		if f == nil || f.Kind != store.FailureInvalidOutput {
			break
		}
		if n == len(list) && !strings.Contains(told, strings.TrimSuffix(f.Message, "…")) {
			break // a person let it begin anew
		}
		n--
	}
	return append(slices.Clone(list[n:]), thread.EarlierAttempt{Calls: t.Detail.Calls})
}
