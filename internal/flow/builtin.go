package flow

import (
	"embed"
	"path"
	"strings"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// BuiltIn returns the definition of a flow that comes with Plait, and whether
// there is one of that name.
func BuiltIn(name string) (*Definition, bool) {
	file := path.Join("builtin", name+".yaml")
	if _, err := builtin.ReadFile(file); err != nil {
		return nil, false
	}
	def, problems := Load(builtin, file)
	return def, def != nil && !Failed(problems)
}

// BuiltIns returns the names of the flows that come with Plait, in order.
func BuiltIns() []string {
	entries, _ := builtin.ReadDir("builtin")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}
