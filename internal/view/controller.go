package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// phases reads the states of a task's controller, in order.
func (b *Reader) phases(ctx context.Context, root store.Thread) ([]phase, error) {
	var all []phase
	of := store.EventFilter{Task: root.Task, Thread: root.ID, Types: event.Types(event.ControllerChanged{})}
	err := event.Each(ctx, b.Store, of, new(int64), func(ev store.Event) error {
		if said, ok := event.Read(ev).(event.ControllerChanged); ok && said.State != "" {
			all = append(all, phase{said.State, ev.TS})
		}
		return nil
	})
	return all, err
}

// controller returns the progress of the plan, or nil if no model plans the task.
func (r TaskRecord) controller() *Controller {
	if !r.Planned {
		return nil
	}
	c := &Controller{State: event.Init, Since: Time(r.Root.CreatedAt)}
	for _, p := range slices.Backward(r.phases) {
		if p.state == event.Blocked && r.Root.Status == store.Running {
			continue // the previous state still holds
		}
		c.State, c.Since = p.state, Time(p.since)
		break
	}
	if at := r.newestPlan(); at != nil {
		c.Goal, c.Round, c.Total = text.OneLine(at.Plan.SessionGoal, 500), at.N, len(at.Plan.Actions)
		threads := ActionThreads(r.Threads, at.Step.Hash)
		for _, a := range at.Plan.Actions {
			tries := threads[a.ID]
			if n := len(tries); n > 0 && tries[n-1].Status == store.Completed {
				c.Done++
			}
		}
		if at.Join != nil && len(threads) == 0 { // from before a manual fork
			for _, p := range at.Join.State.Paths {
				if p.Status == store.Completed {
					c.Done++
				}
			}
		}
	}
	return c
}

// String returns a short form of c: "monitoring 2/3".
func (c *Controller) String() string {
	switch {
	case c == nil:
		return ""
	case c.Total == 0:
		return c.State
	}
	return fmt.Sprintf("%s %d/%d", c.State, c.Done, c.Total)
}

// milestones returns the paths, called flows and actions of a task. An action that was retried
// is one milestone.
func (r TaskRecord) milestones(labels map[string]string) []Milestone {
	list := []Milestone{}
	for _, t := range r.Threads {
		if t.Kind == store.KindRoot {
			continue
		}
		m := Milestone{ID: labels[t.ID], Title: string(t.Kind) + " of flow " + t.Flow, State: milestoneStates[t.Status],
			DependsOn: []string{}, Thread: t.ID}
		if a, ok := r.actionOf(t); ok && t.Path.Join == thread.RoleJoin {
			if slices.ContainsFunc(r.Threads, func(o store.Thread) bool {
				return o.Path != nil && o.Path.Fork == t.Path.Fork && o.Path.ID == t.Path.ID && o.Path.N > t.Path.N
			}) {
				continue
			}
			above := ""
			if t.Parent != nil && labels[t.Parent.Thread] != "" {
				above = labels[t.Parent.Thread] + "/"
			}
			m.Action = true
			m.ID, m.Title = above+a.ID, cmp.Or(text.OneLine(a.Title, MaxTitle), a.ID)
			for _, dep := range a.DependsOn {
				m.DependsOn = append(m.DependsOn, above+dep)
			}
		}
		list = append(list, m)
	}
	place := make(map[string]int) // so that actions of the root's plans keep their order
	for _, at := range r.Rounds {
		if at.Thread == r.Root.ID {
			for _, a := range at.Plan.Actions {
				place[a.ID] = len(place) + 1
			}
		}
	}
	of := func(m Milestone) int {
		first, _, _ := strings.Cut(m.ID, "/")
		return place[first]
	}
	slices.SortStableFunc(list, func(a, b Milestone) int { return cmp.Compare(of(a), of(b)) })
	return list
}

// milestoneStates maps the status of a thread to the state of its milestone.
var milestoneStates = map[store.Status]MilestoneState{
	store.Pending: MilestonePending, store.Running: MilestoneWorking, store.Blocked: MilestoneBlocked,
	store.Completed: MilestoneDone, store.Failed: MilestoneFailed, store.Cancelled: MilestoneCancelled,
}
