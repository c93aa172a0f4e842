package bisect

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// Exit codes that mean more than bad, as for git bisect run.
const (
	skipped     = 125
	notRunnable = 126
	notFound    = 127
)

// maxOutput is how many bytes of a command's output are kept: the last ones.
const maxOutput = 4 << 10

// A Bench tries files with a command, in the sandbox in which agents run.
type Bench struct {
	Host      *sandbox.Host
	Control   *control.Controller
	Workspace string // whose repository is used
	Command   []string
}

// Try runs the command on the files of a state. Exit code 0 is good, 125 skips, and any other up to 127 is bad. Another
// exit code and a signal are errors: the command is broken.
func (b *Bench) Try(ctx context.Context, row store.Thread, s State) (t Trial, err error) {
	err = b.Control.Trial(ctx, b.Workspace, row, s.Tree, s.Hash, func(dir string) error {
		t, err = b.run(ctx, dir)
		return err
	})
	return t, err
}

func (b *Bench) run(ctx context.Context, dir string) (t Trial, err error) {
	scratch, err := os.MkdirTemp("", "plait-bisect-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(scratch)
	req := agent.Request{Dir: dir, Access: agent.Write, Scratch: scratch}
	env, err := sandbox.Caches(req)
	if err != nil {
		return t, err
	}
	// The shell says what cannot be run, with exit code 126 or 127, inside the sandbox and without one.
	path, args := b.Host.For(req, sandbox.Use{Alone: true}).Around(dir, "/bin/sh",
		slices.Concat([]string{"-c", `exec "$@"`, "sh"}, b.Command))
	var said tail
	res, err := proc.Run(ctx, proc.Config{Path: path, Args: args, Dir: dir, Env: proc.Environ(nil, env, nil, ""),
		Stdout: &said, Stderr: &said})
	switch {
	case err != nil:
		return t, err
	case ctx.Err() != nil:
		return t, context.Cause(ctx)
	case res.Reason != "":
		return t, fmt.Errorf("the command was stopped: %s", res.Reason)
	case res.Signal != 0 || res.Exit > notFound:
		return t, fmt.Errorf("the command ended with a signal or exit code %d, which says nothing about the files: %s",
			res.Exit, said.text())
	}
	t = Trial{Verdict: Bad, Exit: res.Exit, Output: said.text()}
	switch res.Exit {
	case 0:
		t.Verdict = Good
	case skipped:
		t.Verdict = Skip
	}
	return t, nil
}

// A tail keeps the last bytes that were written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-maxOutput):]
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(strings.ToValidUTF8(string(*t), "\uFFFD")) }
