package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
)

// States of a task.
const (
	Created       = "created"
	Working       = "working"
	InputRequired = "input-required"
	Completed     = "completed"
	Failed        = "failed"
	Canceled      = "canceled"
)

// Interrupted is running without a process that sees to it.
const Interrupted store.Status = "interrupted"

// A View is a task as people see it: what task.yaml says.
type View struct {
	ID         string         `json:"id" yaml:"id"`
	State      string         `json:"state" yaml:"state"`
	Title      string         `json:"title" yaml:"title"`
	Topology   string         `json:"topology" yaml:"topology"`
	Flow       string         `json:"flow" yaml:"flow"`
	Bundle     string         `json:"bundle" yaml:"bundle"`
	Head       string         `json:"head" yaml:"head"`
	Status     store.Status   `json:"status" yaml:"status"` // of the root thread
	Reason     *Reason        `json:"reason" yaml:"reason"`
	Controller *Controller    `json:"controller" yaml:"controller"` // nil when no model plans
	GoOn       string         `json:"goOn" yaml:"goOn"`             // the command that goes on, where it takes one
	Steps      int            `json:"steps" yaml:"steps"`
	CreatedAt  Time           `json:"createdAt" yaml:"createdAt"`
	UpdatedAt  Time           `json:"updatedAt" yaml:"updatedAt"`
	Workspace  string         `json:"workspace" yaml:"workspace"`
	ForkedFrom *Origin        `json:"forkedFrom" yaml:"forkedFrom"`
	Roster     []Member       `json:"roster" yaml:"roster"`
	Milestones []Milestone    `json:"milestones" yaml:"milestones"`
	Gates      []Gate         `json:"gates" yaml:"gates"`
	Threads    []Thread       `json:"threads" yaml:"threads"`
	Config     map[string]any `json:"config" yaml:"config"`
	Usage      Usage          `json:"usage" yaml:"usage"`
}

// A Time is Unix milliseconds, written as such in JSON and as RFC 3339 in YAML, where
// zero is null.
type Time int64

// MarshalYAML spells t for people.
func (t Time) MarshalYAML() (any, error) {
	if t == 0 {
		return nil, nil
	}
	return t.String(), nil
}

// String is t in UTC, to the second.
func (t Time) String() string { return time.UnixMilli(int64(t)).UTC().Format(time.RFC3339) }

// A Reason says why a thread is blocked, failed or cancelled.
type Reason struct {
	Kind    store.ReasonKind `json:"kind" yaml:"kind"`
	Message string           `json:"message" yaml:"message"`
}

// An Origin says which step a task was forked from.
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
	Attempt  string       `json:"attempt" yaml:"attempt"`   // the newest
	Attempts int          `json:"attempts" yaml:"attempts"` // how many
	Tokens   int64        `json:"tokens" yaml:"tokens"`
	// StartedAt is when the first attempt began, EndedAt when the newest ended, zero
	// while it has not.
	StartedAt Time `json:"startedAt" yaml:"startedAt"`
	EndedAt   Time `json:"endedAt" yaml:"endedAt"`
}

// A MilestoneState is how far a milestone has come.
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

	action bool   // of a plan
	thread string // that is at it
}

// A Gate is a gate without what would be done; plait gate show prints that.
type Gate struct {
	ID         string           `json:"id" yaml:"id"`
	Kind       store.GateKind   `json:"kind" yaml:"kind"`
	State      store.GateState  `json:"state" yaml:"state"`
	Source     store.GateSource `json:"source" yaml:"source"`
	Thread     string           `json:"thread" yaml:"thread"`
	Label      string           `json:"label" yaml:"label"`
	Node       string           `json:"node" yaml:"node"`         // the role or gate of the flow that asks
	Instance   string           `json:"instance" yaml:"instance"` // whose attempt asks, or ""
	Question   string           `json:"question" yaml:"question"`
	Options    []string         `json:"options" yaml:"options"`
	OpenedAt   Time             `json:"openedAt" yaml:"openedAt"`
	ExpiresAt  Time             `json:"expiresAt" yaml:"expiresAt"`
	AnsweredAt Time             `json:"answeredAt" yaml:"answeredAt"`
	By         string           `json:"by" yaml:"by"`
	Via        store.Via        `json:"via" yaml:"via"`
	Ref        string           `json:"instructionsRef" yaml:"instructionsRef"`
	AnswerWith string           `json:"answerWith" yaml:"answerWith"` // the command, while it is open
}

// OpenGates are the gates that wait for a person.
func (v View) OpenGates() []Gate {
	var open []Gate
	for _, g := range v.Gates {
		if g.State == store.GateOpen {
			open = append(open, g)
		}
	}
	return open
}

