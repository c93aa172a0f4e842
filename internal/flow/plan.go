package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow/schema"
)

// Statuses of a plan role's step (seed 004, §2: the orchestrator decides, the controller acts).
const (
	Planned  = "planned"  // its actions are dispatched; the graph is not used
	Finished = "finished" // the graph continues from there
	Asked    = "ask"      // a person is asked, then the role runs again with the answer
)

// Success is the status of an action's agent that did what was asked. See [ActionEnds].
const Success = "success"

// Modes of an action.
const (
	Spawn  = "spawn"  // a child thread with a fresh context
	Forked = "fork"   // a path that inherits the conversation
	worker = "worker" // the built-in flow and role that carry out an action
)

// What happens after a plan's join.
const (
	thenEnd  = "end"
	failPlan = "plan"
)

// A Plan is what a plan role decided, with every default filled in. Its JSON has the form of the
// schema "actions".
type Plan struct {
	SessionGoal string   `json:"sessionGoal"`
	Actions     []Action `json:"actions"`
	Join        PlanJoin `json:"join"`
	Then        string   `json:"then"`
	OnFailed    string   `json:"onFailed"`
}

// An Action is one piece of work for one agent.
type Action struct {
	ID           string          `json:"id"`
	Mode         string          `json:"mode"`
	Title        string          `json:"title"`
	Agent        string          `json:"agent"` // "": the task's default
	Prompt       string          `json:"prompt"`
	Access       Access          `json:"access"`
	DependsOn    []string        `json:"dependsOn"`
	Inputs       []string        `json:"inputs"` // evidence:<id> or artifact:<hash>
	OutputSchema json.RawMessage `json:"outputSchema"`
	Timeout      float64         `json:"timeout"` // seconds; 0: the action sets no limit
}

// A PlanJoin specifies when the actions of a plan are done.
type PlanJoin struct {
	Strategy  string  `json:"joinStrategy"`
	Threshold int     `json:"threshold"`
	Main      string  `json:"mainPathId"` // a forked action, "" for none
	Timeout   float64 `json:"timeout"`    // seconds; 0: forever
	Losers    string  `json:"losers"`
	Files     string  `json:"files,omitempty"` // see JoinSpec
}

// PlanStatus returns the $status that a plan role's output implies, or "".
func PlanStatus(meta map[string]any) string {
	switch {
	case meta["actions"] != nil:
		return Planned
	case meta["finish"] != nil:
		return Finished
	case meta["ask"] != nil:
		return Asked
	}
	return ""
}

// Plans returns the plan roles, sorted; for a forked action, those of the thread that planned it.
func (d *Definition) Plans() []string {
	if d.brief != "" {
		return d.planners
	}
	var roles []string
	for _, name := range slices.Sorted(maps.Keys(d.Roles)) {
		if d.Roles[name].Plan {
			roles = append(roles, name)
		}
	}
	return roles
}

// ReadPlan reads the plan in the meta of a step of a plan role whose $status is [Planned]. The
// error is written for the planner, with one line per problem. most limits the actions; 0 means
// no limit.
func (d *Definition) ReadPlan(meta map[string]any, most int) (*Plan, error) {
	p, wrong := d.CheckPlan(meta, most)
	if len(wrong) > 0 {
		return nil, PlanError(wrong)
	}
	return p, nil
}

// CheckPlan reads the plan in the meta of a step as far as possible, and lists all problems with
// their positions. The plan is nil if there is none at all.
func (d *Definition) CheckPlan(meta map[string]any, most int) (*Plan, []string) {
	p, err := decodePlan(meta)
	if p == nil {
		return nil, []string{err.Error()}
	}
	var wrong []string
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	wrong = append(wrong, append(p.problems(most), d.takenIDs(p)...)...)
	return p, append(wrong, p.badSchemas(most)...)
}

