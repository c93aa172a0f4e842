package attempt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record"
)

// request returns the agent's request. total reports whether its time limit is what the thread has left, rather
// than the role's.
func (e *Runner) request(c *Thread, p *Prepared, desk agent.Desk) (req agent.Request, total bool, err error) {
	timeout := time.Duration(p.Role.Timeout)
	if left := p.Left; left > 0 && (timeout == 0 || left < timeout) {
		timeout, total = left, true
	}
	dir, err := worktree.Inside(worktree.Of(c.Row), p.location)
	if err != nil {
		return req, false, err
	}
	env := []string{
		"PLAIT_TASK=" + c.Row.Task, "PLAIT_THREAD=" + c.Row.ID, "PLAIT_ROLE=" + p.Row.Role, "PLAIT_ATTEMPT=" + p.Row.ID,
		"PLAIT_PARENT_STATE=" + c.parentState(), "PLAIT_ARTIFACTS=" + desk.Artifacts, "PLAIT_CONTEXT=" + desk.Context,
		"PLAIT_BIN=" + e.cfg.Host.Bin,
	}
	scratch, err := e.scratch(c.Row.Task)
	if err != nil {
		return req, false, err
	}
	req = agent.Request{
		Place: agent.Place{Task: c.Row.Task, Thread: c.Row.ID, Role: p.Row.Role, Attempt: p.Row.ID,
			Visit: c.Visits[p.Row.Role], Try: p.tries.n},
		Prompt: p.Prompt.Text, Dir: dir, Access: agent.Access(p.Role.Access),
		Schema: p.Role.Frontmatter, Session: p.in.Session, From: p.in.From, Shaped: p.shaped,
		Home: e.cfg.Host.home(c.Row.Task), Scratch: scratch, Desk: desk, Tag: p.Row.Tag, Env: env,
		Limits: agent.Limits{Timeout: timeout, Idle: p.worker.Idle},
	}
	if e.cfg.Host.Cell != nil {
		lent, err := e.cfg.Host.Cell.Admit(c.Row.Workspace, worktree.Of(c.Row))
		if err != nil {
			return req, false, err
		}
		top, _, made := worktree.Made(c.Row) // other agents can replace directories in it, but not this one
		if !made {
			top = c.Row.Workspace
		}
		write := []string{top, desk.Artifacts, req.Home, scratch}
		req.Wrap = func(path string, args []string, needs agent.Needs) (string, []string) {
			read := slices.Concat(lent, needs.Read, []string{desk.Context, e.cfg.Host.Bin})
			return e.cfg.Host.Cell.Around(read, write, needs.Own, path, args)
		}
	}
	if c.Options.Approve != record.ApproveNever && !p.summary { // a summary needs no permission
		p.asks = &asker{e: e, row: c.Row, a: p.Row, options: c.Options, slot: p.Slot, running: map[string]bool{}}
		req.Ask = p.asks.ask
	}
	return req, total, nil
}

// parentState returns the caller's head for an agent's environment.
func (c *Thread) parentState() string {
	if c.Caller.IsZero() {
		return ""
	}
	return c.Caller.String()
}

// scratch returns a task's scratch directory for the commands of its agents, with the program plait in its bin;
// "" if there is no place for it.
func (e *Runner) scratch(task string) (string, error) {
	if e.cfg.Host.Scratch == "" || e.cfg.Host.Bin == "" {
		return "", nil
	}
	dir := filepath.Join(e.cfg.Host.Scratch, task)
	e.linking.Lock()
	defer e.linking.Unlock()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = linkTo(e.cfg.Host.Bin, dir)
	}
	if err != nil {
		return "", fmt.Errorf("link to plait: %w", err)
	}
	return dir, nil
}

// linkTo makes bin/plait in dir a link to a program. Agents can write in dir: it follows no link out of it.
func linkTo(program, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	link := filepath.Join("bin", "plait")
	bin, err := root.Lstat("bin")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !bin.IsDir():
		if err := root.Remove("bin"); err != nil {
			return err
		}
	default:
		if now, err := root.Readlink(link); err == nil && now == program {
			return nil
		}
	}
	if err := root.MkdirAll("bin", 0o700); err != nil {
		return err
	}
	if err := root.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Symlink(program, link)
}