// AskedBy names who asks, in its place in the task: "api/review".
func (g Gate) AskedBy() string {
	who := cmp.Or(g.Instance, g.Node)
	if g.Label == "" || who == "" {
		return g.Label + who
	}
	return g.Label + "/" + who
}

// A Thread is one thread of the task.
type Thread struct {
	ID     string           `json:"id" yaml:"id"`
	Label  string           `json:"label" yaml:"label"`
	Kind   store.ThreadKind `json:"kind" yaml:"kind"`
	Flow   string           `json:"flow" yaml:"flow"`
	Status store.Status     `json:"status" yaml:"status"`
	Reason *Reason          `json:"reason" yaml:"reason"`
	Head   string           `json:"head" yaml:"head"`
	Steps  int              `json:"steps" yaml:"steps"`
}

// Usage is what all attempts together used up.
type Usage struct {
	InputTokens       int64 `json:"inputTokens" yaml:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens" yaml:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens" yaml:"outputTokens"`
	ReasoningTokens   int64 `json:"reasoningTokens" yaml:"reasoningTokens"`
	CostMicroUSD      int64 `json:"costMicroUSD" yaml:"costMicroUSD"`
}

// rows are what the index knows of a task, lists in id order.
type rows struct {
	root     store.Thread
	threads  []store.Thread
	attempts []store.Attempt
	gates    []store.Gate
	prompt   string // what the task is about
	planned  bool   // by a model
	rounds   []round
	ends     []finish
	phases   []phase // of its controller
	driven   bool    // by a process, now
}

// Look reads a task. driven says that a process drives it: what runs without one is
// interrupted. store.ErrNotFound.
func (b *Board) Look(ctx context.Context, task string, driven bool) (View, error) {
	r, err := b.read(ctx, task, driven)
	if err != nil {
		return View{}, fmt.Errorf("look at task %s: %w", task, err)
	}
	return newView(r), nil
}

func (b *Board) read(ctx context.Context, task string, driven bool) (r rows, err error) {
	r.driven = driven
	if r.root, err = rootOf(ctx, b.Store, task); err != nil {
		return r, err
	}
	if r.threads, err = b.Store.Threads(ctx, store.ThreadFilter{Task: task}); err != nil {
		return r, err
	}
	if r.attempts, err = b.Store.Attempts(ctx, store.AttemptFilter{Task: task}); err != nil {
		return r, err
	}
	if r.gates, err = b.Store.Gates(ctx, store.GateFilter{Task: task}); err != nil {
		return r, err
	}
	if r.prompt, err = b.Prompt(ctx, r.root); err != nil {
		return r, err
	}
	if r.planned, err = b.planned(ctx, r.root); err != nil {
		return r, err
	}
	if r.rounds, r.ends, err = b.rounds(ctx, r.root, r.threads); err != nil || !r.planned {
		return r, err
	}
	r.phases, err = b.phases(ctx, r.root)
	return r, err
}

// rootOf reads the root thread of a task. store.ErrNotFound for any other thread.
func rootOf(ctx context.Context, index store.Index, task string) (store.Thread, error) {
	row, err := index.Thread(ctx, task)
	if err == nil && row.Task != row.ID {
		err = fmt.Errorf("it is part of task %s: %w", row.Task, store.ErrNotFound)
	}
	return row, err
}

// planned tells whether the flow of row has a role that plans.
func (b *Board) planned(ctx context.Context, row store.Thread) (bool, error) {
	plan, err := b.planners(ctx, row.Bundle)
	return len(plan[row.Flow]) > 0, err
}

// State is the state of a task by its root thread and whether a gate of it is open.
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

// Labels names the threads of a task by their place in it: "api", "api/develop"; ""
// is the root. A path that is tried again has its number after it: "api#2".
func Labels(threads []store.Thread) map[string]string {
	by := byID(threads)
	labels := make(map[string]string, len(threads))
	for _, t := range threads {
		labels[t.ID] = label(t, by)
	}
	return labels
}

func byID(threads []store.Thread) map[string]store.Thread {
	by := make(map[string]store.Thread, len(threads))
	for _, t := range threads {
		by[t.ID] = t
	}
	return by
}