// RecordedPlan is like [Definition.ReadPlan], for a recorded step. It does not compile the schemas
// of actions again, which is slow and was done when the step was made.
func (d *Definition) RecordedPlan(meta map[string]any) (*Plan, error) {
	p, err := decodePlan(meta)
	if err != nil {
		return nil, err
	}
	if wrong := append(p.problems(0), d.takenIDs(p)...); len(wrong) > 0 {
		return nil, PlanError(wrong)
	}
	return p, nil
}

// PlanError returns an error that lists the problems of a plan.
func PlanError(wrong []string) error {
	const many = 100
	if len(wrong) > many {
		wrong = append(wrong[:many:many], fmt.Sprintf("… and %d more", len(wrong)-many))
	}
	return errors.New(strings.Join(wrong, "\n"))
}

// decodePlan reads a plan and fills in its defaults. If there is an error, the plan has what could
// be read anyway; it is nil if nothing could.
func decodePlan(meta map[string]any) (*Plan, error) {
	data, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("the plan is not JSON: %w", err)
	}
	p := new(Plan)
	var shape *json.UnmarshalTypeError // the other fields were decoded
	if err = json.Unmarshal(data, p); err != nil {
		err = fmt.Errorf("the plan cannot be read: %w", err)
		if !errors.As(err, &shape) {
			return nil, err
		}
	}
	p.setDefaults()
	return p, err
}

func (p *Plan) setDefaults() {
	for i := range p.Actions {
		a := &p.Actions[i]
		a.Mode, a.Access = firstNonBlank(a.Mode, Spawn), Access(firstNonBlank(string(a.Access), string(Read)))
		if string(a.OutputSchema) == "null" {
			a.OutputSchema = nil
		}
		if p.Join.Main == "" && a.Mode == Forked {
			p.Join.Main = a.ID
		}
	}
	p.Join.Strategy = firstNonBlank(p.Join.Strategy, AllCompleted)
	losers := CancelLosers
	if p.Join.Strategy == AllCompleted || p.Join.Strategy == AllFailed {
		losers = WaitForLosers // results that were paid for are not thrown away
	}
	p.Join.Losers = firstNonBlank(p.Join.Losers, losers)
	p.Then, p.OnFailed = firstNonBlank(p.Then, failPlan), firstNonBlank(p.OnFailed, "block")
}

var actionID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// badSchemas lists the problems of the schemas of a plan's first actions, up to most.
func (p *Plan) badSchemas(most int) (wrong []string) {
	for i, a := range p.Actions {
		if a.OutputSchema == nil || most > 0 && i >= most {
			continue
		}
		if s, err := schema.Compile(a.OutputSchema); err != nil {
			wrong = append(wrong, fmt.Sprintf("/actions/%d/outputSchema: %v", i, err))
		} else if schema.Expands(s) {
			wrong = append(wrong, fmt.Sprintf("/actions/%d/outputSchema: its references expand to more than %d schemas", i,
				schema.MaxWork))
		} else if _, err := schema.Compile(withResult(schemaFile("worker-output"), a.OutputSchema)); err != nil {
			wrong = append(wrong, fmt.Sprintf("/actions/%d/outputSchema: as a part of the worker's: %v", i, err))
		}
	}
	return wrong
}

