package view

import (
	"strings"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/advice"
)

// States of a task.
const (
	Created       = "created"
	Working       = event.Working
	InputRequired = event.InputRequired
	Completed     = string(store.Completed)
	Failed        = string(store.Failed)
	Canceled      = event.Canceled
)

// A Task is a task as people see it, and what task.yaml contains.
type Task struct {
	ID         string       `json:"id" yaml:"id"`
	Short      string       `json:"short" yaml:"short"` // what users type for it
	State      string       `json:"state" yaml:"state"`
	Title      string       `json:"title" yaml:"title"`
	Topology   string       `json:"topology" yaml:"topology"`
	Flow       string       `json:"flow" yaml:"flow"`
	Bundle     string       `json:"bundle" yaml:"bundle"`
	Head       string       `json:"head" yaml:"head"`
	Status     store.Status `json:"status" yaml:"status"` // of the root thread
	Reason     *Reason      `json:"reason" yaml:"reason"`
	Display    Display      `json:"display" yaml:"display"`
	Dismissed  bool         `json:"dismissed" yaml:"dismissed"`   // nobody need be told that it has stopped
	Controller *Controller  `json:"controller" yaml:"controller"` // nil when no model plans
	// GoOn is Next as a command line, set by the program that prints the task.
	GoOn       string         `json:"goOn" yaml:"goOn"`
	Next       *advice.Option `json:"-" yaml:"-"` // how to continue it if that takes more than an answer, else nil
	Steps      int            `json:"steps" yaml:"steps"`
	CreatedAt  Time           `json:"createdAt" yaml:"createdAt"`
	UpdatedAt  Time           `json:"updatedAt" yaml:"updatedAt"`
	Workspace  string         `json:"workspace" yaml:"workspace"`
	ForkedFrom *Origin        `json:"forkedFrom" yaml:"forkedFrom"`
	// Result is that of the root thread, see record.Result; nil if it has not ended, and in task.yaml also if it is
	// large.
	Result     *string        `json:"result" yaml:"result"`
	Roster     []Member       `json:"roster" yaml:"roster"`
	Milestones []Milestone    `json:"milestones" yaml:"milestones"`
	Gates      []Gate         `json:"gates" yaml:"gates"`
	Threads    []TaskThread   `json:"threads" yaml:"threads"`
	Config     map[string]any `json:"config" yaml:"config"`
	Usage      Usage          `json:"usage" yaml:"usage"`
}

// Issue returns the address of the issue that the task is about, "" if there is none.
func (v Task) Issue() string {
	of, _ := v.Config["forge"].(map[string]any)
	url, _ := of["issue"].(string)
	return url
}

// An Origin is the step that a task was forked from.
type Origin struct {
	Thread string `json:"thread" yaml:"thread"`
	Step   string `json:"step" yaml:"step"`
}

// A Member of the roster is an instance.
type Member struct {
	Instance string       `json:"instance" yaml:"instance"`
	Role     string       `json:"role" yaml:"role"`
	Action   string       `json:"action" yaml:"action"` // of a plan, or ""
	Title    string       `json:"title" yaml:"title"`   // of the action
	Agent    string       `json:"agent" yaml:"agent"`
	State    store.Status `json:"state" yaml:"state"`
	Thread   string       `json:"thread" yaml:"thread"`
	Label    string       `json:"label" yaml:"label"`       // of the thread
	Attempt  string       `json:"attempt" yaml:"attempt"`   // newest
	Attempts int          `json:"attempts" yaml:"attempts"` // count
	Tokens   int64        `json:"tokens" yaml:"tokens"`
	// CostMicroUSD is zero if no price is known.
	CostMicroUSD int64 `json:"costMicroUSD" yaml:"costMicroUSD"`
	// StartedAt is when the first attempt began. EndedAt is when the newest one ended, zero if
	// it has not.
	StartedAt Time `json:"startedAt" yaml:"startedAt"`
	EndedAt   Time `json:"endedAt" yaml:"endedAt"`
}

