package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
)

func unmarshal(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

// Completions are best effort: where something cannot be read there are none.

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
			Workspace: w.workspace, Statuses: statuses, Newest: true, Limit: 50,
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
			out = append(out, name+"\t"+oneLine(t.Flow+", "+string(t.Status)+", "+ago(t.UpdatedAt), 60))
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func background(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// completeFlows completes names in the registry and the project, and files.
func (a *app) completeFlows(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, _ := a.completeRegistry(cmd, args, typed)
	if dir, err := os.Getwd(); err == nil {
		for _, flows := range []string{".plait/flows", ".workflows"} {
			names, _ := filepath.Glob(filepath.Join(dir, flows, "*.yaml"))
			for _, n := range names {
				out = append(out, strings.TrimSuffix(filepath.Base(n), ".yaml"))
			}
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