func label(t store.Thread, by map[string]store.Thread) string {
	var parts []string
	for range by { // rows that somebody edited may go round in a circle
		if t.Parent == nil {
			break
		}
		own := t.Flow
		if t.Path != nil {
			if own = t.Path.ID; t.Path.N > 1 {
				own = fmt.Sprintf("%s#%d", own, t.Path.N)
			}
		}
		parts = append(parts, own)
		var ok bool
		if t, ok = by[t.Parent.Thread]; !ok {
			break
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// maxTitle bounds a title, in characters.
const maxTitle = 200

// Title is the title of the task whose root thread is root, as its View has it.
func (b *Board) Title(ctx context.Context, root store.Thread) (string, error) {
	prompt, err := b.Prompt(ctx, root)
	if err != nil {
		return "", fmt.Errorf("read the title of task %s: %w", root.ID, err)
	}
	return title(prompt, root), nil
}

// title is the first line of a prompt that says something, else the flow.
func title(prompt string, root store.Thread) string {
	for line := range strings.Lines(prompt) {
		if t := oneLine(line, maxTitle); t != "" {
			return t
		}
	}
	return root.Flow
}

// Prompt is what the thread whose row is root was asked.
func (b *Board) Prompt(ctx context.Context, root store.Thread) (string, error) {
	start, err := b.Reader.Start(ctx, root.Start)
	if err != nil {
		return "", err
	}
	return b.Reader.Text(ctx, start.Prompt)
}

func newView(r rows) View {
	labels := Labels(r.threads)
	// By label every thread comes after the one above it.
	slices.SortStableFunc(r.threads, func(a, b store.Thread) int { return cmp.Compare(labels[a.ID], labels[b.ID]) })
	v := View{
		ID: r.root.ID, State: State(r.root, slices.ContainsFunc(r.gates, isOpen)), Topology: "squad",
		Flow: r.root.Flow, Bundle: spell(r.root.Bundle), Head: spell(r.root.Head), Status: r.status(r.root), Reason: reason(r.root),
		Steps: r.root.Steps, CreatedAt: Time(r.root.CreatedAt), UpdatedAt: Time(r.root.UpdatedAt), Workspace: r.root.Workspace,
		Title: title(r.prompt, r.root), Config: settings(r.root.Options),
		Controller: r.controller(), GoOn: r.goOn(), Roster: r.roster(labels), Milestones: r.milestones(labels), Gates: []Gate{}, Threads: []Thread{},
	}
	if r.planned {
		v.Topology = "swarm"
	}
	if from := r.root.ForkedFrom; from != nil {
		v.ForkedFrom = &Origin{from.Thread, spell(from.Step)}
	}
	for _, t := range r.threads {
		v.UpdatedAt = max(v.UpdatedAt, Time(t.UpdatedAt), Time(t.EndedAt))
		v.Threads = append(v.Threads, Thread{
			ID: t.ID, Label: labels[t.ID], Kind: t.Kind, Flow: t.Flow, Status: r.status(t), Reason: reason(t), Head: spell(t.Head), Steps: t.Steps,
		})
	}
	var sum store.Usage
	for _, a := range r.attempts {
		v.UpdatedAt = max(v.UpdatedAt, Time(a.StartedAt), Time(a.EndedAt))
		sum = sum.Add(a.Usage)
	}
	v.Usage = Usage(sum)
	for _, g := range r.gates {
		v.UpdatedAt = max(v.UpdatedAt, Time(g.OpenedAt), Time(g.AnsweredAt), Time(g.UsedAt))
		v.Gates = append(v.Gates, r.gate(g, labels))
	}
	return v
}

// milestoneStates are the states of milestones by the status of their thread.
var milestoneStates = map[store.Status]MilestoneState{
	store.Pending: MilestonePending, store.Running: MilestoneWorking, store.Blocked: MilestoneBlocked,
	store.Completed: MilestoneDone, store.Failed: MilestoneFailed, store.Cancelled: MilestoneCancelled,
}

func isOpen(g store.Gate) bool { return g.State == store.GateOpen }

func (r rows) gate(g store.Gate, labels map[string]string) Gate {
	return Gate{
		ID: g.ID, Kind: g.Kind, State: g.State, Source: g.Source, Thread: g.Thread, Label: labels[g.Thread], Node: g.Node, Instance: g.Instance,
		Question: subject(g), Options: orEmpty(g.Options), OpenedAt: Time(g.OpenedAt), ExpiresAt: Time(g.ExpiresAt),
		AnsweredAt: Time(g.AnsweredAt), By: g.By, Via: g.Via, Ref: g.Ref, AnswerWith: answerWith(g),
	}
}

// subject is what a gate is about: the question, else the action.
func subject(g store.Gate) string {
	var act gate.Action
	if g.Question == "" && json.Unmarshal(g.Action, &act) == nil {
		return cmp.Or(act.Command, act.Tool, act.Type)
	}
	return g.Question
}

// status is a thread's status as people are told.
func (r rows) status(t store.Thread) store.Status {
	if t.Status == store.Running && !r.driven {
		return Interrupted
	}
	return t.Status
}

func reason(t store.Thread) *Reason {
	if t.Reason == nil {
		return nil
	}
	return &Reason{t.Reason.Kind, t.Reason.Message}
}

func spell(h dag.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}
