package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// byteOrderMark begins texts of some editors, and is no part of them.
const byteOrderMark = "\uFEFF"

// text returns the prompt that a flag specifies.
func (a *app) text(flag string) (string, error) {
	read := func(data []byte, err error) (string, error) {
		if err != nil {
			return "", usagef("read prompt: %w", err)
		}
		data = bytes.TrimPrefix(data, []byte(byteOrderMark))
		if !store.IsText(string(data)) {
			return "", usagef("read prompt: not UTF-8 text, or it has a NUL")
		}
		return string(data), nil
	}
	if flag == "-" {
		return read(io.ReadAll(a.in))
	}
	if file, ok := strings.CutPrefix(flag, "@"); ok {
		return read(os.ReadFile(file))
	}
	return read([]byte(flag), nil)
}

// runFlags are the flags of run.
type runFlags struct {
	driveFlags
	id, dir, tree string
	issue         string
}

func (f *runFlags) add(cmd *cobra.Command, a *app) {
	f.driveFlags.add(cmd, a)
	cmd.Flags().StringVar(&f.id, "id", "", "`ULID` of the new task (default: generated)")
	cmd.Flags().StringVarP(&f.dir, "dir", "C", "", "run as if started in this `directory`")
	cmd.Flags().StringVar(&f.tree, "worktree", "", "`directory` the agents work in, if not the workspace")
	cmd.Flags().StringVar(&f.issue, "issue", "",
		"work on this `issue` of the forge: its number here, or its address; -p adds to it")
	cmd.MarkFlagDirname("dir")
	f.addOn(cmd, a, "default: this process")
}

// options reads the flags, and refuses those that conflict with each other or with this machine.
func (f *runFlags) options(a *app) (control.Options, error) {
	if err := onFlag(f.on, f.needs); err != nil {
		return control.Options{}, err
	}
	if f.on == "" {
		if err := a.noAgents(); err != nil {
			return control.Options{}, err
		}
	}
	o, err := f.driveFlags.options()
	if err == nil {
		f.tree, err = workingTree(f.tree)
	}
	o.On, o.Needs = f.on, f.needs
	return o, err
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [FLOW] -p PROMPT",
		Short: "Run a flow until it finishes or needs you",
		Long: `Run a flow until it finishes or needs you. FLOW is a file or a name: plait flow list shows
the names. Without FLOW a single agent does the work (solo).

Progress is written to stderr, the result to stdout. With --json, stdout has one event a
line, and the result on the last.

Exit codes: 0 done; 1 failed, or out of attempts; 2 usage; 3 not found; 4 needs you;
5 limit reached (124: time limit); 7 conflict; 130 interrupted.`,
		Example: `  plait run -p "Fix the failing test"
  plait run orchestrate -p @task.md --max-agents 4
  plait run examples/audit.yaml -p "Audit this repository"
  plait run --issue 12                    # a GitHub issue of this repository
  plait run -p "Say hello" --offline      # no account, no network: a scripted model`,
		Args:              atMost(1, "one flow"),
		ValidArgsFunction: a.completeFlows,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			opts, err := f.options(a)
			if err != nil {
				return err
			}
			prompt, err := a.text(f.prompt)
			if err == nil && f.issue != "" {
				prompt, args, err = a.issue(ctx, &f, &opts, prompt, args)
			}
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"solo"}
			}
			if args[0] == flow.ChatFlow && prompt == "" && !f.quiet && isTerminal(a.in) && a.redraws(a.err) {
				return a.talk(cmd, f.dir, f.tree, opts)
			}
			if strings.TrimSpace(prompt) == "" {
				return usagef("no prompt: say what to do with `plait run %s -p PROMPT`", text.Safe(args[0]))
			}
			w, err := a.open(ctx, f.dir)
			if err != nil {
				return err
			}
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil {
				return w.noFlow(ctx, args[0], err)
			}
			opts.Offline = scenario(opts.Offline, found.Bundle.Name)
			for _, p := range found.Problems {
				fmt.Fprintln(a.err, "warning: "+text.Safe(p.String()))
			}
			if err := a.notes(ctx, w, found, f, opts); err != nil {
				return err
			}
			if err := a.consent(w, found, f.trust); err != nil {
				return err
			}
			if _, err := config.Init(w.workspace, w.home); err != nil {
				return badUsage{err}
			}
			spec := control.Spec{Bundle: found.Bundle, Prompt: prompt, Workspace: w.workspace, Tree: f.tree, ID: f.id,
				Options: opts}
			if f.on != "" {
				if spec.Upload, err = a.upload(ctx, w, cmp.Or(spec.Tree, spec.Workspace)); err != nil {
					return err
				}
			}
			row, err := w.control.Begin(ctx, spec)
			if err != nil {
				return err
			}
			return a.drive(cmd, w, row, control.Resume{}, f.driveFlags)
		},
	}
	f.add(cmd, a)
	return cmd
}

// notes says what the agents of a task are not given, and if they will work one after the other.
func (a *app) notes(ctx context.Context, w *workplace, found control.Found, f runFlags, o control.Options) error {
	note, err := w.control.InTurn(ctx, found.Bundle, cmp.Or(f.tree, w.workspace))
	if err != nil {
		return badUsage{err}
	}
	if f.quiet || a.json {
		return nil
	}
	if unread := w.unread(found, o); len(unread) > 0 {
		fmt.Fprintf(a.err, "note: the agents of this task are not given %s\n", strings.Join(unread, ", "))
	}
	if note != "" {
		fmt.Fprintln(a.err, "note: "+note)
	}
	return nil
}

// workingTree returns the directory that --worktree names, or "".
func workingTree(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	tree, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(tree)
	switch {
	case err != nil:
		return "", usagef("--worktree %s: %w", text.Safe(dir), err)
	case !info.IsDir():
		return "", usagef("--worktree %s: it is not a directory", text.Safe(dir))
	}
	return tree, nil
}
