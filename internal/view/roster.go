package view

import (
	"cmp"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// roster returns every instance with an attempt, ordered by the first one.
func (r TaskRecord) roster(labels map[string]string) []Member {
	threads := byID(r.Threads)
	byInstance := make(map[string][]store.Attempt)
	var names []string
	for _, a := range r.Attempts {
		if byInstance[a.Instance] == nil {
			names = append(names, a.Instance)
		}
		byInstance[a.Instance] = append(byInstance[a.Instance], a)
	}
	asks := make(map[string]bool) // attempts that wait for a person
	for _, g := range r.Gates {
		if isOpen(g) {
			asks[g.Attempt] = true
		}
	}
	members := []Member{}
	for _, name := range names {
		tried := byInstance[name]
		last := NewestAttempt(tried)
		m := Member{
			Instance: name, Role: last.Role, Agent: last.Agent, Thread: last.Thread, Label: labels[last.Thread],
			Attempt: last.ID, Attempts: len(tried), State: r.instance(threads[last.Thread], last, asks[last.ID]),
			EndedAt: Time(last.EndedAt),
		}
		t := threads[last.Thread]
		if a, ok := r.actionOf(t); ok && a.ID == last.Role {
			m.Action, m.Title = a.ID, text.OneLine(a.Title, MaxTitle)
		}
		if (m.Action != "" || r.acts == last.Role && t.ID == r.Root.ID) && m.State == store.Completed && r.lastOf(last) {
			m.State = r.status(t) // the agent has answered; what its answer means is how the action stands
		}
		for _, a := range tried {
			m.Tokens += a.Usage.Tokens()
			m.CostMicroUSD += a.Usage.CostMicroUSD
			if m.StartedAt == 0 || Time(a.StartedAt) < m.StartedAt {
				m.StartedAt = Time(a.StartedAt)
			}
		}
		members = append(members, m)
	}
	begun := func(m Member) int64 { return byInstance[m.Instance][0].StartedAt }
	slices.SortStableFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(begun(a), begun(b)), cmp.Compare(a.Instance, b.Instance))
	})
	return members
}

// NewestAttempt returns the attempt that began last. Two threads can share an instance.
func NewestAttempt(tried []store.Attempt) store.Attempt {
	return slices.MaxFunc(tried, func(a, b store.Attempt) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.N, b.N))
	})
}

// instance returns the state of an instance, given its newest attempt and that attempt's thread.
func (r TaskRecord) instance(t store.Thread, last store.Attempt, asks bool) store.Status {
	again := t.Head == last.From // the step has not been made yet
	switch last.Status {
	case store.AttemptRunning:
		switch {
		case asks:
			return store.Blocked
		case !r.Driven:
			return Interrupted
		case r.awaits[t.ID] != "":
			return store.Pending // its worker was lost
		}
		return store.Running
	case store.AttemptDone:
		if r.waits(t, last) {
			return store.Blocked // it asked for input
		}
		return store.Completed
	case store.AttemptFailed, store.AttemptInterrupted:
		switch {
		case t.Status == store.Cancelled:
			return store.Cancelled
		case asks, again && t.Status == store.Blocked && t.Reason != nil && t.Reason.Kind != store.ReasonAttempts:
			return store.Blocked
		case last.Status == store.AttemptInterrupted:
			return Interrupted
		case again && t.Status == store.Running && r.Driven:
			return store.Pending // it will be retried
		case again && t.Status == store.Running:
			return Interrupted
		}
		return store.Failed
	}
	return store.Cancelled
}

// AttemptState returns the state of an attempt. lost says that no process drives it, asks that it waits for a person.
func AttemptState(a store.Attempt, lost, asks bool) DisplayState {
	switch {
	case lost, asks: // it may have ended while it waited
		return DisplayNeedsYou
	case a.Status == store.AttemptRunning:
		return DisplayRunning
	case a.Status == store.AttemptDone:
		return DisplayDone
	case a.Status == store.AttemptCancelled, a.Status == store.AttemptSuperseded:
		return DisplayCancelled
	}
	return DisplayFailed
}

// FailedAction reports whether a step of a role in a thread is the answer of an action's agent, and
// says that the action failed.
func FailedAction(t store.Thread, role, status string) bool {
	return t.Path != nil && t.Path.Join == thread.RoleJoin && t.Path.ID == role &&
		flow.ActionEnds(status) == flow.PathFailed
}

// waits reports whether a thread has been blocked for input since its newest attempt.
func (r TaskRecord) waits(t store.Thread, last store.Attempt) bool {
	return t.Status == store.Blocked && t.Reason != nil && t.Reason.Kind == store.ReasonInput && t.InFlight == "" &&
		r.lastOf(last)
}

// lastOf reports whether an attempt is the newest of its thread.
func (r TaskRecord) lastOf(a store.Attempt) bool {
	for _, other := range r.Attempts {
		if other.Thread == a.Thread && other.N > a.N {
			return false
		}
	}
	return true
}
