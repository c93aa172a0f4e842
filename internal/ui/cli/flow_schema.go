package cli

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) flowSchemaCmd() *cobra.Command {
	names := slices.Sorted(maps.Keys(flow.Schemas()))
	return &cobra.Command{
		Use: "schema [NAME]", Short: "Print the JSON Schema of flow files, of a plan, or of an action's output",
		Long: `Print a JSON Schema:

  actions         the plan: the output of a role with plan: true
  flow            a flow file, for editors
  worker-output   the output of an action's agent

Without NAME, list the names. plait flow new and plait init write the schema of flow files to
.plait/flow.schema.json, where editors find it.`,
		Example: "  plait flow schema flow > flow.schema.json",
		Args:    atMost(1, "one name of a schema"), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.print(cmd, map[string]any{"schemas": names},
					func(out page) { out.line("%s", strings.Join(names, "\n")) })
			}
			schema, ok := flow.Schemas()[args[0]]
			if !ok {
				return usagef("unknown schema %q: use %s", text.Safe(args[0]), either(names))
			}
			return a.print(cmd, map[string]any{"name": args[0], "schema": json.RawMessage(schema)},
				func(out page) { out.Write(schema) })
		},
	}
}

// writeFlowSchema writes the schema of flow files to where the first line of a new flow points the editor,
// replacing an older one, and returns the file.
func writeFlowSchema(workspace string) (file string, err error) {
	file = filepath.Join(workspace, ".plait", "flow.schema.json")
	return file, atomicfile.Write(file, flow.Schemas()["flow"], 0o644) // agents may have left a link at file
}
