package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Brief returns the prompt of the agent of an action, which is the whole prompt of a spawned
// thread. It names the action, so that no two actions of a plan have the same prompt.
func (p *Plan) Brief(id string) string {
	a, _ := p.Action(id)
	var b strings.Builder
	fmt.Fprintf(&b, "Action %s", a.ID)
	if a.Title != "" {
		fmt.Fprintf(&b, ": %s", a.Title)
	}
	fmt.Fprintf(&b, "\n\nIt is one of %d that are done for this goal: %s\n\n%s\n", len(p.Actions), p.SessionGoal,
		strings.TrimSpace(a.Prompt))
	if len(a.Inputs) > 0 {
		fmt.Fprintf(&b, "\nInputs: %s\n", strings.Join(a.Inputs, ", "))
	}
	return b.String()
}

// SpawnedAction returns the definition that the thread of a spawned action runs: d, which is the
// flow [WorkerFlow], with the action instead of its role worker.
func (d *Definition) SpawnedAction(p *Plan, id string) *Definition {
	a, _ := p.Action(id)
	role := d.Roles[worker]
	if a.Agent != "" {
		role.Agent = &AgentRef{Name: a.Agent}
	}
	role.Access = a.Access
	if a.Timeout > 0 {
		role.Timeout = toDuration(a.Timeout)
	}
	if a.OutputSchema != nil {
		role.Frontmatter = withResult(role.Frontmatter, a.OutputSchema)
	}
	n := &Definition{
		Version: d.Version, Name: d.Name, Description: d.Description, Limits: d.Limits, Context: d.Context,
		action: id, Roles: map[string]Role{id: role}, Graph: map[string]map[string]Route{}, Gates: d.Gates,
	}
	if a.OutputSchema == nil {
		n.schemas.Store(id, d.compiled(worker)) // compiling is slow, so it is done once for all actions
	}
	for node, routes := range d.Graph {
		own := make(map[string]Route, len(routes))
		for status, r := range routes {
			if r.Role == worker {
				r.Role = id
			}
			own[status] = r
		}
		if node == worker {
			node = id
		}
		n.Graph[node] = own
	}
	return n
}

// ActionID returns the id of the action that d was made for, or "" for any other flow.
func (d *Definition) ActionID() string { return d.action }

// ForkedAction returns the definition that a forked action runs in the thread that planned it. d
// is the thread's definition, w the flow [WorkerFlow]. Where a worker ends with code 0, the path
// reaches its join.
func (d *Definition) ForkedAction(w *Definition, p *Plan, id string) *Definition {
	n := w.SpawnedAction(p, id)
	n.brief, n.planners = p.Brief(id), d.Plans()
	n.Name, n.Limits, n.Context = d.Name, d.Limits, d.Context
	n.Gates = maps.Clone(d.Gates) // the conversation goes through them
	if n.Gates == nil {
		n.Gates = map[string]GateSpec{}
	}
	maps.Copy(n.Gates, w.Gates)
	f := p.fork("")
	n.Joins = map[string]JoinSpec{JoinRole: f.Rule}
	for status, r := range n.Graph[id] {
		if r.Role == EndNode && r.Code == 0 {
			n.Graph[id][status] = Route{Role: JoinRole}
		}
	}
	return n
}

// withResult returns the schema output of workers, which then requires a property result with the
// schema result if the action succeeds.
func withResult(output, result json.RawMessage) json.RawMessage {
	var whole, properties, own map[string]json.RawMessage
	if json.Unmarshal(output, &whole) != nil || json.Unmarshal(whole["properties"], &properties) != nil ||
		json.Unmarshal(result, &own) != nil {
		return output
	}
	if _, named := own["$id"]; !named {
		// It becomes a separate document, so that its references and $schema keep their meaning.
		own["$id"] = json.RawMessage(`"flow:///result.json"`)
	}
	whole["if"] = json.RawMessage(`{"properties": {"status": {"const": "` + Success + `"}}}`)
	whole["then"] = json.RawMessage(`{"required": ["result"]}`)
	for _, put := range []struct {
		into map[string]json.RawMessage
		key  string
		what any
	}{{properties, "result", own}, {whole, "properties", properties}} {
		data, err := json.Marshal(put.what)
		if err != nil {
			return output
		}
		put.into[put.key] = data
	}
	data, err := json.Marshal(whole)
	if err != nil {
		return output
	}
	return data
}
