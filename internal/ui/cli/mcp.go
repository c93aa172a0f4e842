package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/ui/mcp"
)

func (a *app) mcpCmd() *cobra.Command {
	var dir, offline string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let Claude Code, Codex or another MCP client start tasks and follow them",
		Long: `Serve the Model Context Protocol on stdin and stdout, so that a client such as Claude Code can
start tasks in this workspace, follow them, answer their questions and read their results.

Tasks started this way are ordinary tasks: plait ls and plait ui show them. A client cannot
approve actions, start a project's flow that you have not run or added yourself, or read tasks
that it did not start. By default it asks you before it answers a question; your own
configuration can let it answer by itself.`,
		Example: `  claude mcp add plait -- plait mcp
  codex mcp add plait -- plait mcp`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			scripted, err := offlineFlag(offline)
			if err != nil {
				return err
			}
			w, err := a.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			s := mcp.New(mcp.Config{
				Store: w.store, Control: w.control, Views: w.view(), Dirs: w.dirs(), Workspace: w.workspace,
				Driver: detached{a, w}, Answering: w.settings.MCP.V, Person: gate.Person(), Version: a.program.version(),
				Program: a.named,
				Consent: func(f control.Found) error { return w.agreedBefore(f) },
				Offline: func(flow string) string { return scenario(scripted, flow) },
				Init: func() error {
					_, err := config.Init(w.workspace, w.home)
					return err
				},
			})
			return s.Serve(cmd.Context(), io.NopCloser(a.in), unclosed{a.out})
		},
	}
	cmd.Flags().StringVarP(&dir, "dir", "C", "", "run as if started in this `directory`")
	cmd.MarkFlagDirname("dir")
	addOffline(cmd, &offline, "")
	return cmd
}

// agreedBefore returns why a model may not start a flow: a person has not yet agreed to the project files that
// it and the configuration define agents in. Unlike with plait run, starting it is not consent.
func (w *workplace) agreedBefore(f control.Found) error {
	t, commands, _, err := w.trust(f)
	if err != nil || t.Agreed(both(commands, f.Files)) {
		return err
	}
	return fmt.Errorf("your user has not approved the files of flow %s, or the configuration of the project, "+
		"in their current form: they can add the flow with plait flow add, or run it once with plait run", f.Bundle.Name)
}

// detached drives tasks in separate processes, which outlive this one.
type detached struct {
	a *app
	w *workplace
}

// Drive returns when the other process has taken the task, or has ended.
func (d detached) Drive(ctx context.Context, root store.Thread) error {
	proc, err := d.a.startDetached(root, control.LogFile(d.w.home, root), true)
	if err != nil {
		return err
	}
	return d.w.waitBegun(ctx, root, proc)
}

// unclosed is a writer that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
