package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// worktreeDir returns the directory in the worktree of row that corresponds to tree in its
// repository, or "" if tree is not under git.
func worktreeDir(ctx context.Context, row store.Thread, tree string) (string, error) {
	repo, err := git.Open(ctx, tree)
	if errors.Is(err, git.ErrNoGit) {
		return "", err
	}
	if err != nil {
		return "", nil
	}
	inside, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return "", nil
	}
	rel, err := filepath.Rel(repo.Root(), inside)
	if err != nil || !filepath.IsLocal(rel) && rel != "." {
		return "", nil
	}
	return filepath.Join(root(row), rel), nil
}

// TreeIn returns the path of a directory in the thread's own worktree; inside is its path in the repository.
// workspace may be a name, see package place.
func TreeIn(workspace, thread, inside string) string {
	return filepath.Join(workspace, ".plait", "worktrees", thread, filepath.FromSlash(inside))
}

// root is the top of a thread's worktree, if it has one.
func root(row store.Thread) string { return TreeIn(row.Workspace, row.ID, "") }

// Made returns the top of the worktree that a thread works in, and the thread that it was made for. ok is false
// if the thread works in the person's own tree.
func Made(row store.Thread) (top, of string, ok bool) {
	rel, err := filepath.Rel(TreeIn(row.Workspace, "", ""), row.Tree)
	if row.Tree == "" || err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", "", false
	}
	of, _, _ = strings.Cut(rel, string(filepath.Separator))
	return TreeIn(row.Workspace, of, ""), of, true
}

// Own reports whether a thread works in a worktree that was made for it.
func Own(row store.Thread) bool {
	_, of, ok := Made(row)
	return ok && of == row.ID
}

// Place returns the tree in which row works, a path or child of parent that writes: its own worktree under git,
// otherwise its parent's tree.
func (t *Trees) Place(ctx context.Context, parent, row store.Thread) (string, error) {
	if top, _, ok := Made(parent); ok { // an agent has worked there, so its git files are not trusted
		rel, err := filepath.Rel(top, parent.Tree)
		return filepath.Join(root(row), rel), err
	}
	dir, err := worktreeDir(ctx, row, Of(parent))
	return cmp.Or(dir, parent.Tree), err
}

// PlaceFork returns the tree in which next works, a user's fork of row that writes: its own worktree if the
// record has the files at its head, otherwise row's tree.
func (t *Trees) PlaceFork(ctx context.Context, row, next store.Thread) (string, error) {
	if top, _, made := Made(row); made && t.placed(row) {
		rel, err := filepath.Rel(top, row.Tree)
		return filepath.Join(root(next), rel), err
	}
	base := row.Workspace
	if _, _, made := Made(row); row.Tree != "" && !made {
		base = row.Tree
	}
	dir, err := worktreeDir(ctx, next, base)
	if dir == "" {
		return row.Tree, err
	}
	left, err := t.Left(ctx, next.Head, dag.Hash{})
	if err == nil && left == "" && Own(row) {
		var repo *git.Repo
		if repo, err = git.Open(ctx, row.Workspace); err == nil {
			left, err = t.originTree(ctx, repo, row)
		}
	}
	if err != nil || left == "" {
		return row.Tree, err
	}
	return dir, nil
}

