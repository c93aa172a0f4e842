package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// How to handle an agent's requests for approval.
const (
	ApproveAsk       = "ask"       // a gate opens and a person answers
	ApproveNever     = "never"     // all are refused
	ApproveSandboxed = "sandboxed" // requests inside the sandbox are approved; for others a gate opens
)

// What happens at a join to files that paths changed in their own worktrees.
const (
	MergeAuto = "auto" // they are merged; if that is impossible, a person is asked
	MergeAsk  = "ask"  // a person is asked before any is merged
	MergeKeep = "keep" // they stay on branches
)

// How much of a conversation is shown to agents that were not part of it.
const (
	ContextFull    = "full"    // all of it
	ContextSummary = "summary" // the summary, without the steps that it summarizes
)

// OnTeam, as Options.On, means that the workers of a team drive the task.
const OnTeam = "team"

// Team reports whether the workers of a team drive a task. If its options cannot be read, Team reports false.
func Team(root store.Thread) bool {
	o, err := OptionsOf(root)
	return err == nil && o.On == OnTeam
}

// Options are the options that a task was started with. They are kept in the task's rows, so that the task
// resumes with them.
type Options struct {
	Agent  string            `json:"agent,omitempty"` // for every role
	Roles  map[string]string `json:"roles,omitempty"` // for single roles
	Limits flow.Limits       `json:"limits"`          // override the flow's and the configuration's

	Approve        string        `json:"approve,omitempty"`        // how requests are handled; "": ApproveAsk
	ApproveExpires flow.Duration `json:"approveExpires,omitempty"` // zero: never
	Offline        string        `json:"offline,omitempty"`        // the scenario of a scripted model
	Merge          string        `json:"merge,omitempty"`          // MergeAuto, MergeAsk or MergeKeep
	Record         bool          `json:"record,omitempty"`         // keep agents' requests to their models
	Files          *bool         `json:"files,omitempty"`          // record what steps change in files; nil: see KeepFiles
	Sessions       bool          `json:"sessions,omitempty"`       // record what vendors store of conversations
	KeepFiles      bool          `json:"keepFiles,omitempty"`      // both, and what the files were before
	Model          string        `json:"model,omitempty"`          // agents use it instead of their own
	Replay         string        `json:"replay,omitempty"`         // the task that this one replays; "": none
	WaitForReset   bool          `json:"waitForReset,omitempty"`   // wait until usage limits end
	Context        string        `json:"context,omitempty"`        // ContextFull, or ContextSummary, the default
	StartedBy      string        `json:"startedBy,omitempty"`      // "mcp": by a model's program; "" by a person
	On             string        `json:"on,omitempty"`             // OnTeam: workers drive it; "": whoever resumes it
	Needs          []string      `json:"needs,omitempty"`          // labels that its workers must have
	Imported       string        `json:"imported,omitempty"`       // from where; "": it began here, or was taken over
	Forge          *Forge        `json:"forge,omitempty"`          // what it is about on a forge; nil: nothing

	// Uploaded holds the tree nodes of files uploaded when a task was handed to the team, by head in hex. If it
	// is empty, any upload was made when the task began.
	Uploaded map[string]dag.Hash `json:"uploaded,omitempty"`
}

// Forge is what a task is about on a forge.
type Forge struct {
	Issue  string   `json:"issue,omitempty"`  // the address of an issue
	Branch string   `json:"branch,omitempty"` // that its changes go onto; "": one of its own
	For    []string `json:"for,omitempty"`    // the comments and checks that it deals with
}

// With returns o overridden by the options that over sets.
func (o Options) With(over Options) Options {
	o.Agent = cmp.Or(over.Agent, o.Agent)
	o.Approve = cmp.Or(over.Approve, o.Approve)
	o.ApproveExpires = cmp.Or(over.ApproveExpires, o.ApproveExpires)
	o.Offline = cmp.Or(over.Offline, o.Offline)
	o.Merge = cmp.Or(over.Merge, o.Merge)
	o.Record = o.Record || over.Record
	o.WaitForReset = o.WaitForReset || over.WaitForReset
	o.Files = cmp.Or(over.Files, o.Files)
	o.Sessions = o.Sessions || over.Sessions
	o.KeepFiles = o.KeepFiles || over.KeepFiles
	o.Model = cmp.Or(over.Model, o.Model)
	o.Context = cmp.Or(over.Context, o.Context)
	o.Forge = cmp.Or(over.Forge, o.Forge)
	o.Replay = over.Replay // a task that continues a replay is not one itself
	if len(over.Needs) > 0 {
		o.Needs = over.Needs
	}
	roles := make(map[string]string, len(o.Roles)+len(over.Roles))
	maps.Copy(roles, o.Roles)
	maps.Copy(roles, over.Roles)
	o.Roles, o.Limits = roles, o.Limits.With(over.Limits)
	return o
}

// Empty reports whether o sets nothing.
func (o Options) Empty() bool {
	return len(o.Roles) == 0 && o.Agent == "" && o.Limits == (flow.Limits{}) && o.Approve == "" &&
		o.ApproveExpires == 0 && o.Offline == "" && o.Merge == "" && !o.Record && o.Files == nil && !o.Sessions &&
		!o.KeepFiles && o.Model == "" && len(o.Needs) == 0 && o.Context == "" && o.Forge == nil
}

// KeepsFiles reports whether steps record what they change in files.
func (o Options) KeepsFiles() bool { return o.KeepFiles || o.Files != nil && *o.Files }

// KeepsSessions reports whether steps record what vendors store of conversations.
func (o Options) KeepsSessions() bool { return o.KeepFiles || o.Sessions }

// OptionsOf returns the options that the task of a thread was started with.
func OptionsOf(row store.Thread) (Options, error) {
	var o Options
	if len(row.Options) > 0 {
		if err := json.Unmarshal(row.Options, &o); err != nil {
			return o, fmt.Errorf("thread %s: options: %w", row.ID, err)
		}
	}
	return o, nil
}

// Limits returns the limits of a thread: those of its flow, capped by most, and overridden by those its task
// was started with.
func Limits(row store.Thread, def *flow.Definition, most flow.Limits) (flow.Limits, error) {
	o, err := OptionsOf(row)
	return def.Limits.Cap(most).With(o.Limits), err
}

// WholeContext reports whether a thread's agents see the whole conversation.
func WholeContext(row store.Thread) bool {
	o, err := OptionsOf(row)
	return err == nil && o.Context == ContextFull
}
