package flow

import (
	"embed"
	"encoding/json"
	"path"
	"strings"
)

//go:embed builtin/*.yaml builtin/schemas/*.json
var builtin embed.FS

// BuiltIn returns the definition of a built-in flow, and whether there is one of that name.
func BuiltIn(name string) (*Definition, bool) {
	file := path.Join("builtin", name+".yaml")
	if _, err := builtin.ReadFile(file); err != nil {
		return nil, false
	}
	def, problems := Load(builtin, file)
	return def, def != nil && !Failed(problems)
}

// BuiltIns returns the names of the built-in flows, sorted.
func BuiltIns() []string {
	entries, _ := builtin.ReadDir("builtin")
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
		}
	}
	return names
}

// Schemas returns the published JSON Schemas by name: "flow" for flow files, "actions" for the
// output of a plan role, and "worker-output" for the output of an action's agent.
func Schemas() map[string]json.RawMessage {
	schemas := map[string]json.RawMessage{}
	for _, name := range []string{"actions", "flow", "worker-output"} {
		schemas[name] = schemaFile(name)
	}
	return schemas
}

func schemaFile(name string) json.RawMessage {
	data, _ := builtin.ReadFile(path.Join("builtin", "schemas", name+".schema.json"))
	return data
}
