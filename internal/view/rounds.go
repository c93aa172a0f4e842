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

// planRoles returns the plan roles of each flow of a bundle.
func planRoles(bundle *thread.Bundle) map[string]map[string]bool {
	plan := make(map[string]map[string]bool)
	for name, data := range bundle.Flows {
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
	return plan
}

// readRounds reads the plans made in the threads of a task, and how they ended. The root's come first, each thread's
// in order of its steps.
func (b *Reader) readRounds(ctx context.Context, r *TaskRecord, plan map[string]map[string]bool) error {
	if len(plan) == 0 {
		return nil
	}
	labels := labelsOf(r.Threads)
	threads := slices.SortedFunc(slices.Values(r.Threads), func(a, c store.Thread) int {
		return cmp.Or(cmp.Compare(labels[a.ID], labels[c.ID]), cmp.Compare(a.ID, c.ID))
	})
	known := make(map[dag.Hash]int) // index in Rounds by the plan's step
	for _, t := range threads {
		roles := plan[t.Flow]
		if roles == nil || t.Path != nil && t.Path.Join == thread.RoleJoin {
			continue // the thread of an action does not plan
		}
		steps, err := b.plannerSteps(ctx, t)
		if err != nil {
			return err
		}
		n, last := 0, -1
		for _, s := range steps {
			if last >= 0 && s.State.Role == thread.RoleJoin && s.State.Fork == r.Rounds[last].Step.Hash {
				r.Rounds[last].Join = &s
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
				return err
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
					at = len(r.Rounds)
					known[s.Hash] = at
					r.Rounds = append(r.Rounds, Round{t.ID, labels[t.ID], n, by, s, p, nil})
				}
				last = at
			case flow.Finished:
				said, _ := meta["finish"].(map[string]any)
				report, _ := said["report"].(string)
				if strings.TrimSpace(report) == "" {
					report, _ = said["summary"].(string)
				}
				r.Ends = slices.DeleteFunc(r.Ends, func(e Finish) bool { return e.Thread == t.ID || e.Step.Hash == s.Hash })
				r.Ends = append(r.Ends, Finish{t.ID, labels[t.ID], by, s, report})
			}
		}
	}
	return nil
}

// plannerSteps returns the steps that a thread made itself, and those before a manual fork, oldest first.
func (b *Reader) plannerSteps(ctx context.Context, t store.Thread) ([]thread.Step, error) {
	var until dag.Hash
	if t.Path != nil && t.Kind == store.KindPath {
		until = t.Path.Fork
	}
	var steps []thread.Step
	for s, err := range b.ownSteps(ctx, t, until) {
		if err != nil {
			return nil, err
		}
		steps = append(steps, s.Step)
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
