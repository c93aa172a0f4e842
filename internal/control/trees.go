package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/git"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A thread has one working tree, and one agent at a time writes in it. A path
// that writes has a git worktree of its own where there is git, made of its
// parent's tree as of the fork; so has a fork by hand, of the tree that its step
// left. Else they work in their parent's.

// worktree returns where the worktree of a thread lies that belongs to tree: the
// same directory inside it that tree is of its repository. Not ok: there is no
// git there.
func worktree(ctx context.Context, row store.Thread, tree string) (dir string, ok bool) {
	repo, err := git.Open(ctx, tree)
	if err != nil {
		return "", false
	}
	inside, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(repo.Root(), inside)
	if err != nil || !filepath.IsLocal(rel) && rel != "." {
		return "", false
	}
	return filepath.Join(worktreeRoot(row), rel), true
}

// worktreeRoot is the top of a thread's worktree, if it has one.
func worktreeRoot(row store.Thread) string {
	return filepath.Join(row.Workspace, ".plait", "worktrees", row.ID)
}

// madeTree returns the top of the worktree that a thread works in, and the thread
// that it was made for. Not ok: it works where the person does.
func madeTree(row store.Thread) (top, of string, ok bool) {
	rel, err := filepath.Rel(filepath.Join(row.Workspace, ".plait", "worktrees"), row.Tree)
	if row.Tree == "" || err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", "", false
	}
	of, _, _ = strings.Cut(rel, string(filepath.Separator))
	return filepath.Join(row.Workspace, ".plait", "worktrees", of), of, true
}

// ownTree tells whether a thread works in a worktree that was made for it.
func ownTree(row store.Thread) bool {
	_, of, ok := madeTree(row)
	return ok && of == row.ID
}

// pathTree says where a path of the drive's task will work.
func (d *drive) pathTree(ctx context.Context, parent, row store.Thread) (string, error) {
	def, err := d.engine.Definition(ctx, row)
	if err != nil {
		return "", err
	}
	return d.treeOfPath(ctx, def, parent, row)
}

// treeOfPath says where a path of a flow will work.
func (c *Controller) treeOfPath(ctx context.Context, def *flow.Definition, parent, row store.Thread) (string, error) {
	bundle, err := c.reader.Bundle(ctx, row.Bundle)
	if err != nil {
		return "", err
	}
	seen := map[string]bool{}
	roles := def.Inside(row.Path.ID)
	if id := def.Acts(); id != "" {
		roles = []string{id}
	}
	if !writes(def, roles, bundle, seen) {
		return parent.Tree, nil
	}
	if top, _, ok := madeTree(parent); ok { // an agent has worked there: nothing in it is asked
		rel, err := filepath.Rel(top, parent.Tree)
		return filepath.Join(worktreeRoot(row), rel), err
	}
	if dir, ok := worktree(ctx, row, treeOf(parent)); ok {
		return dir, nil
	}
	return parent.Tree, nil
}

// writes tells whether one of the roles, or of a flow that they call, writes.
func writes(def *flow.Definition, roles []string, bundle *thread.Bundle, seen map[string]bool) bool {
	for _, name := range roles {
		role := def.Roles[name]
		if role.Flow == "" {
			if role.Access.Writes() {
				return true
			}
			continue
		}
		called := new(flow.Definition)
		if seen[role.Flow] || json.Unmarshal(bundle.Flows[role.Flow], called) != nil {
			continue
		}
		seen[role.Flow] = true
		var all []string
		for name := range called.Roles {
			all = append(all, name)
		}
		if writes(called, all, bundle, seen) {
			return true
		}
	}
	return false
}

