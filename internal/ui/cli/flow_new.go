package cli

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// starts are the flows that plait flow new writes: draft.yaml, and those of --from.
//
//go:embed flows/*.yaml
var starts embed.FS

// startNames returns what --from takes.
func startNames() (names []string) {
	files, _ := fs.Glob(starts, "flows/*.yaml")
	for _, file := range files {
		if name := parse.FileName(file); name != "draft" {
			names = append(names, name)
		}
	}
	return names
}

func (a *app) flowNewCmd() *cobra.Command {
	from := ""
	cmd := &cobra.Command{
		Use:   "new [NAME] [--from FLOW]",
		Short: "Write a flow with comments, to start from",
		Long: `Write .plait/flows/NAME.yaml: a flow that works as it is, with comments. An existing file is
never overwritten. The first line points editors to the schema of flow files, which is
written to .plait/flow.schema.json.

Without --from it is a small one: a draft that is reviewed until it is good. With --from it is
one of these, and NAME may be left out:

  review              review changes, for people, hooks and CI
  survey              three readers at once, and a writer
  plan                a plan that a person approves before anything is changed
  fix-and-test        one agent works until a command succeeds
  best-of             several agents try, a judge chooses, the other tries stay on branches
  adversarial-review  one agent writes, another tries to break it
  migrate             a planner divides a large change, agents do the parts in parallel`,
		Example: `  plait flow new review
  plait run review -p "Review the last commit"
  plait flow new --from best-of`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, name, err := startOf(from, args)
			if err != nil {
				return err
			}
			w, err := a.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			if found := text.Nearest(name, parse.BuiltIns()); found == name {
				return usagef("%s is a built-in flow: choose another name", name)
			}
			file, err := createFlow(w.workspace, name, strings.ReplaceAll(start, "NAME", name))
			if errors.Is(err, fs.ErrExist) {
				return view.Advise(usagef("%s already exists", text.Safe(file)), "choose another name, or edit that file")
			}
			if err != nil {
				return err
			}
			schema, err := writeFlowSchema(w.workspace)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"name": name, "file": file, "schema": schema}, func(out page) {
				out.line("%s", text.Safe(file))
				fmt.Fprintf(a.err, a.says("run it with: plait run %s -p \"…\"\n"), name)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "start from `FLOW`: "+strings.Join(startNames(), ", "))
	completeFlag(cmd, "from", startNames()...)
	return cmd
}

// startOf returns the text of the flow to start from, and the name of the new one.
func startOf(from string, args []string) (start, name string, err error) {
	switch {
	case len(args) == 1:
		name = args[0]
	case from == "":
		return "", "", usagef("give one name, or --from %s", strings.Join(startNames(), "|"))
	default:
		name = from
	}
	if !registryName(name) {
		return "", "", usagef("invalid name %q: use letters, digits, dots, hyphens and underscores", text.Safe(name))
	}
	if from != "" && !slices.Contains(startNames(), from) {
		return "", "", usagef("no flow to start from is called %q: use %s", text.Safe(from), strings.Join(startNames(), ", "))
	}
	data, err := starts.ReadFile("flows/" + cmp.Or(from, "draft") + ".yaml")
	return string(data), name, err
}

// createFlow writes a new flow of a workspace, and returns its file.
func createFlow(workspace, name, yaml string) (file string, err error) {
	file = filepath.Join(workspace, ".plait", "flows", name+".yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return file, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return file, err
	}
	_, err = io.WriteString(f, yaml)
	return file, errors.Join(err, f.Close())
}
