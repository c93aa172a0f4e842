package engine

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// treeFailure is the failure of an attempt whose working tree cannot be used: an
// agent can do that to it.
func treeFailure(ctx context.Context, err error) *agent.Failure {
	if ctx.Err() != nil {
		return &agent.Failure{Kind: agent.Cancelled, Message: NotBegun}
	}
	return &agent.Failure{Kind: agent.Infra, Message: err.Error(), Final: true}
}

// TreeBefore names the snapshot of the working tree before a thread's n-th attempt.
func TreeBefore(n int) string { return fmt.Sprintf("attempt-%d", n) }

// snapshot returns the working tree as it is, when role may change it.
func (e *Engine) snapshot(ctx context.Context, row store.Thread, role flow.Role, name string) (string, error) {
	if e.cfg.Snapshot == nil || !role.Access.Writes() {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	return e.cfg.Snapshot(ctx, row, name)
}

// snapshotTime bounds a snapshot: an agent can leave things that git waits for.
const snapshotTime = time.Minute

// request is what the agent is asked. total tells that the time it has is what
// is left of the thread's.
func (e *Engine) request(c *cursor, p *prepared, desk agent.Desk) (req agent.Request, total bool, err error) {
	timeout := time.Duration(p.role.Timeout)
	if left := c.account.left(e.now()); left > 0 && (timeout == 0 || left < timeout) {
		timeout, total = left, true
	}
	dir, err := Inside(cmp.Or(c.row.Tree, c.row.Workspace), p.run.Location)
	if err != nil {
		return req, false, err
	}
	env := []string{
		"PLAIT_TASK=" + c.row.Task, "PLAIT_THREAD=" + c.row.ID, "PLAIT_ROLE=" + p.row.Role, "PLAIT_ATTEMPT=" + p.row.ID,
		"PLAIT_PARENT_STATE=" + c.parentState(), "PLAIT_ARTIFACTS=" + desk.Artifacts, "PLAIT_CONTEXT=" + desk.Context, "PLAIT_BIN=" + e.cfg.Bin,
	}
	req = agent.Request{
		Task: c.row.Task, Thread: c.row.ID, Role: p.row.Role, Instance: p.row.Instance, Attempt: p.row.ID,
		Visit: c.visits[p.row.Role], Try: p.try,
		Prompt: p.prompt.Text, Dir: dir, Access: agent.Access(p.role.Access),
		Schema: p.role.Frontmatter, Session: p.session, From: p.from, Shaped: p.shaped, Home: e.cfg.Home(c.row.Task),
		Desk: desk, Tag: p.row.Tag, Timeout: timeout, Idle: p.worker.Idle, Env: env,
	}
	if c.terms.Policy != ApproveNever && !p.summary { // a summary needs no permission
		p.asks = &asker{e: e, row: c.row, a: p.row, terms: c.terms, slot: p.slot, running: map[string]bool{}}
		req.Ask = p.asks.ask
	}
	return req, total, nil
}

// Inside returns a directory inside a working tree. Agents can make links there:
// one that leads out is refused.
func Inside(tree, location string) (string, error) {
	dir := filepath.Join(tree, filepath.FromSlash(location))
	if location == "" {
		return dir, nil
	}
	root, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return dir, nil // whoever works there will say what is missing
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, nil
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("location %q leads out of the working tree", location)
	}
	return dir, nil
}
