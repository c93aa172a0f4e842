package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// scaffold is the flow that plait flow new writes.
//
//go:embed scaffold.yaml
var scaffold string

func (a *app) flowNewCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "new NAME",
		Short: "Write a small flow with comments, to start from",
		Long: `Write .plait/flows/NAME.yaml: a flow that works as it is, with comments. An existing file is
never overwritten. The first line points editors to the schema of flow files, which is
written to .plait/flow.schema.json.`,
		Example: `  plait flow new review
  plait run review -p "Review the last commit"`,
		Args: exactly(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if !registryName(name) {
				return usagef("invalid name %q: use letters, digits, dots, hyphens and underscores", text.Safe(name))
			}
			w, err := a.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			if found := text.Nearest(name, parse.BuiltIns()); found == name {
				return usagef("%s is a built-in flow: choose another name", name)
			}
			file := filepath.Join(w.workspace, ".plait", "flows", name+".yaml")
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				return err
			}
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, fs.ErrExist) {
				return view.Advise(usagef("%s already exists", text.Safe(file)), "choose another name, or edit that file")
			}
			if err != nil {
				return err
			}
			_, err = io.WriteString(f, strings.ReplaceAll(scaffold, "NAME", name))
			if err = errors.Join(err, f.Close()); err != nil {
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
}
