package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// detach has a separate process drive a thread, and returns once that has begun. Errors in the person's
// request are found here: the process is only told to continue.
func (a *app) detach(cmd *cobra.Command, w *workplace, row store.Thread, r control.Resume, f driveFlags) error {
	ctx := cmd.Context()
	task, err := w.control.Ask(ctx, row.ID, r)
	var recorded *control.RecordedError
	switch {
	case errors.As(err, &recorded):
		return a.recorded(cmd, row, recorded)
	case err != nil:
		return err
	case task.Ended(): // there is nothing to continue
		return a.ended(cmd, w, task, driven{})
	case control.Team(task):
		return a.leftToTeam(cmd, task)
	}
	log := control.LogFile(w.home, task)
	proc, err := a.startDetached(task, log, f.quiet)
	if err != nil {
		return fmt.Errorf("start a process for task %s: %w; the task exists and can be resumed", task.ID, err)
	}
	if err := w.waitBegun(ctx, task, proc); err != nil {
		return fmt.Errorf("task %s: %w; see %s", task.ID, err, log)
	}
	if now, err := w.store.Thread(ctx, task.ID); err == nil {
		task = now
	}
	res := view.NewStanding(task)
	res.Summary = fmt.Sprintf("it continues in process %d, which writes %s", proc.Process.Pid, log)
	name := cmp.Or(task.Short, task.ID)
	return a.print(cmd, res, func(out page) {
		out.line("%s", name)
		a.aside("follow it with: plait logs " + name + " --follow; end it with: plait cancel " + name)
	})
}

// leftToTeam says that workers continue a task.
func (a *app) leftToTeam(cmd *cobra.Command, task store.Thread) error {
	res := view.NewStanding(task)
	res.Summary = "the team's workers continue it"
	name := cmp.Or(task.Short, task.ID)
	return a.print(cmd, res, func(out page) {
		out.line("%s", name)
		a.aside(res.Summary + "; follow it with: plait task watch " + name)
	})
}

// startDetached starts a process that resumes a task: in its own session, so that no terminal ends it, and
// without input.
func (a *app) startDetached(task store.Thread, log string, quiet bool) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	home, err := a.findHome()
	if err != nil {
		return nil, err
	}
	args := []string{a.program.Name, "resume", task.ID, "--wait", "--home", home}
	if quiet {
		args = append(args, "--quiet")
	}
	if a.unsafe {
		args = append(args, "--unsafe-agents")
	}
	proc := &exec.Cmd{Path: self, Args: args, Dir: task.Workspace, Stdout: out, Stderr: out,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	return proc, proc.Start()
}

// waitBegun returns when a detached process drives its task, or has driven it as far as it goes.
func (w *workplace) waitBegun(ctx context.Context, task store.Thread, proc *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- proc.Wait() }()
	for {
		select {
		case err := <-ended:
			row, readErr := w.store.Thread(ctx, task.ID)
			if readErr != nil || row.Head != task.Head || row.UpdatedAt != task.UpdatedAt {
				return readErr // the process has driven it as far as it goes
			}
			return fmt.Errorf("its process ended at once: %w", cmp.Or(err, errors.New("no error was reported")))
		case <-ctx.Done():
			return nil // it continues
		case <-time.After(10 * time.Millisecond):
		}
		if _, held, err := w.store.Holder(ctx, task.Root); err != nil || held {
			return err
		}
	}
}
