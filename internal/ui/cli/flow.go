package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) flowCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "flow", Short: "List, write, check, draw and register flows"})
	cmd.AddCommand(a.flowListCmd(), a.flowNewCmd(), a.flowCheckCmd(), a.flowShowCmd(), a.flowGraphCmd(),
		a.flowTestCmd(), a.flowAddCmd(), a.flowSchemaCmd(),
		a.flowRollbackCmd(), a.flowRmCmd())
	return cmd
}

// disk reads flow files.
type disk struct{}

func (disk) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

func (a *app) flowCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE…",
		Short: "Check flow files and report every problem",
		Long: `Check flow files and report all problems at once, each with its line, column and code. The
exit code is 2 if there are errors; warnings alone give 0. Of several files, those without
errors are named.`,
		Example: `  plait flow check .plait/flows/review.yaml
  plait flow check .plait/flows/*.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("plait flow check takes one or more files")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			problems, valid := []flow.Problem{}, []string{}
			cwd, err := os.Getwd()
			if err != nil {
				return err
			}
			find := func(dir, name string) (string, bool) { return findIn(cwd, dir, name) }
			for _, name := range args {
				file := name
				if found, ok := find(cwd, name); ok {
					file = found
				}
				kept := func(name string) ([]*flow.Definition, error) { return a.keptFlow(cmd.Context(), name) }
				flows, found := parse.LoadAll(disk{}, file, find, kept)
				if len(flows) > 0 {
					if _, err := control.Pack(flows[0], flows[1:]...); err != nil {
						found = append(found, parse.Unpackable(file, err))
					}
					unknown, err := a.unknownAgents(flows[0], file)
					if err != nil {
						return err
					}
					found = append(found, unknown...)
				}
				if !flow.Failed(found) {
					valid = append(valid, name)
				}
				for _, p := range found {
					if !slices.Contains(problems, p) { // two files may call the same one
						problems = append(problems, p)
					}
				}
			}
			failed := flow.Failed(problems)
			if failed {
				a.code = exitUsage
			}
			data := map[string]any{"valid": !failed, "problems": problems}
			return a.print(cmd, data, func(out page) {
				for _, p := range problems {
					warning := ""
					if p.Warning {
						warning = "warning: "
					}
					out.line("%s%s", warning, text.Safe(p.String()))
				}
				for _, name := range valid {
					if len(args) == 1 {
						out.line("ok")
					} else {
						out.line("%s: ok", text.Safe(name))
					}
				}
			})
		},
	}
}

// unknownAgents reports the agents that a flow names and that are not configured.
func (a *app) unknownAgents(def *flow.Definition, file string) ([]flow.Problem, error) {
	workspace, err := config.Workspace(".")
	if err != nil {
		return nil, badUsage{err}
	}
	settings, err := config.Load(config.UserFile(), config.ProjectFile(workspace), a.getenv)
	if err != nil {
		return nil, err
	}
	defined := map[string]flow.Agent{}
	for name, def := range settings.Agents {
		defined[name] = def.V
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parse.CheckAgents(def, file, data, attempt.Agents{Defined: defined}.Names()), nil
}

// findIn looks up a flow's file from dir. If it is below cwd, its name is relative to cwd.
func findIn(cwd, dir, name string) (string, bool) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(cwd, dir)
	}
	file, ok := parse.Find(dir, name, exists)
	if rel, err := filepath.Rel(cwd, file); ok && err == nil && filepath.IsLocal(rel) {
		file = rel
	}
	return file, ok
}

// keptFlow looks in the store for a called flow that has no file. The store is not opened before.
func (a *app) keptFlow(ctx context.Context, name string) ([]*flow.Definition, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, err
	}
	return w.control.Kept(ctx, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// registryName reports whether plait run can look a name up in the registry.
func registryName(name string) bool {
	for i, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && (i == 0 || !strings.ContainsRune("._-", r)) {
			return false
		}
	}
	ext := filepath.Ext(name)
	return len(name) <= 64 && ext != ".yaml" && ext != ".yml"
}

func (a *app) flowAddCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "add FLOW",
		Short: "Add a flow to the registry of this machine",
		Long: `Add a flow, with the flows that it calls, to the registry, so that it can be run by name from
any directory. An earlier flow of the same name moves to the history; see plait flow rollback.`,
		Example: `  plait flow add review.yaml
  plait flow add review.yaml --name strict-review`,
		Args: exactly(1, "one flow"),
		PreRunE: func(*cobra.Command, []string) error {
			if name != "" && !registryName(name) {
				return usagef("invalid value %q for --name: use letters, digits, dots, hyphens and underscores, "+
					"without a file extension", text.Safe(name))
			}
			return nil
		},
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (store.Flow, error) {
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil {
				return store.Flow{}, w.noFlow(ctx, args[0], err)
			}
			return w.control.Register(ctx, cmp.Or(name, found.Bundle.Name), found)
		}, writeNamed),
	}
	cmd.Flags().StringVar(&name, "name", "", "name in the registry (default: the flow's own)")
	return cmd
}

// noFlow says what to do about the error of looking up a flow.
func (w *workplace) noFlow(ctx context.Context, name string, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if near := w.control.Nearest(ctx, w.dir, name); near != "" {
		err = fmt.Errorf("%s; did you mean %s?: %w", notFound(err), text.Safe(near), store.ErrNotFound)
	}
	return view.Advise(err, "list flows with `plait flow list`")
}

// notFound returns the text of err without repeating that something was not found.
func notFound(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+store.ErrNotFound.Error())
}

func (a *app) flowListCmd() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the flows you can run by name", Args: exactly(0, "no arguments"),
		Long: `List the flows you can run by name: those of this project (.plait/flows, .workflows), those in
