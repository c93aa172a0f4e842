package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// keyName matches the names of environment variables.
var keyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// keys reads the key keys, which maps the name of a variable to a program that prints its value, such as one that
// queries a keyring. A project cannot set it: it runs programs.
func (s *Settings) keys(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if !own {
		return []flow.Problem{problem(file, "NOT_HERE", yamldoc.Errorf(key,
			"keys belongs to your own configuration, not to a project's: it runs commands"))}
	}
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, "keys must be a mapping of variables to {command: [PROGRAM, …]}")
	}
	s.Keys = Value[map[string][]string]{map[string][]string{}, fmt.Sprintf("%s:%d", file, key.Line)}
	list, problems := pairs(file, val)
	for _, p := range list {
		name := p.Key.Value
		if !keyName.MatchString(name) {
			problems = append(problems, wrongType(file, p.Key, fmt.Sprintf("keys: %q is not the name of a variable", name))...)
			continue
		}
		of, bad := pairs(file, p.Value)
		problems = append(problems, bad...)
		if p.Value.Kind != yaml.MappingNode || len(of) != 1 || of[0].Key.Value != "command" {
			problems = append(problems, wrongType(file, p.Value, "keys."+name+
				" must be {command: [PROGRAM, …]}: the key itself has no place in a file")...)
			continue
		}
		argv, why := notifyCommand(of[0].Value)
		if why != "" {
			problems = append(problems, wrongType(file, of[0].Value, "keys."+name+".command must be "+why)...)
			continue
		}
		s.Keys.V[name] = argv
	}
	return problems
}

// keyOrigins returns the programs, without their arguments.
func (s *Settings) keyOrigins() []Origin {
	var out []Origin
	for _, name := range slices.Sorted(maps.Keys(s.Keys.V)) {
		out = append(out, Origin{"keys." + name, fmt.Sprintf("command %q", s.Keys.V[name][0]), s.Keys.From})
	}
	return out
}
