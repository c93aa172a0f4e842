package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

func unmarshal(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

// Completions are best effort: if something cannot be read, there are none.

// keepOrder is for completions in an order that says something.
const keepOrder = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder

// completeFirst completes a verb's first argument with what list finds.
func (a *app) completeFirst(
	how cobra.ShellCompDirective, list func(ctx context.Context, w *workplace, typed string) []string,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := background(cmd)
		w, err := a.open(ctx, "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list(ctx, w, typed), how
	}
}

// completeFlag completes the values of a flag.
func completeFlag(cmd *cobra.Command, flag string, values ...string) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeThreads completes the names of threads with one of statuses, or of any.
func (a *app) completeThreads(statuses ...store.Status) cobra.CompletionFunc {
	return a.completeFirst(keepOrder, func(ctx context.Context, w *workplace, typed string) (out []string) {
		rows, _ := w.store.Threads(ctx, store.ThreadFilter{
			Workspace: w.workspace, Statuses: statuses, Kind: store.KindRoot, Newest: true, Limit: 50,
		})
		for _, t := range rows {
			name := t.Short
			if name == "" || !strings.HasPrefix(name, typed) {
				name = t.ID
			}
			if !strings.HasPrefix(name, typed) && !strings.HasPrefix(name, strings.ToUpper(typed)) {
				continue
			}
			title, err := w.view().Title(ctx, t)
			if err != nil {
				title = t.Flow
			}
			out = append(out, name+"\t"+text.FirstLine(string(t.Status)+", "+text.Ago(t.UpdatedAt, time.Now())+": "+title, 60))
		}
		return out
	})
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
	out, _ := a.completeFirst(keepOrder, func(ctx context.Context, w *workplace, typed string) (out []string) {
		flows, _ := w.control.Flows(ctx, w.dir)
		for _, f := range flows {
			if strings.HasPrefix(f.Name, typed) {
				out = append(out, f.Name+"\t"+text.FirstLine(f.Description, 60))
			}
		}
		return out
	})(cmd, nil, typed)
	return out, cobra.ShellCompDirectiveDefault
}

// completeRegistry completes names in the registry.
func (a *app) completeRegistry(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.completeFirst(cobra.ShellCompDirectiveNoFileComp,
		func(ctx context.Context, w *workplace, _ string) (out []string) {
			flows, _ := w.store.Flows(ctx)
			for _, f := range flows {
				out = append(out, f.Name+"\tin the registry")
			}
			return out
		})(cmd, args, typed)
}

// completeAgents completes configured agents.
func (a *app) completeAgents(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.completeFirst(cobra.ShellCompDirectiveNoFileComp,
		func(_ context.Context, w *workplace, _ string) []string { return w.control.Agents() })(cmd, nil, typed)
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
func (a *app) completeRoles(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.completeFirst(cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace,
		func(ctx context.Context, w *workplace, _ string) (out []string) {
			var d flow.Definition
			if len(args) == 0 {
				return nil
			}
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil || !unmarshal(found.Bundle.Flows[found.Bundle.Name], &d) {
				return nil
			}
			for _, role := range slices.Sorted(maps.Keys(d.Roles)) {
				out = append(out, role+".agent=\t"+text.FirstLine(d.Roles[role].Description, 60))
			}
			return out
		})(cmd, nil, typed)
}

// loaded says how each shell loads its completions.
var loaded = map[string]string{
	"bash": "source <(plait completion bash)", "zsh": "source <(plait completion zsh)",
	"fish":       "plait completion fish | source",
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
