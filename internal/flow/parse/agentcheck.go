package parse

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
	"github.com/plait-run/plait/internal/sys/text"
)

// CheckAgents reports the agents that roles of a flow name but that are not in known. data is the
// flow file, for positions.
func CheckAgents(def *flow.Definition, file string, data []byte, known []string) []flow.Problem {
	var problems []flow.Problem
	for name, role := range def.Roles {
		if role.Agent == nil || role.Agent.Inline != nil || slices.Contains(known, role.Agent.Name) {
			continue
		}
		p := flow.Problem{File: file, Line: 1, Col: 1, Code: codeUnknownAgent,
			Message: "role " + name + ": no agent is called " + role.Agent.Name}
		if near := text.Nearest(role.Agent.Name, known); near != "" {
			p.Message += "; did you mean " + near + "?"
		}
		if n := agentNode(data, name); n != nil {
			p.Line, p.Col = n.Line, n.Column
		}
		problems = append(problems, p)
	}
	return sorted(file, problems)
}

// agentNode returns the node in which a role of a file names its agent, nil if it is in another file.
func agentNode(data []byte, role string) *yaml.Node {
	n, err := yamldoc.Parse(data)
	if err != nil || n == nil {
		return nil
	}
	for _, key := range []string{"roles", role, "agent"} {
		if n.Kind != yaml.MappingNode {
			return nil
		}
		i := slices.IndexFunc(n.Content, func(c *yaml.Node) bool { return c.Value == key })
		if i < 0 || i%2 == 1 || i+1 >= len(n.Content) {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}
