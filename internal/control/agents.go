package control

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
)

// choose returns the definition of the agent that does a role's work, and its
// name. The order is: for this role, for every role, the role's own, the
// configured default.
func (c *Controller) choose(row store.Thread, name string, role flow.Role) (string, flow.Agent, error) {
	opts, err := optionsOf(row)
	if err != nil {
		return "", flow.Agent{}, err
	}
	agentName := opts.Roles[name]
	if agentName == "" {
		agentName = opts.Agent
	}
	if agentName == "" && role.Agent != nil {
		if role.Agent.Inline != nil {
			return role.Agent.Inline.Kind, *role.Agent.Inline, nil
		}
		agentName = role.Agent.Name
	}
	if agentName == "" {
		agentName = c.cfg.Settings.Default.V
	}
	if def, ok := c.cfg.Settings.Agents[agentName]; ok {
		return agentName, def.V, nil
	}
	if slices.Contains(builtIn, agentName) {
		return agentName, flow.Agent{Kind: agentName}, nil
	}
	return "", flow.Agent{}, usage("role %s: no agent is called %q (there are %s); define it under agents: in .plait/config.yaml", name, agentName, strings.Join(c.Agents(), ", "))
}

// Agents returns the names of the agents that there are, in order: those of the settings,
// and those that need no definition.
func (c *Controller) Agents() []string {
	names := slices.Collect(maps.Keys(c.cfg.Settings.Agents))
	for _, name := range builtIn {
		if _, ok := c.cfg.Settings.Agents[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// builtIn are the agents that need no definition: models, which can also summarise.
var builtIn = []string{"codex", "codex-exec"}

// worker makes the agent for a role.
func (c *Controller) worker(row store.Thread, name string, role flow.Role) (engine.Worker, error) {
	agentName, def, err := c.choose(row, name, role)
	if err != nil {
		return engine.Worker{}, err
	}
	opts, err := optionsOf(row)
	if err != nil {
		return engine.Worker{}, err
	}
	a, err := c.cfg.Agent(agentName, def, AgentOptions{Workspace: row.Workspace, Offline: opts.Offline})
	if err != nil {
		return engine.Worker{}, usageError{fmt.Errorf("agent %s: %w", agentName, err)}
	}
	return engine.Worker{
		Agent: a, Name: agentName, Idle: time.Duration(def.Idle), Summarises: slices.Contains(builtIn, def.Kind),
	}, nil
}

// checkAgents makes the agent of each role of a bundle's flows once, so that a
// missing one is found before anything is written.
func (c *Controller) checkAgents(row store.Thread, bundle thread.Bundle) error {
	opts, err := optionsOf(row)
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
				continue // its work is done by that flow's roles
			}
			known[name] = true
			if _, err := c.worker(row, name, role); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Roles)) {
		if !known[name] {
			return usage("--set %s.agent: flow %s has no role %q that an agent does", name, bundle.Name, name)
		}
	}
	return nil
}

// desk hands a task's desk to the engine.
type desk struct{ *task.Desk }

func openDesk(row store.Thread, instance, attempt string) (engine.Desk, error) {
	d, err := task.At(row.Workspace, row.Task).Open(row, instance, attempt)
	if err != nil {
		return nil, err
	}
	return desk{d}, nil
}

func (d desk) Agent() agent.Desk {
	return agent.Desk{
		Dir: d.Dir, Artifacts: d.ArtifactsDir(), Context: d.ContextDir(),
		Raw: d.Raw, Stderr: d.Desk.Stderr, Requests: d.Requests,
	}
}

func (d desk) Stderr() (io.ReadCloser, int64, error) { return d.StderrLog() }
