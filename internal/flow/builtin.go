package flow

import (
	"embed"
	"encoding/json"
	"path"
	"strings"
)

//go:embed builtin/*.yaml builtin/schemas/*.json
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
		if !e.IsDir() {
			names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
		}
	}
	return names
}

// Schemas returns the JSON Schemas that are published, by their names: "flow" of a flow file, for
// editors; of what agents of a planned task output "actions" of a plan role, "worker-output" of an
// action's agent.
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
