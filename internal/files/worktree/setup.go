package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
)

// setupTime limits the command that prepares a new worktree.
const setupTime = 30 * time.Minute

// maxSetupOutput is how many bytes of that command's output an error includes.
const maxSetupOutput = 2 << 10

// readyFile is the file that marks a worktree as prepared by the command, and has the paths that git ignores of what it
// made, separated by NULs.
func readyFile(top string) string { return top + ".ready" }

// setupTag marks the processes of that command.
func setupTag(row store.Thread) string { return "setup-" + row.ID }

// EndSetup ends what a crash left running of that command, which would go on changing the thread's worktree.
func (t *Trees) EndSetup(ctx context.Context, row store.Thread) error {
	if len(t.cfg.Setup) == 0 || row.Ended() || !Own(row) {
		return nil
	}
	if _, err := os.Lstat(readyFile(root(row))); err == nil {
		return nil
	}
	if _, err := proc.Sweep(ctx, setupTag(row)); err != nil {
		return fmt.Errorf("worktree.setup for thread %s: %w", row.ID, err)
	}
	return nil
}

// setUp runs the configured command, once, in a worktree that was made for a thread.
func (t *Trees) setUp(ctx context.Context, row store.Thread, top string) error {
	argv := t.cfg.Setup
	if len(argv) == 0 {
		return nil
	}
	done := readyFile(top)
	if _, err := os.Lstat(done); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	said, tag := &lastBytes{}, setupTag(row)
	out := t.cfg.Secrets.Writer(said)
	path, args := argv[0], argv[1:]
	cell, err := t.cfg.Cell.Enter(nil)
	if err != nil {
		return fmt.Errorf("worktree.setup for thread %s: %w", row.ID, err)
	}
	defer cell.Leave() // what cannot be killed is not the task's concern
	if cell != nil {
		read, err := cell.Admit(row.Workspace, row.Tree)
		if err != nil {
			return fmt.Errorf("worktree.setup for thread %s: %w", row.ID, err)
		}
		path, args = cell.Around(proc.Given{Read: read, Write: []string{top}}, path, args)
	}
	res, err := proc.Run(ctx, proc.Config{
		Path: path, Args: args, Dir: row.Tree, Tag: tag, Wall: setupTime,
		Env:    proc.Environ(nil, nil, append(cell.Variables(), "PLAIT_TASK="+row.Task, "PLAIT_THREAD="+row.ID), tag),
		Stdout: out, Stderr: out,
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && res.Reason != "":
		err = fmt.Errorf("it was stopped: %s", res.Reason)
	case err == nil && res.Exit != 0:
		err = fmt.Errorf("exit %d", res.Exit)
	}
	if spent := cell.Spent(); err != nil && spent != "" {
		err = fmt.Errorf("%s: %w", spent, err)
	}
	if err != nil {
		out.Flush() // never fails
		return fmt.Errorf("worktree.setup (%s) for thread %s: %w\n%s", text.Command(argv), row.ID, err,
			strings.TrimSpace(said.String()))
	}
	paths, err := made(ctx, row, top)
	if err != nil {
		return fmt.Errorf("worktree.setup for thread %s: %w", row.ID, err)
	}
	return os.WriteFile(done, []byte(strings.Join(paths, "\x00")), 0o644)
}

// lastBytes keeps the last maxSetupOutput bytes of what is written to it.
type lastBytes struct{ buf bytes.Buffer }

func (l *lastBytes) Write(p []byte) (int, error) {
	n := len(p)
	if n > maxSetupOutput {
		p = p[n-maxSetupOutput:]
	}
	if over := l.buf.Len() + len(p) - maxSetupOutput; over > 0 {
		l.buf.Next(over)
	}
	l.buf.Write(p)
	return n, nil
}

func (l *lastBytes) String() string { return strings.ToValidUTF8(l.buf.String(), "\uFFFD") }