the registry, and those that come with Plait. If two have the same name, the first is run.`,
		Example: `  plait flow list
  plait flow list --jq '.known[] | select(.source == "project") | .name'`,
		RunE: read(a, func(ctx context.Context, w *workplace, _ []string) (v flowList, err error) {
			if v.Kept, err = w.view().Flows(ctx); err != nil {
				return v, err
			}
			v.Known, err = w.control.Flows(ctx, w.dir)
			return v, err
		}, func(out page, v flowList) {
			t := table{head: []string{"FLOW", "FROM", "DESCRIPTION"}, elastic: []int{2}}
			for _, f := range v.Known {
				t.add(text.Safe(f.Name), f.Source, text.FirstLine(f.Description, 200))
			}
			out.list(t, quiet)
		}),
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print names only")
	return cmd
}

// A flowList is what flow list prints.
type flowList struct {
	Kept  []view.FlowRow      `json:"flows"`
	Known []control.KnownFlow `json:"known"`
}

func (a *app) flowShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show FLOW", Short: "Show a flow's roles, routes and versions", Args: exactly(1, "one flow"),
		Example: `  plait flow show orchestrate
  plait flow show .plait/flows/review.yaml`,
		ValidArgsFunction: a.completeFlows,
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (*view.Flow, error) {
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil {
				return nil, w.noFlow(ctx, args[0], err)
			}
			return w.view().Flow(ctx, args[0], found.Bundle, found.Object.Hash)
		}, writeFlow),
	}
}

// writeNamed prints which version a name in the registry means.
func writeNamed(out page, f store.Flow) { out.line("%s  %s", text.Safe(f.Name), f.Hash.Short()) }

func writeFlow(out page, v *view.Flow) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(v.Flows)), func(n string) bool { return n == v.Name })
	for _, name := range append([]string{v.Name}, names...) {
		var d flow.Definition
		if json.Unmarshal(v.Flows[name], &d) != nil {
			continue
		}
		if name == v.Name {
			out.line("%s  %s", text.Safe(d.Name), v.Hash.Short())
		} else {
			out.line("\n%s, called", text.Safe(d.Name))
		}
		if d.Description != "" {
			out.line("  %s", text.FirstLine(d.Description, 200))
		}
		out.line("\nroles")
		for _, r := range slices.Sorted(maps.Keys(d.Roles)) {
			role := d.Roles[r]
			out.line("  %-16s %-5s  %s", text.Safe(r), role.Access, text.FirstLine(view.DoneBy(role), 80))
		}
		writeForks(out, &d)
		out.line("\nroutes")
		for _, from := range slices.Sorted(maps.Keys(d.Graph)) {
			for _, status := range slices.Sorted(maps.Keys(d.Graph[from])) {
				out.line("  %-16s %-12s → %s", text.Safe(from), text.Safe(status),
					text.Safe(d.Graph[from][status].Role))
			}
		}
	}
	if len(v.History) > 0 {
		out.line("\nearlier versions")
		for _, old := range v.History {
			out.line("  %s  %s", old.Hash.Short(), clock(old.Timestamp))
		}
	}
}

func writeForks(out page, d *flow.Definition) {
	if len(d.Forks) > 0 {
		out.line("\nforks")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Forks)) {
		f := d.Forks[name]
		out.line("  %-16s %s", text.Safe(name), f.Strategy)
		for _, p := range f.Paths {
			out.line("    %-14s → %s", text.Safe(p.ID), text.Safe(p.Child))
		}
		j := d.Joins[f.Join]
		joined := fmt.Sprintf("joined by %s: %s", f.Join, view.JoinNote(j))
		out.line("    %s, main path %s", text.FirstLine(joined, 200), text.Safe(j.Main))
	}
}

func (a *app) flowRollbackCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rollback NAME [HASH]", Short: "Go back to an earlier version of a registered flow",
		Long: `Go back to an earlier version of a registered flow: the previous one, or the one whose hash
begins with HASH. plait flow show lists the versions.`,
		Example: `  plait flow rollback review
  plait flow rollback review 9008c3d1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("plait flow rollback takes a name, and optionally the hash of a version")
			}
			return nil
		},
		ValidArgsFunction: a.completeRegistry,
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (store.Flow, error) {
			return w.control.Rollback(ctx, args[0], strings.Join(args[1:], ""))
		}, writeNamed),
	}
}

func (a *app) flowRmCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a flow from the registry",
		Long:    "Remove a flow from the registry. Tasks that run it are not affected.",
		Example: "  plait flow rm review",
		Args:    exactly(1, "one name"), ValidArgsFunction: a.completeRegistry,
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (map[string]any, error) {
			return map[string]any{"removed": args[0]}, w.control.Unregister(ctx, args[0])
		}, func(out page, v map[string]any) { out.line("removed %s", text.Safe(v["removed"].(string))) }),
	}
}
