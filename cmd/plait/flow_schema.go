package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/flow"
)

func (a *app) flowSchemaCmd() *cobra.Command {
	names := slices.Sorted(maps.Keys(flow.Schemas()))
	return &cobra.Command{
		Use: "schema [NAME]", Short: "Print the JSON Schema of a plan, or of an action's output",
		Long: `Print a JSON Schema of the output of agents in a planned task:

  actions         the plan: the output of a role with plan: true
  worker-output   the output of an action's agent

Without NAME, list the names.`,
		Example: "  plait flow schema actions > actions.schema.json",
		Args:    cobra.MaximumNArgs(1), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.print(cmd, map[string]any{"schemas": names},
					func(out io.Writer) { fmt.Fprintln(out, strings.Join(names, "\n")) })
			}
			schema, ok := flow.Schemas()[args[0]]
			if !ok {
				return usagef("unknown schema %q: use %s", safe(args[0]), either(names))
			}
			return a.print(cmd, map[string]any{"name": args[0], "schema": json.RawMessage(schema)},
				func(out io.Writer) { out.Write(schema) })
		},
	}
}
