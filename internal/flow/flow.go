// Package flow parses and validates workflow definitions, and decides what comes next.
//
// In: the bytes of a flow file, read through a [Source]; later the last steps of a thread.
// Out: a [Definition] with every default filled in, and all [Problem]s of a file with their
// positions; for a thread, the next [Decision].
//
//	file ── Load ──▶ Definition ── Next(at, last) ──▶ Run | Call | Fork | AtJoin | Gate | Blocked | End
//	           └───▶ []Problem
//
// Laws:
//  1. Pure. The same definition and steps give the same decision, on every machine. Files are
//     read only through the Source that the caller passes.
//  2. All problems are reported together, each with file, line, column and a permanent code.
//  3. Routing is a table lookup: graph[node][$status]. No model decides a route.
//  4. A Definition always marshals to the same JSON and unmarshals to an equal one: it is what a
//     bundle stores, so a running thread never reads the file again.
//  5. Bad input is a Problem or a Blocked, never a panic.
//
// It never starts a process and never opens a file or a connection (a schema's "$ref" to another
// document is refused, and so is Liquid's include). It does not depend on stores or threads.
package flow

import (
	"encoding/json"
	"sync"
)

// Reserved names of the graph and of statuses.
const (
	Start   = "$START"
	EndNode = "$END"
	Suspend = "$SUSPEND"
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
	Agent  *AgentRef `json:"agent"`
	Access Access    `json:"access"`
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

// An AgentRef is the name of a configured agent, or an agent defined inline. Its JSON is a string
// or an object.
type AgentRef struct {
	Name   string
	Inline *Agent
}

// MarshalJSON writes the inline agent if there is one, otherwise the name.
func (a AgentRef) MarshalJSON() ([]byte, error) {
	if a.Inline != nil {
		return json.Marshal(a.Inline)
	}
	return json.Marshal(a.Name)
}

// UnmarshalJSON reads either form.
func (a *AgentRef) UnmarshalJSON(data []byte) error {
	*a = AgentRef{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &a.Name)
	}
	return json.Unmarshal(data, &a.Inline)
}

// OutputText, as the output of an agent, says that what a program prints is only a text: it is never read as an answer
// with fields.
const OutputText = "text"

// An Agent is an agent definition, the same in a role and in a configuration file.
type Agent struct {
	Kind    string            `json:"kind"`
	Agent   string            `json:"agent,omitempty"` // of kind acp: one of ACPAgents, or "" for Command
	Command []string          `json:"command"`
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env"`
	Pass    []string          `json:"pass"`
	// Exit maps an exit code, in decimal, to the $status it means.
	Exit map[string]string `json:"exit"`
	// Output is [OutputText] or empty.
	Output string `json:"output,omitempty"`
	// Idle is how long the agent may be silent; 0 means forever.
	Idle   Duration       `json:"idle"`
	Model  string         `json:"model"`
	Effort string         `json:"effort"`
	Path   string         `json:"path"`
	Config map[string]any `json:"config"`
	// Sandbox is what the agent's commands may do in addition to the role's access.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// MCP names the servers of the user's own configuration that the agent may use.
	MCP []string `json:"mcp,omitempty"`
	// Recording is the recorded attempt that a replay agent replays.
	Recording string `json:"recording"`
	// Global means that the agent gets the user's instructions for all projects.
	Global bool `json:"globalInstructions,omitempty"`
	ModelServer
}

// Access is what an agent may do in the working tree.
type Access string

// The access levels; Read is the default.
const (
	Read  Access = "read"
	Write Access = "write"
	Full  Access = "full"
)

// Writes reports whether an agent may change the working tree.
func (a Access) Writes() bool { return a == Write || a == Full }

// A Route is where a status leads. Role is a role, a fork, a join, a gate or "$END". Prompt and
// Location are Liquid. Code is the return code of a route to $END.
type Route struct {
	Role     string `json:"role"`
	Prompt   string `json:"prompt"`
	Location string `json:"location"`
	Code     int    `json:"code"`
}

// Limits are the limits of a thread. 0 means no limit, but [Parse] fills in [DefaultLimits] where
// a file has 0.
type Limits struct {
	MaxRounds       int      `json:"maxRounds"`
	MaxDepth        int      `json:"maxDepth"`
	Timeout         Duration `json:"timeout"`
	MaxConcurrent   int      `json:"maxConcurrent"`
	MaxTokens       int64    `json:"maxTokens"`
	MaxCostMicroUSD int64    `json:"maxCostMicroUSD"`
	MaxActions      int      `json:"maxActions"`
	MaxTaskActions  int      `json:"maxTaskActions"`
	MaxOutput       Size     `json:"maxOutput"`
	MaxAttempts     int      `json:"maxAttempts"`
}

// DefaultLimits returns the limits of a flow that does not set any.
func DefaultLimits() Limits {
	return Limits{
		MaxRounds: 40, MaxDepth: 4, MaxConcurrent: 4,
		MaxActions: 32, MaxTaskActions: 256, MaxOutput: 8 << 20,
	}
}

func (l *Limits) fill() {
	d := DefaultLimits()
	for _, f := range []struct{ have, def *int }{
		{&l.MaxRounds, &d.MaxRounds},
		{&l.MaxDepth, &d.MaxDepth},
		{&l.MaxConcurrent, &d.MaxConcurrent},
		{&l.MaxActions, &d.MaxActions},
		{&l.MaxTaskActions, &d.MaxTaskActions},
	} {
		if *f.have == 0 {
			*f.have = *f.def
		}
	}
	if l.MaxOutput == 0 {
		l.MaxOutput = d.MaxOutput
	}
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
}

const (
	defaultRetries = 2
	defaultTokens  = 32000
)
