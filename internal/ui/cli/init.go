package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
)

const newConfig = `# Plait's configuration for this project. Flags and PLAIT_AGENT win over it.
#
# default: tests                 # agent of roles that name none
# agents:
#   tests: {kind: command, command: [go, test, ./...], exit: {0: passed, 1: failed}}
# limits: {maxRounds: 40, timeout: 2h, maxTokens: 2000000}
`

func (a *app) initCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Create .plait in a project, for configuration and flows",
		Long: `Create .plait in a directory (the current one by default), with config.yaml and a place for
flows. Existing files are never overwritten.`,
		Example: `  plait init
  plait init ~/src/shop`,
		Args: atMost(1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			workspace, err := config.Workspace(dir)
			if err != nil {
				return badUsage{err}
			}
			home, err := a.findHome()
			if err != nil {
				return err
			}
			created, err := config.Init(workspace, home)
			if err != nil {
				return badUsage{err}
			}
			if err := os.MkdirAll(filepath.Join(workspace, ".plait", "flows"), 0o755); err != nil {
				return err
			}
			file := config.ProjectFile(workspace)
			if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
				if err := os.WriteFile(file, []byte(newConfig), 0o644); err != nil {
					return err
				}
			}
			if _, err := writeFlowSchema(workspace); err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"workspace": workspace, "created": created}, func(out page) {
				out.line("%s is a workspace; flows go into %s", workspace, filepath.Join(".plait", "flows"))
			})
		},
	}
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  plait version", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := map[string]any{"version": a.program.version(), "built": a.program.built(), "go": runtime.Version(),
				"os": runtime.GOOS, "arch": runtime.GOARCH}
			return a.print(cmd, v, func(out page) {
				out.line("%s %s %s/%s %s, %s", a.program.Name, v["version"], v["os"], v["arch"], v["go"], v["built"])
			})
		},
	}
}

// version returns the name of the release, or the module's version, or the revision that it was built from.
func (p Program) version() string {
	if p.Release != "" {
		return p.Release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// built says who built the program: a release, go install from a version of the module, or someone from its source.
func (p Program) built() string {
	switch info, ok := debug.ReadBuildInfo(); {
	case p.Release != "":
		return "a release"
	case ok && info.Main.Sum != "": // of the module as downloaded
		return "by go install"
	}
	return "from source"
}
