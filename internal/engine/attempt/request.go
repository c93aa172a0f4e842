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
	"github.com/plait-run/plait/internal/sys/proc"
)

// request returns the agent's request. total reports whether its time limit is what the thread has left, rather
// than the role's.
func (r *run) request(desk agent.Desk) (req agent.Request, total bool, err error) {
	timeout := time.Duration(r.p.Role.Timeout)
	if left := r.means.Left; left > 0 && (timeout == 0 || left < timeout) {
		timeout, total = left, true
	}
	dir, err := worktree.Inside(worktree.Of(r.c.Row), r.p.location)
	if err != nil {
		return req, false, err
	}
	env := []string{
		"PLAIT_TASK=" + r.c.Row.Task, "PLAIT_THREAD=" + r.c.Row.ID, "PLAIT_ROLE=" + r.row.Role, "PLAIT_ATTEMPT=" + r.row.ID,
		"PLAIT_PARENT_STATE=" + r.c.parentState(), "PLAIT_ARTIFACTS=" + desk.Artifacts, "PLAIT_CONTEXT=" + desk.Context,
		"PLAIT_BIN=" + r.e.cfg.Host.Bin,
	}
	scratch, err := r.e.scratch(r.c.Row.Task)
	if err != nil {
		return req, false, err
	}
	req = agent.Request{
		Place: agent.Place{Task: r.c.Row.Task, Thread: r.c.Row.ID, Role: r.row.Role, Attempt: r.row.ID,
			Visit: r.c.Visits[r.row.Role], Try: r.p.tries.n},
		Prompt: r.p.Prompt.Text, Dir: dir, Access: agent.Access(r.p.Role.Access),
		Schema: r.p.Role.Frontmatter, Session: r.p.in.Session, From: r.p.in.From, Shaped: r.p.shaped,
		Home: r.e.cfg.Host.home(r.c.Row.Task), Scratch: scratch, Desk: desk, Tag: r.row.Tag, Env: env,
		Limits: agent.Limits{Timeout: timeout, Idle: r.p.worker.Idle},
	}
	if r.e.cfg.Host.Cell != nil {
		lent, err := r.e.cfg.Host.Cell.Admit(r.c.Row.Workspace, worktree.Of(r.c.Row))
		if err != nil {
			return req, false, err
		}
		top, _, made := worktree.Made(r.c.Row) // other agents can replace directories in it, but not this one
		if !made {
			top = r.c.Row.Workspace
		}
		if r.cell, err = r.e.cfg.Host.Cell.Enter(r.p.worker.Private); err != nil {
			return req, false, err
		}
		req.Env = append(req.Env, r.cell.Variables()...)
		req.OwnNetwork = true
		write := []string{top, desk.Artifacts, req.Home, scratch}
		req.Wrap = func(path string, args []string, needs agent.Needs) (string, []string) {
			read := slices.Concat(lent, needs.Read, []string{desk.Context, r.e.cfg.Host.Bin})
			given := proc.Given{Read: read, Write: write, Own: needs.Own, Gateway: needs.Gateway}
			return r.cell.Around(given, path, args)
		}
	}
	if r.c.Options.Approve != record.ApproveNever && !r.p.summary { // a summary needs no permission
		r.asks = &gatekeeper{e: r.e, row: r.c.Row, a: r.row, options: r.c.Options, slot: r.means.Slot,
			running: map[string]bool{}}
		req.Ask = r.asks.ask
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
