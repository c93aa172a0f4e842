package foreign

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/plait-run/plait/internal/flow"
)

// Profiles returns the names of the profiles in a configuration of Codex, sorted.
func Profiles(data []byte) ([]string, error) {
	all, err := profiles(data)
	return slices.Sorted(maps.Keys(all)), err
}

func profiles(data []byte) (map[string]map[string]any, error) {
	var c struct {
		Profiles map[string]map[string]any `toml:"profiles"`
	}
	err := toml.Unmarshal(data, &c)
	return c.Profiles, err
}

// profile reads a profile of a configuration of Codex.
func (r *reader) profile(data []byte, name string) {
	all, err := profiles(data)
	if err != nil {
		line := 1
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ = at.Position()
		}
		r.bad(line, "the configuration cannot be read: %v", err)
		return
	}
	p, ok := all[name]
	if !ok {
		r.bad(1, "there is no profile %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		return
	}
	line := lineOf(data, "[profiles."+name+"]")
	r.role.Description = "Codex with the profile " + name
	for _, k := range slices.Sorted(maps.Keys(p)) {
		text, _ := p[k].(string)
		switch {
		case k == "model":
			r.model = r.text(k, line, p[k])
		case k == "model_reasoning_effort":
			r.effort = r.text(k, line, p[k])
		case k == "sandbox_mode" && text == "read-only":
		case k == "sandbox_mode" && text == "workspace-write":
			r.writes = true
		case k == "sandbox_mode":
			r.notMapped(line, "sandbox_mode %q: only a flow itself gives access: full", text)
		default:
			r.notMapped(line, "%q has no meaning here", k)
		}
	}
	r.agent(flow.Agent{Kind: "codex"})
}

// lineOf returns the first line that has a text, 1 if there is none.
func lineOf(data []byte, text string) int {
	before, _, found := strings.Cut(string(data), text)
	if !found {
		return 1
	}
	return 1 + strings.Count(before, "\n")
}
