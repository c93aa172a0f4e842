package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// retention reads the key retention. A project cannot set it: it removes tasks, of other projects too.
func (s *Settings) retention(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if !own {
		return []flow.Problem{problem(file, "NOT_HERE", yamldoc.Errorf(key,
			"retention belongs to your own configuration, not to a project's: it removes tasks"))}
	}
	if val.Kind == yaml.MappingNode && len(val.Content) == 2 && val.Content[0].Value == "days" {
		number, _ := yamldoc.Scalar(val.Content[1])
		if n, ok := number.(int64); ok && n >= 1 && n <= 36500 {
			s.Retention = Value[int]{int(n), fmt.Sprintf("%s:%d", file, val.Line)}
			return nil
		}
	}
	return wrongType(file, val, "retention must be {days: N}: how long tasks are kept after they ended, from 1 to 36500")
}
