package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// An Answerer is who may answer, through plait mcp, the questions of tasks that a model started.
type Answerer string

// Who may answer.
const (
	ByNobody Answerer = "nobody" // not through plait mcp: only in a terminal, or on the page
	ByPerson Answerer = "person" // the person who uses the model's program, which asks them
	ByModel  Answerer = "model"  // the model itself
)

// Answering is who may answer questions, and who may approve actions, through plait mcp.
type Answering struct {
	Questions Answerer // default: ByPerson
	Approvals Answerer // default: ByNobody; never ByModel
}

// answering reads the key mcp. A project cannot set it: an agent may be able to write there.
func (s *Settings) answering(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if !own {
		return []flow.Problem{problem(file, "NOT_HERE", yamldoc.Errorf(key,
			"mcp belongs to your own configuration, not to a project's: it says who may approve"))}
	}
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, "mcp must be a mapping with questions and approvals")
	}
	list, problems := pairs(file, val)
	for _, p := range list {
		to, allowed := &s.MCP.V.Questions, []Answerer{ByNobody, ByPerson, ByModel}
		switch p.Key.Value {
		case "questions":
		case "approvals":
			to, allowed = &s.MCP.V.Approvals, []Answerer{ByNobody, ByPerson}
		default:
			problems = append(problems, problem(file, "UNKNOWN_KEY", yamldoc.Errorf(p.Key,
				"unknown key %q: use questions or approvals", p.Key.Value)))
			continue
		}
		who := Answerer(p.Value.Value)
		if p.Value.Kind != yaml.ScalarNode || !slices.Contains(allowed, who) {
			problems = append(problems, problem(file, "WRONG_TYPE", yamldoc.Errorf(p.Value,
				"mcp.%s must be one of %v", p.Key.Value, allowed)))
			continue
		}
		*to = who
	}
	s.MCP.From = fmt.Sprintf("%s:%d", file, key.Line)
	return problems
}

// SignSSH says that answers to approvals are signed with SSH keys.
const SignSSH = "ssh"

// approvals reads the key approvals. A project cannot set it: it says whose answers count.
func (s *Settings) approvals(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if !own {
		return []flow.Problem{problem(file, "NOT_HERE", yamldoc.Errorf(key,
			"approvals belongs to your own configuration, not to a project's: it says whose answers count"))}
	}
	list, problems := pairs(file, val)
	if val.Kind != yaml.MappingNode || len(problems) == 0 &&
		(len(list) != 1 || list[0].Key.Value != "sign" || list[0].Value.Value != SignSSH) {
		return wrongType(file, val, "approvals must be {sign: ssh}")
	}
	s.Sign = Value[string]{SignSSH, fmt.Sprintf("%s:%d", file, key.Line)}
	return problems
}