// PlaceImported returns the tree in which row, the root of a task from another machine, goes on: its own worktree if
// the directory here has other files than the task left there, and the record has those; otherwise row's tree.
func (t *Trees) PlaceImported(ctx context.Context, row store.Thread) (string, error) {
	if _, _, made := Made(row); made || t.placed(row) {
		return row.Tree, nil
	}
	left, err := t.Left(ctx, row.Head, dag.Hash{})
	if err != nil || left == "" {
		return row.Tree, err
	}
	dir, err := worktreeDir(ctx, row, Of(row))
	if err != nil || dir == "" {
		return row.Tree, err
	}
	if here, err := t.Snapshot(ctx, row, ""); err != nil || here == left {
		return row.Tree, err
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err == nil {
		err = t.fetch(ctx, repo, row, left, row.Head)
	}
	if errors.Is(err, store.ErrNotFound) {
		return row.Tree, nil
	}
	return dir, err
}

// Prepare makes the worktree of a thread that has one, unless it exists.
func (t *Trees) Prepare(ctx context.Context, row store.Thread) error {
	err := t.prepare(ctx, row)
	if err == nil && t.cfg.Cell != nil { // also before anything outside the cell reads the tree
		if _, err = t.cfg.Cell.Admit(row.Workspace, Of(row)); err != nil {
			err = taskError{fmt.Errorf("use the working tree of thread %s: %w", row.ID, err)}
		}
	}
	return err
}

func (t *Trees) prepare(ctx context.Context, row store.Thread) error {
	fail := func(err error) error { return fmt.Errorf("make the working tree of thread %s: %w", row.ID, err) }
	if t.placed(row) {
		if err := t.settle(ctx, row); err != nil {
			return fail(err)
		}
		return nil
	}
	if !Own(row) {
		return nil
	}
	top := root(row)
	if _, err := os.Lstat(top); errors.Is(err, os.ErrNotExist) {
		repo, tree, err := t.baseTree(ctx, row)
		if err == nil { // another machine may have made it
			err = t.fetch(ctx, repo, row, tree, row.Head)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(top), 0o755)
		}
		if err == nil {
			err = repo.Checkout(ctx, top, tree)
		}
		if err != nil {
			return fail(err)
		}
	}
	if err := t.complete(ctx, row, top); err != nil {
		return fail(err)
	}
	return nil
}

// complete adds what no git tree has: the directory that the thread works in, and the results of the setup
// command.
func (t *Trees) complete(ctx context.Context, row store.Thread, top string) error {
	if err := fill(row, top); err != nil {
		if _, ofSystem := errors.AsType[syscall.Errno](err); !ofSystem { // a link leads out of it
			err = taskError{err}
		}
		return err
	}
	return t.setUp(ctx, row, top)
}

// fill makes the directory that a thread works in, since git keeps no empty directory. It follows no link that leads
// out of the worktree.
func fill(row store.Thread, top string) error {
	inside, err := filepath.Rel(top, row.Tree)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.MkdirAll(inside, 0o755)
}

// Begin makes a thread's own worktree from a git tree, before the thread begins.
func (t *Trees) Begin(ctx context.Context, row store.Thread, tree string) error {
	repo, err := git.Open(ctx, row.Workspace)
	if err == nil && !Own(row) {
		err = errors.New("it has no worktree of its own")
	}
	if err == nil {
		err = repo.Checkout(ctx, root(row), tree)
	}
	if err != nil {
		return fmt.Errorf("make the working tree of thread %s: %w", row.ID, err)
	}
	return nil
}

// baseTree returns the git tree that a thread's worktree begins with. It is what the thread's own steps left.
// Otherwise, for a path, it is its parent's files as they were when the first path of the fork began; for a
// user's fork, what the steps before it left.
func (t *Trees) baseTree(ctx context.Context, row store.Thread) (*git.Repo, string, error) {
	own := dag.Hash{} // the steps after it are the thread's own
	if row.Parent != nil {
		own = row.Parent.From
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, "", err
	}
	tree, err := t.Left(ctx, row.Head, own)
	if err != nil || tree != "" {
		return repo, tree, err
	}
	if row.Parent == nil {
		if tree, err = t.originTree(ctx, repo, row); err == nil && tree == "" {
			err = errors.New("no step before the fork says how its files were")
		}
		return repo, tree, err
	}
	parent, err := t.cfg.Store.Thread(ctx, row.Parent.Thread)
	if err != nil {
		return nil, "", err
	}
	defer t.held.take(Of(parent))() // if several paths begin at once, the first takes the snapshot
	if tree, _, err := t.forkSnapshot(ctx, repo, row); err != nil || tree != "" {
		return repo, tree, err
	}
	tree, err = t.Hold(ctx, parent, asOfFork(row))
	return repo, tree, err
}

