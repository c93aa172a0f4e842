package attempt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/flow"
	flowparse "github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// ErrUsage marks errors that a person can fix by asking differently.
var ErrUsage = errors.New("usage")

// Usage returns an error that wraps ErrUsage without naming it.
func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{ErrUsage, e.error} }

// Agents holds the available agents, and makes them.
type Agents struct {
	Defined map[string]flow.Agent // by name, as a person has defined them
	Default string                // for roles that name none
	Prices  flow.Prices           // of models, to compute the cost of an attempt
	// Make makes an agent from its definition.
	Make func(name string, def flow.Agent, o AgentOptions) (agent.Agent, error)
}

// AgentOptions say what an agent is made for.
type AgentOptions struct {
	Workspace string // where relative paths of the definition start
	Offline   string // the scenario of a scripted model, or ""
	Replay    bool   // recorded calls answer every call: no model is reached, and no account is needed
	// Confined means that a program runs in the sandbox of a role, and that any exit code but 0 is an answer.
	Confined bool
}

// builtIn are the agents that need no definition. Each is a model, and so can also summarize.
var builtIn = append([]string{"claude", "codex", "codex-exec", "model"}, flow.ACPAgents...)

// Names returns the names of the available agents, in order: those that are defined, and those that need no
// definition.
func (a Agents) Names() []string {
	names := slices.Collect(maps.Keys(a.Defined))
	for _, name := range builtIn {
		if _, ok := a.Defined[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// choose returns the definition and name of the agent for a role. It is the one set for this role, otherwise
// for every role, otherwise by the role itself, otherwise the configured default.
func (a Agents) choose(o record.Options, name string, role flow.Role) (string, flow.Agent, error) {
	agentName := cmp.Or(o.Roles[name], o.Agent)
	if agentName == "" && role.Agent != nil {
		if role.Agent.Inline != nil {
			return role.Agent.Inline.Kind, *role.Agent.Inline, nil
		}
		agentName = role.Agent.Name
	}
	agentName = cmp.Or(agentName, a.Default)
	if def, ok := a.Defined[agentName]; ok {
		return agentName, def, nil
	}
	if slices.Contains(builtIn, agentName) {
		if slices.Contains(flow.ACPAgents, agentName) {
			return agentName, flow.Agent{Kind: "acp", Agent: agentName}, nil
		}
		return agentName, flow.Agent{Kind: agentName}, nil
	}
	return "", flow.Agent{},
		Usage("role %s: no agent is called %q; use one of %s, or define it under agents: in .plait/config.yaml",
			name, agentName, strings.Join(a.Names(), ", "))
}

// A Worker is the agent for a role, with its name.
type Worker struct {
	Agent agent.Agent
	Name  string
	Kind  string // of its definition
	Text  bool   // its output is only a text, and not parsed
	Dir   string // its working directory, below the one it is given
	// Program is the program that it runs if that is a file below the directory it is given, otherwise "".
	Program string
	Idle    time.Duration // longest time without output, zero: unlimited
	Private []string      // hosts that are not public and that it may reach from a worker
	// SSHAgent says that a person lets it reach their SSH agent, and so sign in their name.
	SSHAgent bool
	// Summarizes reports whether the agent can summarize a conversation.
	Summarizes bool
}

// shapes reports whether an agent makes its model follow the schema of a role's answer.
func (w Worker) shapes(role flow.Role) bool {
	a, ok := w.Agent.(agent.Shaper)
	return ok && role.Frontmatter != nil && a.Shapes(role.Frontmatter)
}

// Worker makes the agent for a role of a thread's flow.
func (a Agents) Worker(row store.Thread, name string, role flow.Role) (Worker, error) {
	opts, err := record.OptionsOf(row)
	if err != nil {
		return Worker{}, err
	}
	of, confined := flow.UntilOf(name)
	if !confined {
		of = name
	}
	agentName, def, err := a.choose(opts, of, role)
	if err != nil {
		return Worker{}, err
	}
	if def.Sandbox, err = sandboxFor(def, role); err != nil {
		return Worker{}, Usage("role %s: agent %s: %w", of, agentName, err)
	}
	if def, err = withRole(def, role); err != nil {
		return Worker{}, Usage("role %s: agent %s: %w", of, agentName, err)
	}
	if confined { // in place of the agent, where that works
		agentName = "command"
		def = flow.Agent{Kind: agentName, Command: role.Until, Dir: def.Dir, Sandbox: def.Sandbox, Private: def.Private,
			Exit: map[string]string{"0": flow.Met}, Output: flow.OutputText}
	}
	if opts.Model != "" && slices.Contains(builtIn, def.Kind) {
		def.Model = opts.Model
	}
	made, err := a.Make(agentName, def, AgentOptions{Workspace: row.Workspace, Offline: opts.Offline,
		Replay: opts.Replay != "", Confined: confined})
	if err != nil {
		return Worker{}, Usage("agent %s: %w", agentName, err)
	}
	program := ""
	if len(def.Command) > 0 && strings.Contains(def.Command[0], "/") && filepath.IsLocal(def.Command[0]) {
		program = filepath.Join(def.Dir, def.Command[0])
	}
	return Worker{
		Program: program,
		Agent:   made, Name: agentName, Kind: def.Kind, Text: def.Output == flow.OutputText,
		Dir: filepath.ToSlash(def.Dir), Idle: time.Duration(def.Idle), Private: def.Private,
		SSHAgent:   def.Passes("SSH_AUTH_SOCK"),
		Summarizes: slices.Contains(builtIn, def.Kind) || def.Kind == "acp",
	}, nil
}

// forActions returns the agents that actions may name. role is that of workers.
func (a Agents) forActions(row store.Thread, role flow.Role) []briefing.Agent {
	standard, _ := a.Worker(row, flow.WorkerFlow, role)
	var all []briefing.Agent
	seen := map[string]bool{}
	for _, name := range a.Names() {
		role.Agent = &flow.AgentRef{Name: name}
		w, err := a.Worker(row, flow.WorkerFlow, role)
		if err != nil || seen[w.Name] {
			continue // it cannot be used, or never is, whatever an action names
		}
		seen[w.Name] = true
		all = append(all, briefing.Agent{Name: w.Name, Kind: w.Kind, Agent: w.Agent, Program: !w.Summarizes,
			Default: w.Name == standard.Name})
	}
	return all
}

// Check makes the agent of each role of a bundle's flows once, so that a missing one is found before anything
// is written.
func (a Agents) Check(row store.Thread, bundle thread.Bundle) error {
	opts, err := record.OptionsOf(row)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(bundle.Flows)) {
		def := new(flow.Definition)
		if err := json.Unmarshal(bundle.Flows[name], def); err != nil {
			return fmt.Errorf("flow %s: %w", name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(def.Roles)) {
			role := def.Roles[name]
			if role.Flow != "" {
				continue // that flow's roles do its work
			}
			known[name] = true
			if _, err := a.Worker(row, name, role); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Roles)) {
		if !known[name] {
			meant := text.Nearest(name, slices.Sorted(maps.Keys(known)))
			if meant != "" {
				meant = "; did you mean " + meant + "?"
			}
			return Usage("--set %s.agent: flow %s has no role %q for an agent%s", name, bundle.Name, name, meant)
		}
	}
	return nil
}

// sandboxFor returns the sandbox of an agent for a role.
func sandboxFor(def flow.Agent, role flow.Role) (*flow.Sandbox, error) {
	if why := flow.Unboxed(def.Kind); why != "" && role.Sandbox != nil {
		return nil, errors.New(why)
	}
	return def.Sandbox.With(role.Sandbox), nil
}

// withRole returns an agent with what a role sets of it.
func withRole(def flow.Agent, role flow.Role) (flow.Agent, error) {
	for key, set := range map[string]bool{"model": role.Model != "", "effort": role.Effort != "", "mcp": role.MCP != nil} {
		if set && !flowparse.AgentHas(def.Kind, key) {
			return def, fmt.Errorf("agents of kind %s have no %s", def.Kind, key)
		}
	}
	def.Model, def.Effort = cmp.Or(role.Model, def.Model), cmp.Or(role.Effort, def.Effort)
	if role.MCP != nil {
		def.MCP = role.MCP
	}
	return def, nil
}

// maxCount limits each number that an agent or a server reports, so that sums of them can be kept.
const maxCount = 1 << 48

// priced returns u with its cost, unless the agent reported one. Numbers that cannot be right are cut off.
func (a Agents) priced(model string, u agent.Usage) agent.Usage {
	for _, n := range []*int64{&u.InputTokens, &u.CachedInputTokens, &u.OutputTokens, &u.ReasoningTokens} {
		*n = min(max(*n, 0), maxCount)
	}
	if u.CostMicroUSD == 0 {
		u.CostMicroUSD = a.Prices.Cost(model, u.InputTokens, u.CachedInputTokens, u.OutputTokens)
	}
	u.CostMicroUSD = min(max(u.CostMicroUSD, 0), maxCount)
	return u
}
