// Package flow is what may be done next: definitions of workflows, and what follows from the last steps of a thread.
//
// In: a [Definition], which package parse reads from a file, and the record from a bundle; the last steps of a thread.
// Out: the next [Decision]; what is wrong with an agent's answer or plan.
//
//	file ── parse.Load ──▶ Definition ── Next(at, last) ──▶ Run | Call | Fork | AtJoin | Gate | Blocked | End
//
// Laws:
//  1. Pure. The same definition and steps give the same decision, on every machine.
//  2. Routing is a table lookup: graph[node][$status]. No model decides a route.
//  3. A Definition always marshals to the same JSON and unmarshals to an equal one: it is what a
//     bundle stores, so a running thread never reads the file again.
//  4. Bad input is an error or a Blocked, never a panic.
//
// It never starts a process and never opens a file or a connection (a schema's "$ref" to another
// document is refused, and so is Liquid's include). It does not depend on stores or threads.
package flow

import (
	"encoding/json"
	"sync"

	"github.com/plait-run/plait/internal/flow/schema"
)

// Statuses of a call role's step that say how the called thread ended, if the role has no schema
// or its schema does not accept the output of the called flow.
const (
	CallDone      = "done"
	CallFailed    = "failed"
	CallCancelled = "cancelled"
)

// CallStatuses are all of them.
var CallStatuses = []string{CallCancelled, CallDone, CallFailed}

// Reserved names of the graph and of statuses.
const (
	Start   = "$START"
	EndNode = "$END"
	Suspend = schema.Suspend
)

// Reserved roles of steps: a person's input, and the join of a plan's actions.
const (
	InputRole = "__input__"
	JoinRole  = "__join__"
)

// A Definition is a parsed flow with its defaults filled in.
//
// Its methods may be called concurrently. It must not be changed after its first use, and must
// not be copied (it keeps compiled schemas).
type Definition struct {
	Version     int                         `json:"version"`
	Name        string                      `json:"name"`
	Description string                      `json:"description"`
	Limits      Limits                      `json:"limits"`
	Context     Context                     `json:"context"`
	Roles       map[string]Role             `json:"roles"`
	Graph       map[string]map[string]Route `json:"graph"`
	Forks       map[string]ForkSpec         `json:"forks"`
	Joins       map[string]JoinSpec         `json:"joins"`
	Gates       map[string]GateSpec         `json:"gates"`

	action    string   // the action that this is the definition of
	brief     string   // of a forked action
	planners  []string // of the thread that a forked action was planned in
	schemas   sync.Map // role → *compiled
	templates sync.Map // text → *template
}

// A Role describes who does a step: instructions, an agent, and the schema of its output.
type Role struct {
	Description  string   `json:"description"`
	Goal         string   `json:"goal"`
	Capabilities []string `json:"capabilities"`
	Procedure    string   `json:"procedure"`
	Output       string   `json:"output"`
	// Flow is the flow that does the role's work in a child thread, by its name in the bundle. If
	// it is empty, an agent does the work.
	Flow string `json:"flow"`
	// Agent is nil if the role leaves the choice to the configuration.
	Agent *AgentRef `json:"agent"`
	// Model, Effort and MCP override those of the agent.
	Model  string   `json:"model,omitempty"`
	Effort string   `json:"effort,omitempty"`
	MCP    []string `json:"mcp,omitempty"`
	Access Access   `json:"access"`
	// Sandbox overrides the agent's own, key by key.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// Timeout limits one attempt; 0 means that the role sets none.
	Timeout Duration `json:"timeout"`
	Retry   Retry    `json:"retry"`
	// Chat marks a role that talks with a person. Its output becomes the step as it is; then the
	// thread waits for the person's next input, which the role answers. The role is never routed
	// and has no Frontmatter.
	Chat bool `json:"chat,omitempty"`
	// Plan marks a role that plans: its output is actions for agents, and its Frontmatter is one
	// of [Schemas].
	Plan bool `json:"plan,omitempty"`
	// Until is a command that is run after each step of the role. Until it succeeds, the role goes on; nil: there is
	// none. See [UntilRole].
	Until []string `json:"until,omitempty"`
	// Frontmatter is the JSON Schema of meta, nil if the role has none.
	Frontmatter json.RawMessage `json:"frontmatter"`
}

// UnmarshalJSON keeps a missing schema nil, so that a definition survives a round trip.
func (r *Role) UnmarshalJSON(data []byte) error {
	type plain Role
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		return err
	}
	if string(r.Frontmatter) == "null" {
		r.Frontmatter = nil
	}
	return nil
}

// A Route is where a status leads. Role is a role, a fork, a join, a gate or "$END". Prompt and
// Location are Liquid. Code is the return code of a route to $END.
type Route struct {
	Role     string `json:"role"`
	Prompt   string `json:"prompt"`
	Location string `json:"location"`
	Code     int    `json:"code"`
}

// Context limits how much of the conversation an agent is given. Tokens is the quota; the steps
// of the roles in Pin are always included in full.
type Context struct {
	Tokens int      `json:"tokens"`
	Pin    []string `json:"pin"`
}

// Retry specifies what happens after a failed attempt.
type Retry struct {
	// Max is the number of retries after the first attempt.
	Max int `json:"max"`
	// Interrupted specifies whether an interrupted attempt is retried automatically; if nil, it
	// depends on the role's access.
	Interrupted *bool `json:"interrupted"`
	// WaitForReset means that an attempt that met a vendor's limit is retried once that ends, if it is known when.
	WaitForReset bool `json:"waitForReset,omitempty"`
}

const (
	// DefaultRetries and DefaultTokens are the defaults of a flow that does not set them.
	DefaultRetries = 2
	DefaultTokens  = 32000
)
