package parse

import (
	"io/fs"
	"path"
	"strings"

	"github.com/plait-run/plait/internal/flow"
)

// BuiltIn returns the definition of a built-in flow, and whether there is one of that name.
func BuiltIn(name string) (*flow.Definition, bool) {
	def, problems := Load(builtInSource{}, builtInFile(name))
	return def, def != nil && !flow.Failed(problems)
}

// BuiltIns returns the names of the built-in flows, sorted.
func BuiltIns() []string {
	entries, _ := fs.ReadDir(flow.BuiltInFiles(), "builtin")
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
		}
	}
	return names
}

// LoadBuiltIn returns a built-in flow, followed by those that it calls.
func LoadBuiltIn(name string) ([]*flow.Definition, bool) {
	if _, ok := BuiltIn(name); !ok {
		return nil, false
	}
	flows, problems := LoadAll(builtInSource{}, builtInFile(name), nil, nil)
	return flows, !flow.Failed(problems)
}

// builtInSource is the Source of the built-in flows.
type builtInSource struct{}

func (builtInSource) ReadFile(name string) ([]byte, error) {
	return fs.ReadFile(flow.BuiltInFiles(), name)
}

func builtInFile(name string) string { return path.Join("builtin", name+".yaml") }
