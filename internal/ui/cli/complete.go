package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

func unmarshal(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

// Completions are best effort: if something cannot be read, there are none.

// completeThreads completes the names of threads with one of statuses, or of any.
func (a *app) completeThreads(statuses ...store.Status) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		w, err := a.open(background(cmd), "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		rows, err := w.store.Threads(background(cmd), store.ThreadFilter{
			Workspace: w.workspace, Statuses: statuses, Kind: store.KindRoot, Newest: true, Limit: 50,
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, t := range rows {
			name := t.Short
			if name == "" || !strings.HasPrefix(name, typed) {
				name = t.ID
			}
			if !strings.HasPrefix(name, typed) && !strings.HasPrefix(name, strings.ToUpper(typed)) {
				continue
			}
			title, err := w.view().Title(background(cmd), t)
			if err != nil {
				title = t.Flow
			}
			out = append(out, name+"\t"+oneLine(string(t.Status)+", "+ago(t.UpdatedAt)+": "+title, 60))
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeMany completes several names of threads, each once.
func (a *app) completeMany(statuses ...store.Status) cobra.CompletionFunc {
	one := a.completeThreads(statuses...)
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		list, directive := one(cmd, nil, typed)
		return slices.DeleteFunc(list, func(entry string) bool {
			name, _, _ := strings.Cut(entry, "\t")
			return slices.Contains(args, name)
		}), directive
	}
}

func background(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// completeFlows completes names of flows that can be run, with their descriptions, and files.
func (a *app) completeFlows(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	w, err := a.open(background(cmd), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	flows, err := w.control.Flows(background(cmd), w.dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, f := range flows {
		if strings.HasPrefix(f.Name, typed) {
			out = append(out, f.Name+"\t"+oneLine(f.Description, 60))
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}

// completeRegistry completes names in the registry.
func (a *app) completeRegistry(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := a.openStore(background(cmd))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	flows, err := s.Flows(background(cmd))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, f := range flows {
		out = append(out, f.Name+"\tin the registry")
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeAgents completes configured agents.
func (a *app) completeAgents(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	w, err := a.open(background(cmd), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return w.control.Agents(), cobra.ShellCompDirectiveNoFileComp
}

// completeScenarios completes --offline. The scenarios are read only when a shell asks: parsing them all
// takes as long as everything else that a command does before its own work.
func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scripted.Described(), cobra.ShellCompDirectiveDefault
}

// limitNames are what --limit sets.
var limitNames = []string{"maxRounds=", "maxDepth=", "timeout=", "maxConcurrent=", "maxTokens=", "maxCostMicroUSD=",
	"maxActions=", "maxTaskActions=", "maxOutput=", "maxAttempts="}

// completeRoles completes --set: the roles of the flow that was named before it.
func (a *app) completeRoles(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const how = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 {
		return nil, how
	}
	w, err := a.open(background(cmd), "")
	if err != nil {
		return nil, how
	}
	found, err := w.control.Find(background(cmd), w.dir, args[0])
	if err != nil {
		return nil, how
	}
	var d flow.Definition
	if !unmarshal(found.Bundle.Flows[found.Bundle.Name], &d) {
		return nil, how
	}
	var out []string
	for _, role := range sortedKeys(d.Roles) {
		out = append(out, role+".agent=\t"+oneLine(d.Roles[role].Description, 60))
	}
	return out, how
}

// loaded says how each shell loads its completions.
var loaded = map[string]string{
	"bash": "source <(plait completion bash)", "zsh": "source <(plait completion zsh)", "fish": "plait completion fish | source",
	"powershell": "plait completion powershell | Out-String | Invoke-Expression",
}

// addCompletion adds cobra's own command. It makes an unknown shell an error.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			for _, shell := range group(c).Commands() {
				shell.Example = "  " + loaded[shell.Name()]
			}
		}
	}
}
