package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// Forge is what is done with issues and requests of a forge.
type Forge struct {
	Hosts  map[string]Host   // by name; github.com need not be there
	Remote string            // default: origin
	Labels map[string]string // flows of issues, by label
	Steer  []string          // who steers besides those who may write to the repository
	Push   string            // PushAsk or PushAlways
	Rounds int               // the most that one request takes
	Costs  bool              // requests say what the work cost
}

// A Host is a machine that is a forge.
type Host struct {
	Kind string // KindGitHub or KindGitea
	API  string // default: where its kind has it
}

// Kinds of forges.
const (
	KindGitHub = "github"
	KindGitea  = "gitea"
)

// Who agrees when agents' changes are pushed.
const (
	PushAsk    = "ask"
	PushAlways = "always"
)

// defaultRounds is the most that one request takes, if nothing else is said.
const defaultRounds = 5

var hostName = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]+$`)

// forgeKeys are the keys of forge, and whether a project may set them: not where a token is sent, who gives agents
// orders, or what is pushed unasked.
var forgeKeys = map[string]bool{"costs": true, "labels": true, "remote": true,
	"rounds": false, "hosts": false, "push": false, "steer": false}

// forge reads the key forge.
func (s *Settings) forge(file string, key, val *yaml.Node, own bool) (problems []flow.Problem) {
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, "forge must be a mapping")
	}
	list, problems := pairs(file, val)
	for _, p := range list {
		name := p.Key.Value
		shared, known := forgeKeys[name]
		switch {
		case !known:
			problems = append(problems, problem(file, "UNKNOWN_KEY", yamldoc.Errorf(p.Key, "unknown key %q: use %s", name,
				strings.Join(slices.Sorted(maps.Keys(forgeKeys)), ", "))))
		case !own && !shared:
			problems = append(problems, problem(file, "NOT_HERE", yamldoc.Errorf(p.Key,
				"forge.%s belongs to your own configuration, not to a project's", name)))
		default:
			if why := s.Forge.V.set(name, p.Value); why != "" {
				problems = append(problems, wrongType(file, p.Value, "forge."+name+" must be "+why)...)
			}
		}
	}
	s.Forge.From = fmt.Sprintf("%s:%d", file, key.Line)
	return problems
}

// set reads one key, and returns what its value must be if it is something else.
func (f *Forge) set(name string, val *yaml.Node) (why string) {
	switch name {
	case "remote":
		if val.Kind != yaml.ScalarNode || val.Value == "" || val.Decode(&f.Remote) != nil {
			return "the name of a Git remote"
		}
	case "labels":
		f.Labels = nil
		if val.Decode(&f.Labels) != nil {
			return "a mapping of labels to flows"
		}
	case "steer":
		f.Steer = nil
		if val.Decode(&f.Steer) != nil {
			return "a list of names of accounts"
		}
	case "push":
		if f.Push = val.Value; val.Kind != yaml.ScalarNode || f.Push != PushAsk && f.Push != PushAlways {
			return PushAsk + " or " + PushAlways
		}
	case "rounds":
		if val.Decode(&f.Rounds) != nil || f.Rounds < 1 || f.Rounds > 100 {
			return "a number from 1 to 100"
		}
	case "costs":
		if val.Decode(&f.Costs) != nil {
			return "true or false"
		}
	case "hosts":
		return f.setHosts(val)
	}
	return ""
}

func (f *Forge) setHosts(val *yaml.Node) string {
	const want = "a mapping of hosts to {kind: github or gitea, api: URL}"
	hosts := map[string]map[string]string{}
	if val.Decode(&hosts) != nil {
		return want
	}
	f.Hosts = map[string]Host{}
	for name, keys := range hosts {
		h := Host{Kind: keys["kind"], API: keys["api"]}
		delete(keys, "kind")
		delete(keys, "api")
		if len(keys) > 0 || !hostName.MatchString(name) || h.Kind != KindGitHub && h.Kind != KindGitea {
			return want
		}
		f.Hosts[strings.ToLower(name)] = h
	}
	return ""
}

// text returns the settings for doctor.
func (f Forge) text() string {
	return fmt.Sprintf("remote %s, push %s, rounds %d, steer %q, hosts %q", f.Remote, f.Push, f.Rounds, f.Steer,
		slices.Sorted(maps.Keys(f.Hosts)))
}
