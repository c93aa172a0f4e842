package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A round is a plan, and the join of its actions.
type Round struct {
	Thread string // that made the plan
	Label  string // of that thread; "" is the root
	N      int    // among the plans of its thread, from 1
	By     string // instance that made the plan
	Step   thread.Step
	Plan   *flow.Plan
	Join   *thread.Step // nil: not yet
}

// A finish is the final output of a planner.
type Finish struct {
	Thread, Label, By string // as those of a Round
	Step              thread.Step
	Report            string
}

// planners returns the plan roles of each flow of a bundle.
func (b *Reader) planners(ctx context.Context, bundle dag.Hash) (map[string]map[string]bool, error) {
	whole, err := b.Nodes.Bundle(ctx, bundle)
	if err != nil {
		return nil, err
	}
	plan := make(map[string]map[string]bool)
	for name, data := range whole.Flows {
		var def struct {
			Roles map[string]struct {
				Plan bool `json:"plan"`
			} `json:"roles"`
		}
		if json.Unmarshal(data, &def) != nil {
			continue // definitions of an unknown form are skipped
		}
		for role, r := range def.Roles {
			if r.Plan {
				if plan[name] == nil {
					plan[name] = make(map[string]bool)
				}
				plan[name][role] = true
			}
		}
	}
	return plan, nil
}

// rounds reads the plans made in the threads of a task, and how they ended. The root's come
// first, each thread's in order of its steps.
func (b *Reader) rounds(
	ctx context.Context, root store.Thread, threads []store.Thread,
) (rounds []Round, ends []Finish, err error) {
	plan, err := b.planners(ctx, root.Bundle)
	if err != nil || len(plan) == 0 {
		return nil, nil, err
	}
	labels := labelsOf(threads)
	threads = slices.Clone(threads)
	slices.SortFunc(threads, func(a, c store.Thread) int {
		return cmp.Or(cmp.Compare(labels[a.ID], labels[c.ID]), cmp.Compare(a.ID, c.ID))
	})
	known := make(map[dag.Hash]int) // index in rounds by the plan's step
	for _, t := range threads {
		roles := plan[t.Flow]
		if roles == nil || t.Path != nil && t.Path.Join == thread.RoleJoin {
			continue // the thread of an action does not plan
		}
		steps, err := b.ownSteps(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		n, last := 0, -1
		for _, s := range steps {
			if last >= 0 && s.State.Role == thread.RoleJoin && s.State.Fork == rounds[last].Step.Hash {
				rounds[last].Join = &s
			}
			if !roles[s.State.Role] {
				continue
			}
			var meta map[string]any
			if json.Unmarshal(s.State.Meta, &meta) != nil {
				continue
			}
			by, err := b.instanceOf(ctx, s)
			if err != nil {
				return nil, nil, err
			}
			switch meta["$status"] {
			case flow.Planned:
				n++
				p, err := new(flow.Definition).ReadPlan(meta, 0)
				if err != nil {
					continue // perhaps written by a newer Plait
				}
				// A path that is retried shares the steps of the one before it.
				at, again := known[s.Hash]
				if !again {
					at = len(rounds)
					known[s.Hash] = at
					rounds = append(rounds, Round{t.ID, labels[t.ID], n, by, s, p, nil})
				}
				last = at
			case flow.Finished:
				said, _ := meta["finish"].(map[string]any)
				report, _ := said["report"].(string)
				if strings.TrimSpace(report) == "" {
					report, _ = said["summary"].(string)
				}
				f := Finish{t.ID, labels[t.ID], by, s, report}
				ends = slices.DeleteFunc(ends, func(e Finish) bool { return e.Thread == t.ID || e.Step.Hash == s.Hash })
				ends = append(ends, f)
			}
		}
	}
	return rounds, ends, nil
}

// ownSteps returns the steps that a thread made itself, oldest first: not those before the fork
// of a path, nor those of a path whose conversation a join continues.
func (b *Reader) ownSteps(ctx context.Context, t store.Thread) ([]thread.Step, error) {
	var before dag.Hash
	if t.Path != nil && t.Kind == store.KindPath {
		before = t.Path.Fork
	}
	var steps []thread.Step
	for h := t.Head; !h.IsZero() && h != before; {
		s, ok, err := b.Nodes.Back(ctx, h, 0)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		steps = append(steps, s)
		switch {
		case !s.State.Fork.IsZero():
			h = s.State.Fork
		case len(s.State.Ancestors) > 0:
			h = s.State.Ancestors[0]
		default:
			h = dag.Hash{}
		}
	}
	slices.Reverse(steps)
	return steps, nil
}

// instanceOf returns the instance that made a step, "" if not known.
func (b *Reader) instanceOf(ctx context.Context, s thread.Step) (string, error) {
	d, err := b.Nodes.Detail(ctx, s.State.Detail)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || err == nil && d == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return d.Instance, nil
}

// ActionThreads returns the threads that carry out the actions of a plan, by action id, oldest
// first.
func ActionThreads(threads []store.Thread, plan dag.Hash) map[string][]store.Thread {
	by := make(map[string][]store.Thread)
	for _, t := range threads {
		if t.Path != nil && t.Path.Join == thread.RoleJoin && t.Path.Fork == plan {
			by[t.Path.ID] = append(by[t.Path.ID], t)
		}
	}
	for _, list := range by {
		slices.SortFunc(list, func(a, b store.Thread) int { return cmp.Compare(a.Path.N, b.Path.N) })
	}
	return by
}

// newestPlan returns the newest plan of the root thread, nil before the first.
func (r TaskRecord) newestPlan() *Round {
	for i := len(r.Rounds) - 1; i >= 0; i-- {
		if r.Rounds[i].Thread == r.Root.ID {
			return &r.Rounds[i]
		}
	}
	return nil
}

// actionOf returns the action of a thread.
func (r TaskRecord) actionOf(t store.Thread) (flow.Action, bool) {
	if t.Path == nil {
		return flow.Action{}, false
	}
	return r.actionAt(t.Path.Fork, t.Path.ID)
}

func (r TaskRecord) actionAt(plan dag.Hash, id string) (flow.Action, bool) {
	for _, at := range r.Rounds {
		if at.Step.Hash == plan {
			return at.Plan.Action(id)
		}
	}
	return flow.Action{}, false
}