// A MilestoneState is the progress of a milestone.
type MilestoneState string

// States of milestones.
const (
	MilestonePending   MilestoneState = "pending"
	MilestoneWorking   MilestoneState = "working"
	MilestoneBlocked   MilestoneState = "blocked"
	MilestoneDone      MilestoneState = "done"
	MilestoneFailed    MilestoneState = "failed"
	MilestoneCancelled MilestoneState = "cancelled"
)

// A Milestone is a path, a called flow or an action of a plan.
type Milestone struct {
	ID        string         `json:"id" yaml:"id"`
	Title     string         `json:"title" yaml:"title"`
	State     MilestoneState `json:"state" yaml:"state"`
	DependsOn []string       `json:"dependsOn" yaml:"dependsOn"`

	Action bool   `json:"-" yaml:"-"` // of a plan
	Thread string `json:"-" yaml:"-"` // that carries it out
}

// OpenGates returns the gates that wait for a person.
func (v Task) OpenGates() []Gate {
	var open []Gate
	for _, g := range v.Gates {
		if g.State == store.GateOpen {
			open = append(open, g)
		}
	}
	return open
}

// Displays returns the display of each thread of the task, by id.
func (v Task) Displays() map[string]Display {
	out := map[string]Display{}
	for _, t := range v.Threads {
		out[t.ID] = t.Display
	}
	out[v.ID] = v.Display
	return out
}

// A TaskThread is a thread in the list of its task.
type TaskThread struct {
	ID      string           `json:"id" yaml:"id"`
	Label   string           `json:"label" yaml:"label"`
	Kind    store.ThreadKind `json:"kind" yaml:"kind"`
	Flow    string           `json:"flow" yaml:"flow"`
	Status  store.Status     `json:"status" yaml:"status"`
	Reason  *Reason          `json:"reason" yaml:"reason"`
	Display Display          `json:"display" yaml:"display"`
	Head    string           `json:"head" yaml:"head"`
	Steps   int              `json:"steps" yaml:"steps"`
	// Kept says what its worktree has that could not be merged, so that it stayed; "" if it did not stay for that.
	Kept string `json:"kept,omitempty" yaml:"kept,omitempty"`
}

// Usage is the total of all attempts.
type Usage struct {
	InputTokens       int64 `json:"inputTokens" yaml:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens" yaml:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens" yaml:"outputTokens"`
	ReasoningTokens   int64 `json:"reasoningTokens" yaml:"reasoningTokens"`
	CostMicroUSD      int64 `json:"costMicroUSD" yaml:"costMicroUSD"`
}

// State returns the state of a task, given its root thread and whether it has an open gate.
func State(root store.Thread, asks bool) string {
	switch root.Status {
	case store.Completed:
		return Completed
	case store.Failed:
		return Failed
	case store.Cancelled:
		return Canceled
	}
	switch {
	case asks || root.Status == store.Blocked:
		return InputRequired
	case root.Status == store.Pending:
		return Created
	}
	return Working
}

// MaxTitle limits a title, in characters.
const MaxTitle = 200

// titleOf returns the first line of a prompt that is not blank, or the flow if there is none.
func titleOf(prompt string, root store.Thread) string {
	for line := range strings.Lines(prompt) {
		if t := text.OneLine(line, MaxTitle); t != "" {
			return t
		}
	}
	return root.Flow
}

// A Controller is the progress of a planned task.
type Controller struct {
	State string `json:"state" yaml:"state"` // init planning dispatching monitoring joining blocked done failed
	Since Time   `json:"since" yaml:"since"`
	Goal  string `json:"goal" yaml:"goal"`   // of the newest plan
	Round int    `json:"round" yaml:"round"` // number of plans so far
	Done  int    `json:"done" yaml:"done"`   // completed actions of the newest plan
	Total int    `json:"total" yaml:"total"`
}
