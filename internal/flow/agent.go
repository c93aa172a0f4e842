package flow

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// ACPAgents are the known agents of kind acp. Each can be used without a definition.
var ACPAgents = []string{"claude-acp", "codex-acp", "copilot", "gemini", "kimi", "opencode", "qwen"}

// DefinesAgents reports whether d itself says how an agent is run, or lets one do more than read. What a definition
// says of an agent starts a program, leads it elsewhere (env, config, mcp), or sends a key to a server (url, keyEnv),
// so any agent defined inline counts, whatever its keys, as does any sandbox. A plan can give its actions access to
// write.
func (d *Definition) DefinesAgents() bool {
	for _, role := range d.Roles {
		if role.Access.Writes() || role.Plan || role.Sandbox != nil || role.Until != nil || role.MCP != nil ||
			role.Agent != nil && role.Agent.Inline != nil {
			return true
		}
	}
	return false
}

// A Variable is a variable of the environment that an agent's definition names.
type Variable struct {
	Key  string // where: "pass"
	Name string // in pass, it may end in *
}

// Passes reports whether a definition passes a variable on, sets or reads it.
func (a Agent) Passes(variable string) bool {
	return slices.ContainsFunc(a.Variables(), func(v Variable) bool {
		prefix, many := strings.CutSuffix(v.Name, "*")
		return v.Name == variable || many && strings.HasPrefix(variable, prefix)
	})
}

// Variables returns the variables that a definition passes on, sets or reads. Settings of other programs can name
// variables in ways that Plait does not know, so every name in config counts.
func (a Agent) Variables() (all []Variable) {
	add := func(key string, names ...string) {
		for _, name := range names {
			all = append(all, Variable{key, name})
		}
	}
	add("pass", a.Pass...)
	add("env", slices.Sorted(maps.Keys(a.Env))...)
	if a.Sandbox != nil {
		add("sandbox.pass", a.Sandbox.Pass...)
		add("sandbox.env", slices.Sorted(maps.Keys(a.Sandbox.Env))...)
	}
	if a.KeyEnv != "" {
		add("keyEnv", a.KeyEnv)
	}
	if a.Kind != "model" { // whose config is part of a request
		eachWord(a.Config, func(text string) {
			if IsVariable(text) {
				add("config", text)
			}
		})
	}
	return all
}

// eachWord calls visit with every key and text in a setting.
func eachWord(setting any, visit func(string)) {
	switch v := setting.(type) {
	case string:
		visit(v)
	case []any:
		for _, one := range v {
			eachWord(one, visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			visit(key)
			eachWord(v[key], visit)
		}
	}
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
	// Private are the hosts that are not public and that it may reach from a worker: names, addresses, networks.
	Private []string `json:"private,omitempty"`
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

// A ModelServer specifies which server an agent of kind model uses, and how.
type ModelServer struct {
	URL      string `json:"url,omitempty"`
	API      string `json:"api,omitempty"`      // chat or messages
	KeyEnv   string `json:"keyEnv,omitempty"`   // the user's environment variable that holds the key
	MaxTurns int    `json:"maxTurns,omitempty"` // requests of one attempt
}
