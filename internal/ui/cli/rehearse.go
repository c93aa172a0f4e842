package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) flowTestCmd() *cobra.Command {
	var task string
	cmd := &cobra.Command{
		Use:   "test FLOW",
		Short: "Run a flow with recorded answers, and compare the outcome",
		Long: `Run a flow with the answers that its agents and people gave in a recorded task, and compare
the steps and what they say. No agent, model or program is run, and your record and files stay
as they are. The exit code is 6 if the outcome differs.

--record TASK records a task that has ended in .plait/tests/FLOW.json, a file to commit.`,
		Example: `  plait flow test review --record last
  plait flow test review`,
		Args:              exactly(1, "one flow"),
		ValidArgsFunction: a.completeFlows,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.program.Doctor != nil {
				return usagef("test flows with plait: %s keeps no record of its own for it", a.program.Name)
			}
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil {
				return w.noFlow(ctx, args[0], err)
			}
			file := filepath.Join(w.workspace, ".plait", "tests", found.Bundle.Name+".json")
			fixture, err := a.fixture(ctx, w, task, file)
			if err != nil {
				return err
			}
			why, err := a.rehearse(ctx, w, found, fixture)
			if err != nil {
				return err
			}
			if why == "" && task != "" {
				if err := writeFixture(file, fixture); err != nil {
					return err
				}
			}
			if why != "" {
				a.code = exitVerify
			}
			data := map[string]any{"flow": found.Bundle.Name, "same": why == "", "why": why, "file": file,
				"steps": len(fixture.Steps)}
			return a.print(cmd, data, func(out page) {
				switch {
				case why != "" && task != "":
					out.line("not recorded: with these answers alone the outcome is another: %s", text.Safe(why))
				case why != "":
					out.line("another outcome: %s", text.Safe(why))
				case task != "":
					out.line("recorded %s in %s", text.Count(len(fixture.Steps), "step"), text.Safe(file))
				default:
					out.line("ok: %s, as recorded", text.Count(len(fixture.Steps), "step"))
				}
			})
		},
	}
	cmd.Flags().StringVar(&task, "record", "", "record this `task` first")
	cmd.RegisterFlagCompletionFunc("record", a.completeThreads())
	return cmd
}

// fixture returns a task as a fixture, or the one in a file.
func (a *app) fixture(ctx context.Context, w *workplace, task, file string) (f control.Fixture, err error) {
	if task != "" {
		row, err := w.task(ctx, task)
		if err != nil {
			return f, err
		}
		prompt, err := w.view().ThreadPrompt(ctx, row)
		if err != nil {
			return f, err
		}
		return w.control.Fixture(ctx, row, prompt)
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return f, usagef("there is no %s: record a task with --record TASK", text.Safe(file))
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return f, usagef("read %s: %w", text.Safe(file), err)
	}
	return f, nil
}

func writeFixture(file string, f control.Fixture) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the recorded task: %w", err)
	}
	return nil
}

// rehearse runs a flow with a record and a workspace of its own.
func (a *app) rehearse(ctx context.Context, w *workplace, found control.Found, f control.Fixture) (
	why string, err error) {
	dir, err := os.MkdirTemp("", "plait-test-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	home, workspace := filepath.Join(dir, "home"), filepath.Join(dir, "workspace")
	for _, name := range []string{home, workspace} {
		if err := os.Mkdir(name, 0o700); err != nil {
			return "", err
		}
	}
	s, err := a.program.Open(ctx, home)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := config.Init(workspace, home); err != nil {
		return "", err
	}
	return control.Rehearse(ctx, control.Config{Store: s, Home: home, Settings: w.settings, Log: a.log}, found.Bundle,
		workspace, f)
}
