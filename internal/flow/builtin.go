package flow

import (
	"embed"
	"encoding/json"
	"io/fs"
	"path"
)

// ChatFlow is the built-in flow of a conversation with one agent.
const ChatFlow = "chat"

// WorkerFlow is the name of the built-in flow that a spawned action runs. Every bundle with a
// plan role contains it.
const WorkerFlow = worker

//go:embed builtin/*.yaml builtin/schemas/*.json
var builtin embed.FS

// BuiltInFiles returns the files of the built-in flows, and of the schemas that they include, in the directory builtin.
func BuiltInFiles() fs.FS { return builtin }

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