// settleTree makes the worktree of a thread that has one, unless it is there.
func (d *drive) settleTree(ctx context.Context, row store.Thread) error {
	if !ownTree(row) {
		return nil
	}
	root := worktreeRoot(row)
	fail := func(err error) error { return fmt.Errorf("make the working tree of thread %s: %w", row.ID, err) }
	if _, err := os.Lstat(root); errors.Is(err, os.ErrNotExist) {
		repo, tree, err := d.baseTree(ctx, row)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(root), 0o755)
		}
		if err == nil {
			err = repo.Checkout(ctx, root, tree)
		}
		if err != nil {
			return fail(err)
		}
	}
	if err := os.MkdirAll(row.Tree, 0o755); err != nil { // git keeps no empty directory
		return fail(err)
	}
	return d.setUp(ctx, row)
}

// baseTree returns the tree that a thread's worktree begins with: what its own
// steps left; else of a path its parent's, as it was when the first path of the
// fork began, and of a fork by hand what the steps before it left.
func (d *drive) baseTree(ctx context.Context, row store.Thread) (*git.Repo, string, error) {
	own := dag.Hash{} // how far back the steps are its own
	if row.Parent != nil {
		own = row.Parent.From
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, "", err
	}
	tree, err := d.leftTree(ctx, row.Head, own)
	if err != nil || tree != "" {
		return repo, tree, err
	}
	if row.Parent == nil {
		if tree, err = d.originTree(ctx, repo, row); err == nil && tree == "" {
			err = errors.New("no step before the fork says how its files were")
		}
		return repo, tree, err
	}
	parent, err := d.cfg.Store.Thread(ctx, row.Parent.Thread)
	if err != nil {
		return nil, "", err
	}
	d.trees.Lock() // of several paths that begin at once, the first takes the snapshot
	defer d.trees.Unlock()
	asOf := forkTree(row)
	if tree, err := d.forkedTree(ctx, repo, parent, asOf); err != nil || tree != "" {
		return repo, tree, err
	}
	work, err := repository(ctx, parent)
	if err != nil {
		return nil, "", err
	}
	tree, err = work.Snapshot(ctx, treeRef(parent.ID, asOf))
	return repo, tree, err
}

// forkedTree returns the snapshot of a thread's files as of one of its forks, "" for none:
// its own, or that of the thread from which it adopted what that had of the fork.
func (c *Controller) forkedTree(ctx context.Context, repo *git.Repo, row store.Thread, asOf string) (string, error) {
	for {
		if tree, err := keptTree(ctx, repo, row.ID, asOf); err != nil || tree != "" || row.ForkedFrom == nil {
			return tree, err
		}
		from, err := c.cfg.Store.Thread(ctx, row.ForkedFrom.Thread)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		row = from
	}
}

// originTree returns the tree that a path began with of which row is a fork by hand, at a
// step before any that says how its files were; "" when that is not known.
func (c *Controller) originTree(ctx context.Context, repo *git.Repo, row store.Thread) (string, error) {
	for row.Parent == nil {
		if row.ForkedFrom == nil || !ownTree(row) {
			return "", nil
		}
		from, err := c.cfg.Store.Thread(ctx, row.ForkedFrom.Thread)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		row = from
	}
	parent, err := c.cfg.Store.Thread(ctx, row.Parent.Thread)
	if err != nil {
		return "", err
	}
	return c.forkedTree(ctx, repo, parent, forkTree(row))
}

// forkTree names the snapshot of a thread's files as of the fork that a path left at.
func forkTree(path store.Thread) string { return "fork-" + path.Parent.From.Short() }

// keptTree returns the tree that is kept under a name of a thread's, "" for none.
func keptTree(ctx context.Context, repo *git.Repo, thread, name string) (string, error) {
	return keptAt(ctx, repo, treeRef(thread, name))
}

// keptAt returns the tree that is kept under a ref, "" for none.
func keptAt(ctx context.Context, repo *git.Repo, ref string) (string, error) {
	kept, err := repo.Refs(ctx, path.Dir(ref)+"/")
	if err != nil {
		return "", err
	}
	for _, k := range kept {
		if k.Name == ref {
			return k.Tree, nil
		}
	}
	return "", nil
}

