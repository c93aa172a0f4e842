package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// A Team is how a team's workers know a project, and where they get it from.
type Team struct {
	Workspace string // the project's name; "": taken from its Git remote, or else from its directory
	Remote    string // the Git remote that workers fetch from too: what it has is not uploaded; "": all is uploaded

	Remotes map[string]string // for a worker, by project name: what it fetches from. Only from the user's own file
	MaxGB   int               // for a worker: how many GB of tasks it keeps; zero: any. Only from the user's own file

	Directories []string // for a worker: those without Git whose tasks it takes. Only from the user's own file
	Limits      Limits   // for a worker. Only from the user's own file
}

// Limits bound what an agent on a worker can use; zero: no bound.
type Limits struct {
	Processes int // with their threads, at once
	MemoryGB  int // GiB
	FileGB    int // GiB of the largest file that can be written
}

// defaultLimits are far beyond what agents and their tools need.
func defaultLimits() Limits { return Limits{Processes: 4096, MemoryGB: 8, FileGB: 10} }

// team reads the key team. What a file does not set keeps its value.
func (s *Settings) team(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, "team must be a mapping with workspace, remote, remotes, maxGB, directories and limits")
	}
	t := s.Team.V
	list, problems := pairs(file, val)
	for _, p := range list {
		switch name := p.Key.Value; name {
		case "workspace", "remote":
			if p.Value.Kind != yaml.ScalarNode || p.Value.ShortTag() != "!!str" {
				problems = append(problems, wrongType(file, p.Value, "team."+name+" must be a name")...)
			} else if name == "remote" {
				t.Remote = p.Value.Value
			} else {
				t.Workspace = p.Value.Value
			}
		case "remotes", "maxGB", "directories", "limits":
			if !own {
				problems = append(problems, problem(file, "NOT_HERE", yamldoc.Errorf(p.Key,
					"team.%s belongs to a worker's own configuration, not to a project's", name)))
				continue
			}
			if err := decodeTeam(p.Value, name, &t); err != "" {
				problems = append(problems, wrongType(file, p.Value, "team."+name+" must be "+err)...)
			}
		default:
			problems = append(problems, problem(file, "UNKNOWN_KEY", yamldoc.Errorf(p.Key,
				"unknown key %q; there are workspace, remote, remotes, maxGB, directories and limits", name)))
		}
	}
	s.Team = Value[Team]{t, fmt.Sprintf("%s:%d", file, key.Line)}
	return problems
}

// decodeTeam reads a key that only a worker's own file may have, or returns what it must be.
func decodeTeam(n *yaml.Node, name string, t *Team) string {
	switch name {
	case "maxGB":
		number, _ := yamldoc.Scalar(n)
		gb, ok := number.(int64)
		if !ok || gb < 0 {
			return "a number of GB, 0 for any"
		}
		t.MaxGB = int(gb)
		return ""
	case "limits":
		return t.Limits.decode(n)
	case "directories":
		t.Directories = nil
		relative := func(dir string) bool { return !filepath.IsAbs(dir) || filepath.Clean(dir) != dir }
		if n.Kind != yaml.SequenceNode || n.Decode(&t.Directories) != nil || slices.ContainsFunc(t.Directories, relative) {
			return "a list of absolute paths, without .. and a / at the end"
		}
		return ""
	}
	t.Remotes = nil
	if n.Kind != yaml.MappingNode || n.Decode(&t.Remotes) != nil {
		return "a mapping of workspaces to URLs"
	}
	return ""
}

// decode reads limits, or returns what they must be. What is not set keeps its value.
func (l *Limits) decode(n *yaml.Node) string {
	const want = "a mapping of processes, memoryGB and fileGB to numbers, 0 for any"
	if n.Kind != yaml.MappingNode {
		return want
	}
	for i := 0; i < len(n.Content); i += 2 {
		value, _ := yamldoc.Scalar(n.Content[i+1])
		number, ok := value.(int64)
		if !ok || number < 0 || number > 1<<22 { // as many processes as Linux can have
			return want
		}
		switch n.Content[i].Value {
		case "processes":
			l.Processes = int(number)
		case "memoryGB":
			l.MemoryGB = int(number)
		case "fileGB":
			l.FileGB = int(number)
		default:
			return want
		}
	}
	return ""
}

// text returns what doctor --config shows: no URLs, since they may contain passwords.
func (t Team) text() string {
	return fmt.Sprintf("workspace %q, remote %q, remotes of %q, maxGB %d, directories %q, "+
		"limits of %d processes, %d GB of memory and files of %d GB",
		t.Workspace, t.Remote, slices.Sorted(maps.Keys(t.Remotes)), t.MaxGB, t.Directories, t.Limits.Processes,
		t.Limits.MemoryGB, t.Limits.FileGB)
}
