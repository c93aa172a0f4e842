package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/attest"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A committed is what task commit prints.
type committed struct {
	Task   string   `json:"task"`
	Branch string   `json:"branch"`
	Commit string   `json:"commit"` // that has the change, "" if the branch had it without one of its own
	New    bool     `json:"new"`
	Files  []string `json:"files"` // that a new commit changes
}

// An agreement asks the person about files from which programs or instructions are taken.
type agreement func(files []string) error

func (a *app) taskCommitCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "commit [TASK]",
		Short: "Commit what a task changed, to a branch of its own",
		Long: `Commit what a task changed to the branch plait/ID-TITLE, in your name, and signed if you sign commits. The
message is the title and the result of the task, with the trailers Plait-Task, Plait-Step and
Assisted-by. The branch begins at the commit that was checked out when the task began.

Your files, your index and the branch that you are on stay as they are, and hooks do not run. Changes
that you had not committed are left out; if the task changed the same lines, nothing is committed. A
task that was continued adds a commit to the same branch.

A change to files from which programs or instructions are taken, such as .github/ or AGENTS.md, is asked
about; without a terminal, --yes is required.`,
		Example: `  plait task commit
  git log plait/k7f2-fix-the-failing-test`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: readTask(a, func(ctx context.Context, w *workplace, row store.Thread) (committed, error) {
			p, err := w.publisher(ctx, row)
			if err != nil {
				return committed{}, err
			}
			done, _, err := a.commitTask(ctx, w, p, row, a.agreement(yes))
			return done, err
		}, func(out page, v committed) { out.line("%s", v.says()) }),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "commit protected files without asking")
	return cmd
}

// says tells what was done.
func (v committed) says() string {
	if v.New {
		return fmt.Sprintf("%s  %.12s  %s", v.Branch, v.Commit, text.Count(len(v.Files), "file"))
	}
	return v.Branch + " has the change already"
}

// agreement returns how the person is asked: on a terminal, or before, with --yes.
func (a *app) agreement(yes bool) agreement {
	return func(files []string) error {
		named := text.Safe(strings.Join(files, ", "))
		switch {
		case yes:
		case a.json || !isTerminal(a.in):
			return view.Advise(usagef("nothing was committed: programs or instructions are taken from %s", named),
				"look at the change with `plait open`, then allow it with --yes")
		case !a.ask("Programs or instructions are taken from " + named + ". Commit the change?"):
			return usagef("nothing was committed")
		}
		return nil
	}
}

// commitTask commits what a task changed, unless its branch has it. It returns the change with the branch as it is
// then.
func (a *app) commitTask(ctx context.Context, w *workplace, p *forge.Publisher, row store.Thread, agree agreement) (
	done committed, c forge.Change, err error) {
	if row.Status == store.Running {
		return done, c, usagef("%s is running: wait until it has ended, or waits for you", w.view().Names().Of(ctx, row))
	}
	c, err = p.Change(ctx, row)
	if errors.Is(err, forge.ErrNoChange) {
		return done, c, badUsage{fmt.Errorf("commit %s: %w", w.view().Names().Of(ctx, row), err)}
	}
	if err != nil {
		return done, c, err
	}
	done = committed{Task: row.ID, Branch: c.Branch, Commit: c.Has, Files: []string{}}
	if c.Has != "" {
		return done, c, nil
	}
	t, err := p.Try(ctx, c)
	if err != nil {
		return done, c, err
	}
	if len(t.Conflicts) > 0 {
		return done, c, view.Advise(fmt.Errorf("nothing was committed: %s changed on both sides: %w",
			text.Safe(strings.Join(t.Conflicts, ", ")), store.ErrConflict),
			"merge by hand: the task's files are the git tree %s, and it began with %s", c.After, c.Before)
	}
	if len(t.Protected) > 0 {
		if err := agree(t.Protected); err != nil {
			return done, c, err
		}
	}
	r, err := p.Report(ctx, c, false)
	if errors.Is(err, attest.ErrRunning) {
		return done, c, badUsage{err}
	}
	if err != nil {
		return done, c, err
	}
	id, err := p.Commit(ctx, c, t, forge.Message(r))
	if err != nil || id == "" {
		return done, c, err
	}
	done.Commit, done.New, done.Files = id, true, t.Files
	again, err := p.Change(ctx, row)
	return done, again, err
}