// leftTree returns the tree that the newest step from head back to until left, or what it
// called, which works in the same tree; "" when no step says.
func (c *Controller) leftTree(ctx context.Context, head, until dag.Hash) (string, error) {
	for s, err := range c.reader.Walk(ctx, head) {
		if err != nil {
			return "", err
		}
		if s.Hash == until {
			break
		}
		d, err := c.reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return "", err
		}
		if d != nil && d.TreeAfter != nil {
			return *d.TreeAfter, nil
		}
		if s.State.ChildThread.IsZero() {
			continue
		}
		if tree, err := c.leftTree(ctx, s.State.ChildThread, dag.Hash{}); err != nil || tree != "" {
			return tree, err
		}
	}
	return "", nil
}

// repository opens the working tree of a thread. One that was made is found from
// the workspace's repository: an agent has worked in it.
func repository(ctx context.Context, row store.Thread) (*git.Repo, error) {
	top, _, made := madeTree(row)
	if !made {
		return git.Open(ctx, treeOf(row))
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	return repo.Worktree(ctx, top)
}

func treeRef(thread, name string) string { return "refs/plait/" + thread + "/" + name }

// snapshot returns the git tree of a thread's working tree, kept under a name;
// "" where there is no git. In a tree that is the person's own a snapshot that
// cannot be taken stands in nobody's way.
func (d *drive) snapshot(ctx context.Context, row store.Thread, name string) (string, error) {
	repo, err := repository(ctx, row)
	if err == nil {
		var tree string
		if tree, err = repo.Snapshot(ctx, treeRef(row.ID, name)); err == nil {
			return tree, nil
		}
	}
	if _, _, made := madeTree(row); made {
		return "", fmt.Errorf("snapshot of thread %s: %w", row.ID, err)
	}
	return "", nil
}

// putBack returns the worktree of a thread to how it was before an attempt that
// was cut off; that of an action, which begins anew in a new session, to how it was
// before the first attempt at the step. It reports false for a tree that is not the
// thread's own, and for one that an agent has left unusable.
func (d *drive) putBack(ctx context.Context, row store.Thread, a store.Attempt) (bool, error) {
	if !ownTree(row) {
		return false, nil
	}
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("put back the tree of attempt %s: %w", a.ID, err)
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return fail(err)
	}
	def, err := d.engine.Definition(ctx, row)
	if err != nil {
		return fail(err)
	}
	first := a.N
	if def.Acts() != "" {
		tries, err := d.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID, From: a.From})
		if err != nil {
			return fail(err)
		}
		for _, try := range tries {
			first = min(first, try.N)
		}
	}
	tree := ""
	for n := first; n <= a.N && tree == ""; n++ {
		if tree, err = keptTree(ctx, repo, row.ID, engine.TreeBefore(n)); err != nil {
			return fail(err)
		}
	}
	if tree == "" {
		return true, nil // it is taken before the agent begins: none has
	}
	work, err := repo.Worktree(ctx, worktreeRoot(row))
	if err != nil {
		return false, nil
	}
	if err := work.Restore(ctx, tree); err != nil {
		return fail(err)
	}
	return true, nil
}

// removeTrees takes the worktrees and refs of a removed task away.
func (c *Controller) removeTrees(ctx context.Context, rows []store.Thread) error {
	var errs error
	for i := len(rows) - 1; i >= 0; i-- {
		row := rows[i]
		repo, err := git.Open(ctx, row.Workspace)
		if errors.Is(err, git.ErrNone) || errors.Is(err, git.ErrRefused) {
			return nil
		}
		if err == nil && ownTree(row) {
			root := worktreeRoot(row)
			if is, statErr := os.Lstat(root); statErr == nil && !is.IsDir() {
				err = os.Remove(root) // an agent put it in its tree's place; a link is not followed
			}
			if err == nil {
				_, err = repo.Remove(ctx, root, treeRef(row.ID, "last-"+strconv.Itoa(row.Steps)))
			}
			err = errors.Join(err, os.RemoveAll(root+".ready"))
		}
		if err == nil {
			err = repo.DropRefs(ctx, treeRef(row.ID, ""))
		}
		errs = errors.Join(errs, err)
	}
	return errs
}