// forkSnapshot returns the snapshot of the files of a path's parent at the fork, and the ref that keeps it; ""
// for none. The snapshot is the parent's own, or that of the thread from which the parent adopted paths.
func (t *Trees) forkSnapshot(ctx context.Context, repo *git.Repo, path store.Thread) (tree, kept string, err error) {
	row, err := t.cfg.Store.Thread(ctx, path.Parent.Thread)
	for ok := true; ok && err == nil; row, ok, err = thread.Origin(ctx, t.cfg.Store, row) {
		kept = ref(row.ID, asOfFork(path))
		if tree, err = treeAt(ctx, repo, kept); err != nil || tree != "" {
			return tree, kept, err
		}
	}
	return "", "", err
}

// originTree returns the git tree that a path began with, for a user's fork of that path before any step that
// records its files; "" if unknown.
func (t *Trees) originTree(ctx context.Context, repo *git.Repo, row store.Thread) (string, error) {
	for row.Parent == nil {
		if !Own(row) {
			return "", nil
		}
		from, ok, err := thread.Origin(ctx, t.cfg.Store, row)
		if err != nil || !ok {
			return "", err
		}
		row = from
	}
	tree, _, err := t.forkSnapshot(ctx, repo, row)
	return tree, err
}

// asOfFork names the snapshot of a thread's files at the fork where a path left.
func asOfFork(path store.Thread) string { return "fork-" + path.Parent.From.Short() }

// treeAt returns the tree under a ref, or "" if there is none.
func treeAt(ctx context.Context, repo *git.Repo, ref string) (string, error) {
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

// Left returns the git tree that the newest step after until, up to head, left; "" if no step records one.
func (t *Trees) Left(ctx context.Context, head, until dag.Hash) (string, error) {
	d, err := t.newest(ctx, head, until)
	if d == nil || err != nil {
		return "", err
	}
	return *d.TreeAfter, nil
}

// newest returns the detail with the files of the newest step after until, up to head, or of the thread which
// that step called, since both work in one tree; nil if there is none.
func (t *Trees) newest(ctx context.Context, head, until dag.Hash) (*thread.Detail, error) {
	for s, err := range t.cfg.Reader.Walk(ctx, head) {
		if err != nil {
			return nil, err
		}
		if s.Hash == until {
			break
		}
		d, err := t.cfg.Reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d != nil && d.TreeAfter != nil {
			return d, nil
		}
		if s.State.ChildThread.IsZero() {
			continue
		}
		if d, err := t.newest(ctx, s.State.ChildThread, dag.Hash{}); err != nil || d != nil {
			return d, err
		}
	}
	return nil, nil
}

// repository opens the working tree of a thread. A worktree that was made for a thread is opened from the
// workspace's repository, since an agent has worked in it.
func repository(ctx context.Context, row store.Thread) (*git.Repo, error) {
	top, _, made := Made(row)
	if !made {
		return git.Open(ctx, Of(row))
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	return repo.Worktree(ctx, top)
}

// Remove removes the worktrees and refs of a removed task, the youngest thread first. It keeps nothing, so that
// nothing that an agent left in its tree prevents it.
func (t *Trees) Remove(ctx context.Context, rows []store.Thread) error {
	var errs error
	for i := len(rows) - 1; i >= 0; i-- {
		row := rows[i]
		repo, err := git.Open(ctx, row.Workspace)
		if noRepository(err) {
			continue
		}
		if err == nil && Own(row) {
			err = discard(repo, row)
		}
		if err == nil {
			err = repo.DropRefs(ctx, ref(row.ID, ""))
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// discard removes the worktree of a thread, whatever is there.
func discard(repo *git.Repo, row store.Thread) (err error) {
	top := root(row)
	if is, statErr := os.Lstat(top); statErr == nil && !is.IsDir() {
		err = os.Remove(top) // an agent may have replaced its tree with a link, which is not followed
	}
	if err == nil {
		err = repo.Discard(top)
	}
	if errors.Is(err, git.ErrNone) { // the repository was created again, and does not know it
		err = git.RemoveAll(top)
	}
	return errors.Join(err, os.RemoveAll(readyFile(top)))
}