// problems lists the problems of a plan itself, without its schemas.
func (p *Plan) problems(most int) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if most > 0 && len(p.Actions) > most {
		say("/actions: %d actions, at most %d are allowed in a plan", len(p.Actions), most)
	}
	if len(p.Actions) == 0 {
		say("/actions: there is none")
	}
	ids := map[string]int{}
	for i, a := range p.Actions {
		at := fmt.Sprintf("/actions/%d", i)
		if first, taken := ids[a.ID]; taken && a.ID != "" {
			say("%s/id: %q is the id of /actions/%d already", at, a.ID, first)
		}
		ids[a.ID] = i
		if len(a.ID) > 40 || !actionID.MatchString(a.ID) {
			say("%s/id: %q is no id: a-z, 0-9 and '-', at most 40", at, a.ID)
		}
		if strings.TrimSpace(a.Prompt) == "" {
			say("%s/prompt: it is empty", at)
		}
		if a.Access != Read && a.Access != Write {
			say("%s/access: %q is neither read nor write", at, string(a.Access))
		}
	}
	for i, a := range p.Actions {
		for j, dep := range a.DependsOn {
			switch _, known := ids[dep]; {
			case dep == a.ID:
				say("/actions/%d/dependsOn/%d: %s depends on itself", i, j, a.ID)
			case !known:
				say("/actions/%d/dependsOn/%d: there is no action %q", i, j, dep)
			}
		}
	}
	if ring := p.cycle(); ring != nil && len(ids) == len(p.Actions) { // dependencies mean ids
		say("/actions: they depend on each other in a circle: %s", strings.Join(ring, " → "))
	}
	i, known := ids[p.Join.Main]
	switch {
	case p.Join.Main == "":
	case !known:
		say("/join/mainPathId: there is no action %q", p.Join.Main)
	case len(ids) == len(p.Actions) && p.Actions[i].Mode != Forked:
		say("/join/mainPathId: action %s is spawned; only the conversation of a forked one can go on", p.Join.Main)
	}
	switch counts := p.Join.Strategy == SuccessCountThreshold; {
	case counts && p.Join.Threshold < 1:
		say("/join/threshold: %s needs one", SuccessCountThreshold)
	case counts && p.Join.Threshold > len(p.Actions):
		say("/join/threshold: %d of %d actions cannot succeed", p.Join.Threshold, len(p.Actions))
	case !counts && p.Join.Threshold != 0:
		say("/join/threshold: only %s has one", SuccessCountThreshold)
	}
	return wrong
}

// cycle returns actions that depend on each other in a cycle, or nil.
func (p *Plan) cycle() []string {
	after := p.After()
	const open, closed = 1, 2
	state := map[string]int{}
	var way []string
	var visit func(id string) []string
	visit = func(id string) []string {
		switch state[id] {
		case open:
			return append(slices.Clone(way[slices.Index(way, id):]), id)
		case closed:
			return nil
		}
		state[id] = open
		way = append(way, id)
		for _, dep := range after[id] {
			if dep == id {
				continue // reported separately
			}
			if ring := visit(dep); ring != nil {
				return ring
			}
		}
		way = way[:len(way)-1]
		state[id] = closed
		return nil
	}
	for _, a := range p.Actions {
		if ring := visit(a.ID); ring != nil {
			return ring
		}
	}
	return nil
}

// ActionEnds returns how an action ends whose agent answered with a status, as the flow
// [WorkerFlow] has it: [PathCompleted] or [PathFailed], or "" if it goes on when a person has
// answered. Whatever shows an action asks this.
func ActionEnds(status string) string { return workerEnds[status] }

// workerEnds and workerGate are from the flow [WorkerFlow], which this package does not read: it only says where that
// is. A test of parse compares them.
var workerEnds = map[string]string{Success: PathCompleted, "failed": PathFailed}

const workerGate = "question"

// takenIDs reports action ids that are names of nodes of d or of the worker flow.
func (d *Definition) takenIDs(p *Plan) (wrong []string) {
	for i, a := range p.Actions {
		_, role := d.Roles[a.ID]
		_, gate := d.Gates[a.ID]
		if _, node := d.Graph[a.ID]; role || gate || node || a.ID == workerGate {
			wrong = append(wrong, fmt.Sprintf("/actions/%d/id: %q is a node of the flow", i, a.ID))
		}
	}
	return wrong
}

// After returns the dependencies of each action, by id.
func (p *Plan) After() map[string][]string {
	after := map[string][]string{}
	for _, a := range p.Actions {
		if len(a.DependsOn) > 0 {
			after[a.ID] = a.DependsOn
		}
	}
	return after
}

// Action returns the action with the given id.
func (p *Plan) Action(id string) (Action, bool) {
	i := slices.IndexFunc(p.Actions, func(a Action) bool { return a.ID == id })
	if i < 0 {
		return Action{}, false
	}
	return p.Actions[i], true
}
