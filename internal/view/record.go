package view

import (
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A TaskRecord is what the store holds about a task, with lists ordered by id: the source of a
// [Task] and of the task's files.
type TaskRecord struct {
	Root     store.Thread
	Threads  []store.Thread
	Attempts []store.Attempt
	Gates    []store.Gate
	Prompt   string // what the task is about
	Planned  bool   // a model plans it
	Rounds   []Round
	Ends     []Finish
	Driven   bool // a process is driving it

	bundle *thread.Bundle
	acts   string            // the action of a plan that the root was forked from, or ""
	result *string           // nil if it has not ended
	phases []phase           // of its controller
	kept   map[string]string // by thread, what the worktree has that stayed at its join
	unable []string          // workers of a team that cannot work, and why, if none serves
	awaits map[string]string // by thread, what it waits for although it needs no person
}

// Thread returns the row of a thread of the task, or the zero Thread.
func (r TaskRecord) Thread(id string) store.Thread {
	for _, t := range r.Threads {
		if t.ID == id {
			return t
		}
	}
	return store.Thread{}
}

// A Round is a plan, and the join of its actions.
type Round struct {
	Thread string // that made the plan
	Label  string // of that thread; "" is the root
	N      int    // among the plans of its thread, from 1
	By     string // instance that made the plan
	Step   thread.Step
	Plan   *flow.Plan
	Join   *thread.Step // nil: not yet
}

// A Finish is the final output of a planner.
type Finish struct {
	Thread, Label, By string // as those of a Round
	Step              thread.Step
	Report            string
}

// A phase is a state of the controller and when it began.
type phase struct {
	state string
	since int64
}

// status returns the status of a thread as shown to people.
func (r TaskRecord) status(t store.Thread) store.Status {
	if t.Status == store.Running && !r.Driven {
		return Interrupted
	}
	return t.Status
}
