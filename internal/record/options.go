package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// How an agent's requests for approval are dealt with.
const (
	ApproveAsk       = "ask"       // a gate opens and a person answers
	ApproveNever     = "never"     // all are refused
	ApproveSandboxed = "sandboxed" // what stays inside the sandbox is approved, the rest is asked
)

// What becomes, at a join, of the files that paths changed in worktrees of their own.
const (
	MergeAuto = "auto" // they are merged; where that cannot be, a person is asked
	MergeAsk  = "ask"  // a person is asked before any is merged
	MergeKeep = "keep" // they stay on branches
)

// What of a conversation is told to agents that have not been part of it.
const (
	ContextFull    = "full"    // all of it
	ContextSummary = "summary" // what a summary stands for is left out
)

// OnTeam as Options.On says that the workers of a team drive a task.
const OnTeam = "team"

// Team reports whether the workers of a team drive a task. What its options cannot say, it is not.
func Team(root store.Thread) bool {
	o, err := OptionsOf(root)
	return err == nil && o.On == OnTeam
}

// Options is what a task was started with; it is kept in its rows, so that a
// resume goes on in the same way.
type Options struct {
	Agent  string            `json:"agent,omitempty"` // for every role
	Roles  map[string]string `json:"roles,omitempty"` // for single roles
	Limits flow.Limits       `json:"limits"`          // over the flow's and the configuration's

	Approve        string        `json:"approve,omitempty"`        // how an agent may ask; "": ApproveAsk
	ApproveExpires flow.Duration `json:"approveExpires,omitempty"` // zero: never
	Offline        string        `json:"offline,omitempty"`        // the scenario of a scripted model
	Merge          string        `json:"merge,omitempty"`          // MergeAuto, MergeAsk or MergeKeep
	Record         bool          `json:"record,omitempty"`         // what agents ask their models is kept
	KeepFiles      bool          `json:"keepFiles,omitempty"`      // the files that steps leave are in the record
	Model          string        `json:"model,omitempty"`          // that agents ask instead of their own
	Replay         string        `json:"replay,omitempty"`         // the task that is replayed; "": none is
	Context        string        `json:"context,omitempty"`        // ContextFull, or ContextSummary, which "" is too
	StartedBy      string        `json:"startedBy,omitempty"`      // "mcp": by a model's program; "" by a person
	On             string        `json:"on,omitempty"`             // OnTeam: workers drive it; "": who resumes it
	Needs          []string      `json:"needs,omitempty"`          // labels of the workers that may
	Imported       string        `json:"imported,omitempty"`       // from where; "": it began here, or was taken over

	// Uploaded are tree nodes by the head, in hex, at which the files of a person's directory were uploaded, when a task
	// was handed to the team. Empty: if they were, it was when the task began.
	Uploaded map[string]dag.Hash `json:"uploaded,omitempty"`
}

// With returns o with what over sets in its place.
func (o Options) With(over Options) Options {
	o.Agent = cmp.Or(over.Agent, o.Agent)
	o.Approve = cmp.Or(over.Approve, o.Approve)
	o.ApproveExpires = cmp.Or(over.ApproveExpires, o.ApproveExpires)
	o.Offline = cmp.Or(over.Offline, o.Offline)
	o.Merge = cmp.Or(over.Merge, o.Merge)
	o.Record = o.Record || over.Record
	o.KeepFiles = o.KeepFiles || over.KeepFiles
	o.Model = cmp.Or(over.Model, o.Model)
	o.Context = cmp.Or(over.Context, o.Context)
	o.Replay = over.Replay // what follows on a replay is none
	if len(over.Needs) > 0 {
		o.Needs = over.Needs
	}
	roles := make(map[string]string, len(o.Roles)+len(over.Roles))
	maps.Copy(roles, o.Roles)
	maps.Copy(roles, over.Roles)
	o.Roles, o.Limits = roles, o.Limits.With(over.Limits)
	return o
}

// Empty reports whether o says nothing.
func (o Options) Empty() bool {
	return len(o.Roles) == 0 && o.Agent == "" && o.Limits == (flow.Limits{}) && o.Approve == "" &&
		o.ApproveExpires == 0 && o.Offline == "" && o.Merge == "" && !o.Record && !o.KeepFiles && o.Model == "" &&
		len(o.Needs) == 0 && o.Context == ""
}

// OptionsOf returns what the task of a thread was started with.
func OptionsOf(row store.Thread) (Options, error) {
	var o Options
	if len(row.Options) > 0 {
		if err := json.Unmarshal(row.Options, &o); err != nil {
			return o, fmt.Errorf("thread %s: options: %w", row.ID, err)
		}
	}
	return o, nil
}

// Limits returns what bounds a thread: its flow's limits capped by most, and what its task was started
// with over both.
func Limits(row store.Thread, def *flow.Definition, most flow.Limits) (flow.Limits, error) {
	o, err := OptionsOf(row)
	return def.Limits.Cap(most).With(o.Limits), err
}

// WholeContext reports whether a thread's agents are told the whole conversation.
func WholeContext(row store.Thread) bool {
	o, err := OptionsOf(row)
	return err == nil && o.Context == ContextFull
}
